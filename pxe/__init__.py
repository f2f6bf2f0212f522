"""How the node is deployed: setup, QEMU nodes, boot servers, the local gateway, templates."""

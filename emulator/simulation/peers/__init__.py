"""Peers of a node on the virtual wire: ARP, DHCP, DNS, TCP, WebSocket and the chat gateway."""

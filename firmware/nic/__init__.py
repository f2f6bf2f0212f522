"""The boot NIC as "take this frame" and "give me a frame": virtio-net, legacy and modern."""

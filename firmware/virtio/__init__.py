"""What every virtio function has on its PCI side, and the one that gives random bytes."""

"""Reference models of `firmware.virtio`."""

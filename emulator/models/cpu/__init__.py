"""Reference models of `firmware.cpu`."""

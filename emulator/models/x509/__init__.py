"""Reference models of `firmware.x509`."""

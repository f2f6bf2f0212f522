"""Reference models of `firmware.net`."""

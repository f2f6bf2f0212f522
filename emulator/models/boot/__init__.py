"""Reference models of `firmware.boot` (64-bit code; the 16- and 32-bit stages are judged in QEMU)."""

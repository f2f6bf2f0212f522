"""Devices of the emulated node: what answers ports, device windows and DMA."""

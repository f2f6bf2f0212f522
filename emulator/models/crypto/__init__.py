"""Models of firmware.crypto."""

"""Models of firmware.gateway."""

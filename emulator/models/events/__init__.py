"""Models of firmware.events."""

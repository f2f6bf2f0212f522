"""Models of firmware.json."""

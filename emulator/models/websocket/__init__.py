"""Models of firmware.websocket."""

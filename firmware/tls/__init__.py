"""TLS between TCP and WebSocket; a pass-through in this slice."""

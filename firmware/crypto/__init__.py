"""SHA-1 and base64 for the WebSocket accept key, and the ChaCha20 random generator of the node."""

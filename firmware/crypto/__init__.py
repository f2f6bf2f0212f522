"""Hashes and their keyed forms, base64, and the ChaCha20 random generator of the node."""

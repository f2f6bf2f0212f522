"""Reference models of the TLS layer."""

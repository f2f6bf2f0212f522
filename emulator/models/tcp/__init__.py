"""Reference models of the TCP client."""

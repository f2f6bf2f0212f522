"""Models of the node layer."""

"""Models of the fleet."""

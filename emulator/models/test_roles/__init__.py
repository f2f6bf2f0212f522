"""Models of firmware.test_roles."""

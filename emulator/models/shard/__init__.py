"""Models of the shard lifecycle."""

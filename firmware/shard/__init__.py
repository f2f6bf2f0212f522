"""The lifecycle of one shard: states, backoff, reset, resume (seed A)."""

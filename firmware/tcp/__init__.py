"""A TCP client: one connection per shard, all its state in the shard's workspace (RFC 9293)."""

"""A Discord Gateway client: Hello, heartbeats, Identify or Resume, dispatches, and every way it ends.

`gateway_poll` reads what came; `gateway_tick` does what is due. Both only note a failure
(`shard_fail`); the lifecycle acts on it.
"""

"""NATS as the node speaks it: a text protocol on two connections (`firmware/docs/bus.md`).

A link is a workspace like a shard's: RBX is its `ShardContext`, RBP its `BusLink`. Upper layers call
`bus_next` until there is nothing more, `bus_done` behind each message, and write between `bus_open` and
`bus_close`. Whatever the server gets wrong ends the link with a named site, and the next server is tried.
"""

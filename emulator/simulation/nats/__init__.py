"""A simulated NATS: three servers of a cluster with JetStream, in virtual time, without sockets.

Whole nodes reach it over the virtual wire (`peers/nats.py`); reference models and tests feed sessions
directly. What a client hears is that of nats-server 2.15.1, compared with the real one by
`tests/emulator/simulation/nats/test_differential.py`. Nothing is shared with the firmware's client.

- `protocol`, `subjects`: what clients write; `auth`: who they are; `session`: one of them.
- `server`: one server and its clients; `cluster`: routes, partitions, who leads.
- `stream`: a log that all agree on, and what each server has of it; `consumer`: a watch;
  `api`: requests on `$JS.API`.
- `faults`: what a fault plan may do to all this.
"""

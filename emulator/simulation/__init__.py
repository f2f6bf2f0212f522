"""A deterministic world around a node: virtual wire, virtual time, scripted peers, fault plans.

Everything here is driven by one `random.Random(seed)` and one clock in integer nanoseconds.
Nothing opens a socket, starts a thread or reads the time of day, so a run replays exactly.
None of it shares code with the firmware or with its reference models::

    world = World(seed)
    internet = Internet(world)
    gateway = internet.gateway(options=GatewayOptions(shards=16, max_concurrency=16))
    port = internet.segment.port("node")
    monitor = Monitor(internet.segment, "node")
    world.attach(node, port)
    internet.segment.set_faults("drop p=0.01; at 30s link-down node; at 90s link-up node")
    world.run_until(lambda: gateway.core.stats().open_connections == 16)

- `world`, `clock`: who acts when; `wire`: ports, cables, captures; `faults`, `matching`, `plans`:
  what goes wrong; `campaign`: many seeds, and the shortest plan that still fails.
- `packet`, `dhcp_message`: bytes; `corpus`: malformed ones; `monitor`: what a node sent.
- `host`, `internet`, `peers`: the machines that a node talks to, and their misbehaviours.
"""

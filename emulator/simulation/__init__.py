"""A deterministic world around a node: virtual wire, virtual time, scripted peers, fault plans.

Everything here is driven by one `random.Random(seed)` and one clock in integer nanoseconds.
Nothing opens a socket, starts a thread or reads the time of day, so a run replays exactly.
None of it shares code with the firmware or with its reference models; only what looks into a node
reads the firmware's layouts::

    rig = Rig(seed, faults="drop p=0.01; at 30s link-down node; at 90s link-up node")
    rig.until_ready()
    rig.gateway.core.kick(7, 4009)
    rig.gateway.flush()
    rig.run(30)

A rig is put together from the parts below; a world can hold several nodes.

- `rig`: one node of the release image with an internet, a gateway and a monitor; `fleet`: several
  nodes of one bot; `storm`: a seed; `timeline`: what happened in it.
- `node`, `node_facts`, `trace`: the image in Unicorn, what a boot leaves behind, what ran.
- `invariants`, `shard_rules`, `shard_row`, `write_watch`, `store_judge`: what must hold after every turn;
  `ledger`: the gateway's record against the node's; `pools`: what must be free at rest; `planted`: bugs that
  all of these must find.

- `leased`: nodes that share shards by leases; `operator`, `fleet_records`, `fleet_facts`: their plan;
  `ownership`: who may speak for a shard; `fleet_plans`, `fleet_storm`: a seed; `nats`: the servers.
- `world`, `clock`: who acts when; `wire`: ports, cables, captures; `faults`, `matching`, `plans`:
  what goes wrong; `campaign`: many seeds, and the shortest plan that still fails.
- `packet`, `dhcp_message`: bytes; `corpus`: malformed ones; `monitor`: what a node sent.
- `host`, `internet`, `peers`: the machines that a node talks to, and their misbehaviours.
"""

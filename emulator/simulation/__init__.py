"""A deterministic world around a node: virtual wire, virtual time, scripted peers, fault plans.

Everything here is driven by one `random.Random(seed)` and one clock in integer nanoseconds.
Nothing opens a socket, starts a thread or reads the time of day, so a run replays exactly.
None of it shares code with the firmware or with its reference models.
"""

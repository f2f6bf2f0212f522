"""Who logs in, by the variables that `shardfw fleet` reads too.

`SHARDFW_NATS_USER` and `SHARDFW_NATS_PASSWORD`, or `SHARDFW_NATS_NKEY` (a seed, SU...; needs nats-py[nkeys]);
`SHARDFW_NATS_CA` is the file of the CA that vouches for servers with TLS.
"""

from __future__ import annotations

import os
import ssl
from typing import Any

OPTIONS = {
    "user": "SHARDFW_NATS_USER",
    "password": "SHARDFW_NATS_PASSWORD",
    "nkeys_seed_str": "SHARDFW_NATS_NKEY",
}


def login() -> dict[str, Any]:
    """Return the options of `nats.connect`."""
    found: dict[str, Any] = {
        option: os.environ[name] for option, name in OPTIONS.items() if os.environ.get(name)
    }
    if authority := os.environ.get("SHARDFW_NATS_CA"):
        found["tls"] = ssl.create_default_context(cafile=authority)
    return found

"""Real NATS servers of one's own: one, or a cluster of three, with JetStream as a fleet wants it.

::

    async with NatsServer() as nats:
        print(nats.url)

Every port is one that was free; the store lies in a temporary folder that goes away at the end. The
defaults are those that a fleet asks of its operator: `sync_interval: always`, messages of up to 8 MB,
ten seconds for a login.
"""

from pxe.nats.client import is_wanted, settle
from pxe.nats.cluster import NatsCluster
from pxe.nats.options import (
    NatsOptions,
    NatsUser,
    Place,
    enrol_permissions,
    node_permissions,
    operator_permissions,
    reader_permissions,
)
from pxe.nats.server import NatsServer, find_server

__all__ = [
    "NatsCluster",
    "NatsOptions",
    "NatsServer",
    "NatsUser",
    "Place",
    "enrol_permissions",
    "find_server",
    "is_wanted",
    "node_permissions",
    "operator_permissions",
    "reader_permissions",
    "settle",
]

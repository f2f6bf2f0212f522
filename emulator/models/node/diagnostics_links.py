"""What an answer says of the links to NATS."""

from emulator.effects import World, model
from firmware.layouts.bus import BUS
from firmware.layouts.shard import ShardContext
from firmware.layouts.status import StatusReply


@model
def describe_links(w: World, reply: int) -> None:
    """Both links, as far as they have a workspace."""
    answer = w.view(StatusReply, reply)
    for n in range(2):
        link, place = w.g(BUS).links[n], answer.links[n]
        if not link.context:
            return
        answer.fleet = 1
        for name in ("state", "error", "version", "ups", "failures", "denials"):
            setattr(place, name, getattr(link, name))
        tcp = w.view(ShardContext, link.context).tcp
        place.ip, place.port = tcp.remote_ip, tcp.remote_port

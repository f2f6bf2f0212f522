"""Server messages as JSON text."""

import json
from typing import Final

from pxe.gateway.protocol import Opcode

ENVELOPE_ORDERS: Final = {
    "discord": ("t", "s", "op", "d"),
    "op_first": ("op", "t", "s", "d"),
    "body_first": ("d", "op", "s", "t"),
    "fluxer": ("op", "t", "s", "d"),
}
"""Order of the keys of a message: a client may depend on none of them."""
BODILESS: Final = (Opcode.RECONNECT, Opcode.HEARTBEAT_ACK)

JsonValue = object
"""Whatever ``json.dumps`` takes."""


def dumps(value: JsonValue) -> str:
    """Return compact JSON, non-ASCII characters as they are."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_NULL: Final = "null"


class Envelopes:
    """Writes messages with one order of keys.

    Args:
        order: A key of ENVELOPE_ORDERS.
        bare_controls: Leave out of a control message what it does not need.
    """

    def __init__(self, order: str, *, bare_controls: bool = False) -> None:
        self._bare_controls = bare_controls
        slots = {"t": "%(t)s", "s": "%(s)s", "op": "%(op)d", "d": "%(d)s"}
        keys = ENVELOPE_ORDERS[order]
        self._format = "{" + ",".join(f'"{key}":{slots[key]}' for key in keys) + "}"

    def control(self, op: Opcode, body: JsonValue = None) -> str:
        """Return a message that is no dispatch; ``s`` and ``t`` are null or left out."""
        if self._bare_controls:
            return dumps({"op": op} if op in BODILESS else {"d": body, "op": op})
        return self._format % {"t": _NULL, "s": _NULL, "op": op, "d": dumps(body)}

    def dispatch(self, event: str, sequence: int, body: str) -> str:
        """Return a dispatch; ``body`` is JSON text already."""
        fields = {"t": f'"{event}"', "s": sequence, "op": Opcode.DISPATCH, "d": body}
        return self._format % fields

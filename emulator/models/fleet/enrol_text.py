"""What a node says of itself when it enrols."""

from emulator.effects import World, model
from emulator.models.text import put_decimal, put_hex
from firmware.layouts.bus import BUS
from firmware.layouts.config import CONFIG
from firmware.layouts.enrol import ENROL, EnrolState
from firmware.layouts.fleet_config import FLEET_CONFIG
from firmware.layouts.node import NETWORK
from firmware.layouts.smbios import SMBIOS


@model
def put_hex_bytes(w: World, text: int, source: int, groups: int) -> int:
    """Two digits for each byte, in their order."""
    for n in range(groups):
        text = put_hex(w, text, int.from_bytes(w.read(source + 4 * n, 4), "big"))
    return text


def _put(w: World, text: int, part: bytes) -> int:
    w.write(text, part)
    return text + len(part)


@model
def enrol_identity(w: World, text: int) -> int:
    """Card, UUID, serial number, build; hexadecimal, or `-`."""
    mac, machine = w.g(NETWORK).mac, w.g(SMBIOS)
    text = put_hex_bytes(w, text, mac.address, 1)
    # Eight digits, of which the last four are of nothing.
    text = put_hex(w, text, int.from_bytes(mac[4:6], "big") << 16) - 4
    text = _put(w, text, b" ")
    if any(bytes(machine.uuid)):
        text = put_hex_bytes(w, text, machine.uuid.address, 4)
    else:
        text = _put(w, text, b"-")
    text = _put(w, text, b" ")
    text = _put(w, text, machine.serial[: machine.serial_len] or b"-")
    text = _put(w, text, b" ")
    return int(put_hex_bytes(w, text, w.g(CONFIG).build_id.address, 5))


@model
def enrol_facts(w: World) -> None:
    """The info: purpose, bot, node, identity."""
    state, config, bus = w.g(ENROL), w.g(FLEET_CONFIG), w.g(BUS)
    start = state.identity.address
    state.identity_len = enrol_identity(w, start) - start
    info = b"shardfw enrol 1 %b %b %b" % (
        config.bot[: config.bot_len],
        bus.node[: bus.node_len],
        state.identity[: state.identity_len],
    )
    state.info[: len(info)] = info
    state.info_len = len(info)


@model
def enrol_body(w: World) -> int:
    """Format, state, refusals, public key, identity."""
    state = w.g(ENROL)
    start = state.body.address
    waits = state.state == EnrolState.WAITING
    at = _put(w, start, b"1 waiting " if waits else b"1 enrolled ")
    at = _put(w, put_decimal(w, at, state.refused), b" ")
    at = _put(w, put_hex_bytes(w, at, state.keys.public.address, 8), b" ")
    return _put(w, at, state.identity[: state.identity_len]) - int(start)

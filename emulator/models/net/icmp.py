"""Pings."""

from emulator.effects import World, model
from emulator.models.net.answer import net_answer
from emulator.models.net.checksum import checksum
from emulator.models.net.ip import header_of
from emulator.models.nic.queue import nic_commit, nic_reserve
from firmware.layouts.net import NET, IcmpHeader, Ipv4Header
from firmware.layouts.node import NETWORK

LONGEST = 1480


@model
def icmp_input(w: World, message: int, length: int, source: int) -> None:
    """A whole, undamaged echo request comes back with type 0, to the MAC that sent it."""
    net, network = w.g(NET), w.g(NETWORK)
    if not 8 <= length <= LONGEST or checksum(w, 0, message, length):
        net.counters.icmp_bad += 1
        return
    raw = w.read(message, length)
    if raw[0] != 8:
        net.counters.icmp_others += 1
        return
    if raw[1] != 0:
        net.counters.icmp_bad += 1
        return
    if net_answer(w):
        return
    frame, full = nic_reserve(w)
    if full:
        net.counters.tx_no_buffer += 1
        return
    net.counters.echo_replies += 1
    net.ident += 1
    w.write(frame, w.read(net.rx_frame + 6, 6) + bytes(network.mac) + b"\x08\x00")
    ends = (network.ip, source)
    w.write(frame + 14, header_of(w, length + 20, net.ident, 0, 1, ends))
    w.view(Ipv4Header, frame + 14).checksum = checksum(w, 0, frame + 14, 20)
    w.write(frame + 34, raw)
    w.write(frame + 34, b"\x00\x00\x00\x00")
    w.view(IcmpHeader, frame + 34).checksum = checksum(w, 0, frame + 34, length)
    nic_commit(w, length + 34)

from __future__ import annotations

from emulator.simulation.clock import NS_PER_S
from emulator.simulation.monitor import Monitor
from emulator.simulation.packet import RST, ip
from emulator.simulation.peers.tcp import TcpConfig


def test_a_flow_is_counted_from_syn_to_fin(pair):
    monitor = Monitor(pair.segment, "node")
    client, server = pair.open()
    client.send(bytes(3000))
    client.close()
    pair.world.run_for(NS_PER_S)
    (flow,) = monitor.flows.values()
    assert (flow.remote, flow.local_port) == ((pair.peer.address, 80), client.local[1])
    assert flow.isns == [client.iss]
    assert (flow.payload, flow.repeated, flow.largest, flow.fins) == (3000, 0, 1460, 1)
    assert flow.segments == client.stats.segments_out
    assert monitor.kinds == {"arp": 1, "tcp": flow.segments}
    assert str(flow) == f"{client.local[1]} -> 10.0.0.1:80"
    assert server.stats.bytes_in == 3000


def test_repetitions_are_seen_although_they_are_lost(pair_of):
    pair = pair_of(1, "drop match=data from=node nth=1,2,3")
    monitor = Monitor(pair.segment, "node")
    client, _ = pair.open(TcpConfig(isn=0xFFFFFFF0))
    client.send(bytes(100))
    pair.world.run_for(10 * NS_PER_S)
    (flow,) = monitor.flows.values()
    assert (flow.payload, flow.repeated) == (400, 300)
    assert len(pair.received) == 100


def test_dials_and_their_rate(pair):
    monitor = Monitor(pair.segment, "node")
    pair.listen()
    for number in range(6):
        pair.connect(port=80 if number < 4 else 81)
        pair.world.run_for(20 * NS_PER_S)
    assert [time // NS_PER_S for time in monitor.dials()] == [0, 20, 40, 60, 80, 100]
    assert len(monitor.dials("10.0.0.1", 80)) == 4
    assert monitor.dials("10.0.0.9") == []
    assert monitor.most_dials_in(45 * NS_PER_S) == 3
    assert monitor.most_dials_in(address="10.0.0.9") == 0


def test_silence_is_provable(pair):
    monitor = Monitor(pair.segment, "node")
    client, _ = pair.open()
    pair.world.run_for(NS_PER_S)
    quiet_from = pair.world.now_ns
    pair.world.run_for(100 * NS_PER_S)
    assert monitor.sent_since(quiet_from) == []
    client.inject(RST)
    pair.world.run_for(NS_PER_S)
    assert [flow.resets for flow in monitor.sent_since(quiet_from)] == [1]
    assert monitor.sent_since(quiet_from, "10.0.0.9") == []
    assert (monitor.last_ns or 0) > quiet_from


def test_other_kinds_and_damage_are_kept_apart(pair):
    monitor = Monitor(pair.segment, "node")
    pair.node.ping(pair.peer.address)
    pair.node.send_udp(ip("10.0.0.255"), 9, 9, b"x")
    pair.node.port.inject(b"\x02" * 12 + b"\x86\xdd" + bytes(46))
    pair.node.port.inject(b"short")
    pair.world.run_for(NS_PER_S)
    assert monitor.kinds == {"arp": 1, "ip protocol 1": 1, "udp": 1, "0x86dd": 1}
    assert [udp.payload for _, _, udp in monitor.udp] == [b"x"]
    assert len(monitor.malformed) == 1

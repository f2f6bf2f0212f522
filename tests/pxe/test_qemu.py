"""The command line of a node is a function of its options."""

from pathlib import Path

import pytest

from pxe import qemu
from pxe.node import (
    DatagramNet,
    DirectBoot,
    MissingProgramError,
    MulticastNet,
    NicModel,
    NodeOptions,
    StreamNet,
    TapNet,
    UserNet,
)
from pxe.qemu import Netdev, build_command, build_hub_command


@pytest.fixture(autouse=True)
def qemu_is_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "require_program", lambda program, _package: program)


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (UserNet(diagnostics_port=None), "user,id=net0"),
        (
            UserNet(Path("/a,b"), "nbp.bin", 9),
            "user,id=net0,tftp=/a,,b,bootfile=nbp.bin,hostfwd=udp:127.0.0.1:0-:9",
        ),
        (
            DatagramNet(Path("/l"), Path("/r")),
            "dgram,id=net0,local.type=unix,local.path=/l,remote.type=unix,remote.path=/r",
        ),
        (StreamNet(Path("/s")), "stream,id=net0,server=off,addr.type=unix,addr.path=/s"),
        (
            MulticastNet(5000),
            "socket,id=net0,mcast=230.77.0.1:5000,localaddr=127.0.0.1",
        ),
        (TapNet("tap3"), "tap,id=net0,ifname=tap3,script=no,downscript=no,vnet_hdr=off"),
    ],
)
def test_netdev_is_rendered(net: Netdev, expected: str) -> None:
    command = build_command(NodeOptions(net=net), 7)
    assert command[command.index("-netdev") + 1] == expected


def test_network_boot_names_no_rom_and_makes_the_nic_the_boot_device() -> None:
    command = build_command(NodeOptions(net=UserNet(), nic=NicModel.MODERN), 7)
    assert not any("romfile" in argument for argument in command)
    assert command[command.index("-device", command.index("-netdev")) + 1] == (
        "virtio-net-pci,disable-legacy=on,id=nic0,netdev=net0,mac=52:54:00:12:34:56,bootindex=0"
    )
    assert "-kernel" not in command


def test_direct_boot_loads_the_image_and_leaves_boot_index_0_to_it() -> None:
    command = build_command(NodeOptions(net=UserNet(), boot=DirectBoot(Path("/i.bin"))), 7)
    assert command[-2:] == ["-kernel", "/i.bin"]
    assert not any("bootindex" in argument for argument in command)


def test_machine_has_the_flags_that_the_node_needs() -> None:
    command = " ".join(build_command(NodeOptions(net=UserNet()), 7))
    for flags in ("-cpu max", "-m 32", "-nodefaults", "-display none", "-device i6300esb"):
        assert flags in command
    assert "-action watchdog=reset" in command
    assert "socket,id=qmp0,fd=7" in command


def test_options_of_a_measurement_are_passed_on() -> None:
    options = NodeOptions(
        net=UserNet(),
        pcap=Path("/p.pcap"),
        icount="shift=3",
        seed=42,
        reboot=False,
        extra=("-rtc", "base=2026-01-01"),
    )
    command = " ".join(build_command(options, 7))
    assert "filter-dump,id=dump0,netdev=net0,file=/p.pcap" in command
    assert "-icount shift=3 -seed 42 -no-reboot -rtc base=2026-01-01" in command


def test_hub_joins_a_user_network_to_a_segment() -> None:
    command = " ".join(build_hub_command([MulticastNet(5000)], UserNet(), 7))
    assert "-machine none" in command
    assert "hubport,id=port0,hubid=0,netdev=side0" in command
    assert "hubport,id=port1,hubid=0,netdev=side1" in command


def test_hub_joins_the_cables_of_several_nodes() -> None:
    cables = [StreamNet(Path(f"/c{number}"), server=True) for number in (1, 2)]
    command = " ".join(build_hub_command(cables, UserNet(), 7))
    for number in (1, 2):
        assert f"stream,id=side{number},server=on,addr.type=unix,addr.path=/c{number}" in command
        assert f"hubport,id=port{number},hubid=0,netdev=side{number}" in command


def test_missing_program_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(
        MissingProgramError,
        match=r"no-such-qemu is not installed\. Run: sudo apt-get install qemu-x",
    ):
        qemu.require_program("no-such-qemu", "qemu-x")

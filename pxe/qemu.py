"""The QEMU command line of a node: machine, NIC, network, boot method, as declared values.

Flags are those measured to work: `-cpu max` because the default CPU lacks instructions that the node
uses; no `romfile` because naming one makes SeaBIOS skip it for a transitional NIC; `-nodefaults`
because a second NIC adds seven seconds of DHCP on the wrong one.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

QEMU = "qemu-system-x86_64"
NETDEV_ID = "net0"
DUMP_ID = "dump0"
# A node of sixteen shards fits; what fits is what tests should run with.
DEFAULT_MEMORY_MB = 32
DIAGNOSTICS_PORT = 4747


class MissingProgramError(RuntimeError):
    """A program of the system is not installed; the text names the Debian package."""

    def __init__(self, program: str, package: str) -> None:
        super().__init__(
            f"{program} is not installed. Run: sudo apt-get install {package} (make setup installs "
            "all that the project needs)"
        )


def require_program(program: str, package: str) -> str:
    """Return the path of a program, root's folders included.

    Raises:
        MissingProgramError: it is nowhere.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    found = shutil.which(program, path=path)
    if found is None:
        raise MissingProgramError(program, package)
    return found


class NicModel(Enum):
    """The device the node drives; the value is QEMU's device with its properties."""

    TRANSITIONAL = "virtio-net-pci"  # 1AF4:1000, legacy I/O BAR and modern BAR
    LEGACY = "virtio-net-pci,disable-modern=on"  # 1AF4:1000, I/O BAR only
    MODERN = "virtio-net-pci,disable-legacy=on"  # 1AF4:1041, memory BAR only


@dataclass(frozen=True)
class UserNet:
    """QEMU's user network: DHCP, TFTP and the host at 10.0.2.2, no root needed.

    Attributes:
        tftp: the folder that TFTP serves; None for no boot server.
        bootfile: the file DHCP names, relative to `tftp`.
        diagnostics_port: the node's UDP port, reachable on a free port of 127.0.0.1; None for none.
        guests: the addresses behind that port, one forward each; "" is the first that DHCP grants.
    """

    tftp: Path | None = None
    bootfile: str | None = None
    diagnostics_port: int | None = DIAGNOSTICS_PORT
    guests: tuple[str, ...] = ("",)

    def render(self, name: str) -> str:
        """Return the value of -netdev."""
        parts = [f"user,id={name}"]
        if self.tftp is not None:
            parts.append(f"tftp={escape(self.tftp)}")
        if self.bootfile is not None:
            parts.append(f"bootfile={self.bootfile}")
        if self.diagnostics_port is not None:
            # Host port 0: the kernel chooses a free one, and QMP tells which.
            target = self.diagnostics_port
            parts += [f"hostfwd=udp:127.0.0.1:0-{guest}:{target}" for guest in self.guests]
        return ",".join(parts)


@dataclass(frozen=True)
class DatagramNet:
    """One Unix datagram per frame, to and from another process (a relay).

    Attributes:
        local: the socket that QEMU makes.
        remote: the peer's socket; must exist when a frame is sent.
    """

    local: Path
    remote: Path

    def render(self, name: str) -> str:
        """Return the value of -netdev."""
        return (
            f"dgram,id={name},local.type=unix,local.path={escape(self.local)},"
            f"remote.type=unix,remote.path={escape(self.remote)}"
        )


@dataclass(frozen=True)
class StreamNet:
    """A Unix stream: each frame after its length, 4 bytes, big-endian.

    Attributes:
        path: the socket.
        server: whether QEMU listens; else it connects, and the peer must listen already.
    """

    path: Path
    server: bool = False

    def render(self, name: str) -> str:
        """Return the value of -netdev."""
        role = "on" if self.server else "off"
        return f"stream,id={name},server={role},addr.type=unix,addr.path={escape(self.path)}"


@dataclass(frozen=True)
class MulticastNet:
    """One segment for several nodes over loopback multicast; no root needed.

    Attributes:
        port: a UDP port that all nodes of the segment share.
        group: the multicast group.
    """

    port: int
    group: str = "230.77.0.1"

    def render(self, name: str) -> str:
        """Return the value of -netdev."""
        return f"socket,id={name},mcast={self.group}:{self.port},localaddr=127.0.0.1"


@dataclass(frozen=True)
class TapNet:
    """A tap interface that already exists, usually in a network namespace.

    Attributes:
        ifname: the interface.
    """

    ifname: str

    def render(self, name: str) -> str:
        """Return the value of -netdev; without vnet headers, so that a capture is readable."""
        return f"tap,id={name},ifname={self.ifname},script=no,downscript=no,vnet_hdr=off"


Netdev = UserNet | DatagramNet | StreamNet | MulticastNet | TapNet


@dataclass(frozen=True)
class PxeBoot:
    """Boot from the network through SeaBIOS and the NIC's boot ROM; 5.4 s before our first byte."""

    nic_property: ClassVar[str] = ",bootindex=0"

    def render(self) -> list[str]:
        """Return the boot flags: none, the NIC is the only boot device."""
        return []


@dataclass(frozen=True)
class DirectBoot:
    """Load a multiboot image without firmware waits; about 0.1 s to our first byte.

    Attributes:
        image: a flat multiboot 1 image.
    """

    image: Path
    # The image's loader takes boot index 0 for itself.
    nic_property: ClassVar[str] = ""

    def render(self) -> list[str]:
        """Return the boot flags."""
        return ["-kernel", str(self.image)]


@dataclass(frozen=True)
class NodeOptions:
    """Everything about one QEMU node.

    Attributes:
        net: where its frames go.
        boot: how its image gets into memory.
        nic: which device it finds.
        mac: its address; two nodes on one segment need two.
        memory_mb: RAM in MiB.
        machine: QEMU machine type.
        pcap: a file that gets every frame of the netdev.
        icount: value of -icount, for repeatable time; None for host time.
        seed: value of -seed, for repeatable RDRAND.
        reboot: whether a guest reset boots again; else it ends QEMU.
        prefix: a command put before QEMU, such as `ip netns exec NAME`.
        extra: more arguments, last.
    """

    net: Netdev
    boot: PxeBoot | DirectBoot = PxeBoot()
    nic: NicModel = NicModel.TRANSITIONAL
    mac: str = "52:54:00:12:34:56"
    memory_mb: int = DEFAULT_MEMORY_MB
    machine: str = "pc"
    pcap: Path | None = None
    icount: str | None = None
    seed: int | None = None
    reboot: bool = True
    prefix: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


def escape(path: Path) -> str:
    """Return a path as a value inside a comma-separated QEMU option."""
    return str(path).replace(",", ",,")


def build_command(options: NodeOptions, qmp: int) -> list[str]:
    """Return the argument list of a node, without the prefix.

    Args:
        options: the node.
        qmp: the inherited file descriptor of the control connection.

    Raises:
        MissingProgramError: QEMU is not installed.
    """
    command = [require_program(QEMU, "qemu-system-x86"), "-accel", "tcg", "-cpu", "max"]
    command += ["-machine", options.machine, "-m", str(options.memory_mb)]
    command += ["-nodefaults", "-display", "none", "-vga", "none"]
    # Serial lines travel over a pipe: nothing is lost before a reader is there.
    command += ["-chardev", "stdio,id=serial0,signal=off", "-serial", "chardev:serial0"]
    command += [
        "-chardev",
        f"socket,id=qmp0,fd={qmp}",
        "-mon",
        "chardev=qmp0,mode=control",
    ]
    command += ["-device", "i6300esb", "-action", "watchdog=reset"]
    command += ["-netdev", options.net.render(NETDEV_ID)]
    nic = f"{options.nic.value},id=nic0,netdev={NETDEV_ID},mac={options.mac}"
    command += ["-device", nic + options.boot.nic_property]
    if options.pcap is not None:
        dump = f"filter-dump,id={DUMP_ID},netdev={NETDEV_ID},file={escape(options.pcap)}"
        command += ["-object", dump]
    if options.icount is not None:
        command += ["-icount", options.icount]
    if options.seed is not None:
        command += ["-seed", str(options.seed)]
    if not options.reboot:
        command += ["-no-reboot"]
    return [*command, *options.boot.render(), *options.extra]


def build_hub_command(cables: Sequence[Netdev], user: UserNet, qmp: int) -> list[str]:
    """Return the argument list of a QEMU without a machine that joins a user network to a segment.

    It gives the nodes behind the cables DHCP, TFTP and the host at 10.0.2.2 without root. A cable may
    be a whole `MulticastNet`, but that gives the user network its own frames back, which ends every
    TCP connection to the host; nodes that need one have a `StreamNet` each.
    """
    command = [require_program(QEMU, "qemu-system-x86"), "-machine", "none", "-nodefaults"]
    command += ["-display", "none", "-chardev", f"socket,id=qmp0,fd={qmp}"]
    command += ["-mon", "chardev=qmp0,mode=control"]
    for port, netdev in enumerate([user, *cables]):
        command += ["-netdev", netdev.render(f"side{port}")]
        command += ["-netdev", f"hubport,id=port{port},hubid=0,netdev=side{port}"]
    return command

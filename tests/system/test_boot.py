"""QEMU nodes come up by each boot path, survive a shard's faults, and tell of their own."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from firmware.image import link_bios, link_direct
from pxe.node import DirectBoot, NicModel, Node, NodeOptions, UserNet
from tests.system.roles import fault_probe, hang, stack_overflow
from toolchain.asm import Routine

pytestmark = pytest.mark.system
# Boots take 6 s through the boot ROM and 0.2 s directly; a loaded machine takes several times that.
SECONDS = 60
FIELD = re.compile(r"(\S+)=(\S+)")


def fields(text: str) -> dict[str, str]:
    """Return the keys and values of a log line."""
    return dict(FIELD.findall(text))


def run(options: NodeOptions, scenario: Callable[[Node], Awaitable[None]]) -> None:
    """Run a scenario on a node."""

    async def body() -> None:
        async with Node(options) as node:
            await scenario(node)

    asyncio.run(body())


def direct(folder: Path, *roles: Routine, **options: object) -> NodeOptions:
    """Return a node that boots an image with roles in place of routines of the same names."""
    image = folder / "direct.bin"
    image.write_bytes(link_direct({role.name: role for role in roles})[1])
    return NodeOptions(net=UserNet(), boot=DirectBoot(image), **options)  # type: ignore[arg-type]  # test shorthand


@pytest.mark.parametrize("nic", list(NicModel))
def test_direct_boot_in_32_mb_finds_clock_nic_and_watchdog(tmp_path: Path, nic: NicModel) -> None:
    async def scenario(node: Node) -> None:
        started = fields((await node.wait_line("code=boot.started", SECONDS)).text)
        assert started["pci"] != "0xffffffff"
        clock = fields((await node.wait_line("code=boot.clock", SECONDS)).text)
        assert int(clock["khz"]) > 100_000
        assert clock["sources"] == "3"
        ready = fields((await node.wait_line("code=boot.ready", SECONDS)).text)
        assert ready["watchdog"] == "1"
        assert int(ready["free_pages"]) * 4096 > 28 << 20

    run(direct(tmp_path, nic=nic, memory_mb=32), scenario)


def test_direct_boot_above_4_gb_of_memory_and_q35(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        started = fields((await node.wait_line("code=boot.started", SECONDS)).text)
        assert int(started["ram_kb"]) > 4_900_000
        await node.wait_line("code=boot.ready", SECONDS)

    run(direct(tmp_path, machine="q35", memory_mb=5120), scenario)


def test_pxe_boot_keeps_the_dhcp_answer_and_the_nic(tmp_path: Path) -> None:
    (tmp_path / "node.nbp").write_bytes(link_bios()[1])
    tmp_path.chmod(0o755)

    async def scenario(node: Node) -> None:
        started = fields((await node.wait_line("code=boot.started", SECONDS)).text)
        assert started["pci"] != "0xffffffff"
        ack = fields((await node.wait_line("code=boot.cached_ack", SECONDS)).text)
        assert ack["address"] == "10.0.2.15"
        ready = await node.wait_line("code=boot.ready", SECONDS)
        assert fields(ready.text)["watchdog"] == "1"

    run(NodeOptions(net=UserNet(tftp=tmp_path, bootfile="node.nbp"), memory_mb=32), scenario)


def test_each_guard_page_costs_its_shard_and_the_nodes_own_fault_panics(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.wait_line("code=node.panic ", SECONDS)
        faults = [fields(n.text) for n in node.lines if "code=cpu.shard_fault" in n.text]
        for (kind, address, what), seen in zip(fault_probe.PROBES, faults, strict=True):
            assert seen["vector"] == "14", what
            assert int(seen["address"], 16) == address, what
            # Bit 1: a write; bit 4: an instruction fetch (Intel SDM volume 3, figure 4-12).
            wanted = {fault_probe.READ: 0, fault_probe.WRITE: 2, fault_probe.EXECUTE: 16}[kind]
            assert int(seen["error"], 16) & 0x12 == wanted, what
        ready = [fields(n.text) for n in node.lines if "code=boot.ready" in n.text][-1]
        assert (ready["free_pages"], ready["shards"]) == (str(16 * len(faults)), "2")
        panic = fields(next(n.text for n in node.lines if "code=node.panic " in n.text))
        assert int(panic["vector"], 16) == 14
        assert int(panic["cr2"], 16) == fault_probe.STACK_BOTTOM - 8
        assert int(panic["shard"], 16) == 0
        # The record survives the reset and is told by the next boot.
        crashed = fields((await node.wait_line("code=boot.crashed", SECONDS)).text)
        assert (crashed["vector"], crashed["crashes"]) == ("14", "1")
        assert int(crashed["rip"], 16) == int(panic["rip"], 16)
        assert any("code=node.panic_at address=0x00000000600" in n.text for n in node.lines)

    run(direct(tmp_path, fault_probe.node_main, fault_probe.shard_tick), scenario)


def test_stack_overflow_is_a_double_fault_with_a_record(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        panic = fields((await node.wait_line("code=node.panic ", SECONDS)).text)
        assert int(panic["vector"], 16) == 8
        assert fields((await node.wait_line("code=boot.crashed", SECONDS)).text)["vector"] == "8"
        await node.wait_line("code=boot.crashed .*crashes=2", SECONDS)

    run(direct(tmp_path, stack_overflow.node_main), scenario)


def test_nmi_panics_and_the_record_survives_a_network_boot(tmp_path: Path) -> None:
    (tmp_path / "node.nbp").write_bytes(link_bios()[1])
    tmp_path.chmod(0o755)

    async def scenario(node: Node) -> None:
        await node.wait_line("code=boot.ready", SECONDS)
        await node.qmp("inject-nmi")
        panic = fields((await node.wait_line("code=node.panic ", SECONDS)).text)
        assert int(panic["vector"], 16) == 2
        crashed = fields((await node.wait_line("code=boot.crashed", SECONDS)).text)
        assert (crashed["vector"], crashed["crashes"]) == ("2", "1")

    run(NodeOptions(net=UserNet(tftp=tmp_path, bootfile="node.nbp")), scenario)


def test_watchdog_resets_a_node_that_hangs(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await node.wait_event("WATCHDOG", SECONDS)
        await node.wait_event("RESET", SECONDS)

    # Halted virtual time runs as fast as it can: ten seconds pass at once.
    run(direct(tmp_path, hang.node_main, icount="shift=3,sleep=off"), scenario)


def test_too_little_memory_is_refused_in_words(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        line = await node.wait_line("level=error code=boot", SECONDS)
        assert (
            "reason=no-usable-memory-above-1MB" in line.text or "code=boot.no_memory" in line.text
        )

    run(direct(tmp_path, memory_mb=2), scenario)


def test_processor_without_64_bit_mode_is_refused_in_words(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        line = await node.wait_line("code=boot.refused", SECONDS)
        assert line.text == "level=error code=boot.refused reason=no-64-bit-mode-or-no-execute"

    run(direct(tmp_path, extra=("-cpu", "qemu32")), scenario)

"""The verbs of the control channel that concern the node as a whole.

A handler is called with an authenticated request that was never seen before. It returns what became
of it, a value, and how much payload it wrote; firmware/docs/control.md tells how to add one.
"""

from firmware.abi import CALLER_SAVED
from firmware.layouts.control import ControlRequest
from firmware.layouts.node import LEASE, Lease
from firmware.layouts.survivor import SURVIVAL, Survival
from firmware.node.lease_orders import lease_arm, lease_end, lease_renew
from firmware.node.survive import survive_release
from toolchain.asm import (
    EAX,
    ECX,
    EDX,
    R12,
    R12D,
    RAX,
    RDI,
    RDX,
    RSI,
    Asm,
    In,
    Out,
    Reg32,
    Reg64,
    routine,
)

HANDLER_INPUTS = (
    In(RSI, ControlRequest, "the request; its payload lies behind it"),
    In(ECX, int, "bytes of its payload"),
    In(RDI, int, "where the answer's payload goes"),
    In(EDX, int, "bytes that fit there"),
)
HANDLER_OUTPUTS = (
    Out(EAX, "ControlResult: what became of it"),
    Out(RDX, "value of the answer"),
    Out(ECX, "bytes of payload written"),
)


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    reads=[ControlRequest.argument],
    source="firmware/docs/control.md#verbs",
)
def control_ping(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Do nothing; the value is the argument."""
    a.mov(RDX, request.argument)
    a.xor(ECX, ECX)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()


def _grant(a: Asm) -> None:
    """Answer with the grant's number and no payload."""
    a.mov(RDX, LEASE.it.generation)
    a.xor(ECX, ECX)
    a.ret()


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[ControlRequest.argument, Lease.generation],
    calls=[lease_arm],
    source="firmware/docs/control.md#verbs",
)
def control_lease_arm(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Take a grant of as many milliseconds as the argument says; the value is its number."""
    a.mov(RAX, request.argument)
    a.call(lease_arm)
    _grant(a)


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[ControlRequest.argument, Lease.generation],
    calls=[lease_renew],
    source="firmware/docs/control.md#verbs",
)
def control_lease_renew(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Renew the grant for as many milliseconds as the argument says; the value is its number."""
    a.mov(RAX, request.argument)
    a.call(lease_renew)
    _grant(a)


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[Lease.generation],
    calls=[lease_end],
    source="firmware/docs/control.md#verbs",
)
def control_lease_expire(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """Let the lease run out now; the value is the number of the grant that ended."""
    a.call(lease_end)
    _grant(a)


@routine(
    inputs=HANDLER_INPUTS,
    outputs=HANDLER_OUTPUTS,
    clobbers=CALLER_SAVED,
    reads=[Survival.held],
    calls=[survive_release],
    saves=[R12],
    source="firmware/docs/control.md#verbs",
)
def control_node_release(
    a: Asm, request: ControlRequest, length: Reg32, answer: Reg64, room: Reg32
) -> None:
    """End the hold of a node that crashed again and again; the value says whether there was one."""
    a.mov(R12D, SURVIVAL.it.held)
    a.call(survive_release)
    a.mov(EDX, R12D)
    a.xor(ECX, ECX)
    a.xor(EAX, EAX)  # ControlResult.DONE
    a.ret()

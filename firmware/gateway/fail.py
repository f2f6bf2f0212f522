"""What the server did against the protocol costs the session (decision 24)."""

from firmware.failure import shard_fail
from firmware.layouts.gateway import CLOSE_KEEPING_SESSION
from firmware.layouts.shard import End, FailureFlag, ShardContext
from toolchain.asm import ECX, EDX, R8D, R9D, RBX, Asm, In, Reg32, routine


@routine(
    inputs=[In(RBX, ShardContext, "the shard"), In(R9D, int, "the error")],
    clobbers=[ECX, EDX, R8D],
    calls=[shard_fail],
    source="firmware/docs/gateway.md#protocol-failures",
)
def gateway_violate(a: Asm, shard: ShardContext, error: Reg32) -> None:
    """Fail with a protocol anomaly: the session is dropped, the close code is 4000."""
    a.mov(EDX, End.PROTOCOL)
    a.mov(ECX, FailureFlag.RESET_SESSION)
    a.mov(R8D, CLOSE_KEEPING_SESSION)
    a.jmp(shard_fail)

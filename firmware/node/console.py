"""The operator's serial line: `lease arm MS`, `lease renew MS`, `lease expire`."""

from firmware.abi import CALLER_SAVED
from firmware.cpu.serial import COM1, LINE_STATUS
from firmware.layouts.console import (
    BAD_QUIET_MS,
    CONSOLE,
    CONSOLE_BURST,
    CONSOLE_LINE_MAX,
    NO_PORT,
    TEXT_LEASE_ARM,
    TEXT_LEASE_EXPIRE,
    TEXT_LEASE_RENEW,
    Console,
)
from firmware.layouts.control import ControlResult
from firmware.layouts.log import LEASE_BAD_COMMAND
from firmware.layouts.node import CLOCK, Clock, CoreState, core
from firmware.log import log, log_write
from firmware.node.lease_orders import LEASE_MS_MAX, lease_arm, lease_end, lease_renew
from toolchain.asm import (
    AE,
    AL,
    CF,
    DX,
    EAX,
    ECX,
    EDX,
    NE,
    NZ,
    R12,
    R12D,
    RAX,
    RCX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Label,
    Out,
    Reg32,
    Reg64,
    Region,
    mem8,
    routine,
)
from toolchain.layout import Data

LINE = Region("console line", "CONSOLE_LINE_MAX bytes, bounded by Console.length")
DATA_READY = 0x01


@routine(
    inputs=[
        In(RSI, int, "address of the digits"),
        In(ECX, int, "how many; bounded by the line"),
    ],
    outputs=[Out(CF, "1 = not a number of 1..LEASE_MS_MAX"), Out(RAX, "the number")],
    clobbers=[RCX, RDX, RSI],
    reads=[LINE],
    source="firmware/docs/lifecycle.md#operator-commands",
)
def parse_milliseconds(a: Asm, digits: Reg64, count: Reg32) -> None:
    """Read an unsigned decimal number."""
    bad = a.label("bad")
    a.xor(EAX, EAX)
    a.test(count, count)
    a.jz(bad)
    with a.loop() as top:
        a.movzx(EDX, mem8(RSI, 0, ref=LINE))
        a.sub(EDX, ord("0"))
        a.cmp(EDX, 9)
        a.j(A, bad)
        a.imul(RAX, RAX, 10)
        a.add(RAX, RDX)
        a.mov(EDX, LEASE_MS_MAX)
        a.cmp(RAX, RDX)
        a.j(A, bad)
        a.inc(RSI)
        a.dec(ECX)
        a.again(NZ, top)
    a.test(RAX, RAX)
    a.jz(bad)
    a.clc()
    a.ret()
    a.place(bad)
    a.xor(EAX, EAX)
    a.stc()
    a.ret()


def _starts_with(a: Asm, text: Data, missing: Label) -> None:
    """Go on when the line begins with `text`: RSI then points behind it, ECX counts the rest."""
    a.mov(ECX, CONSOLE.it.length)
    a.sub(ECX, text.size)
    a.j(B, missing)
    a.mov(EDX, ECX)
    a.lea(RSI, CONSOLE.it.line.address)
    a.lea(RDI, text.address)
    a.mov(ECX, text.size)
    a.repe_cmpsb()
    a.mov(ECX, EDX)
    a.j(NE, missing)


@routine(
    clobbers=CALLER_SAVED,
    reads=[Console.length, Clock.tsc_cycles_per_ms, CoreState.now, Console.quiet_until],
    writes=[Console.quiet_until],
    calls=[parse_milliseconds, lease_arm, lease_renew, lease_end, log_write],
    source="firmware/docs/lifecycle.md#operator-commands",
)
def console_command(a: Asm) -> None:
    """Carry out one complete line; one that is refused is logged, once a second, and changes nothing."""
    renew, expire, judged = map(a.label, ("renew", "expire", "judged"))
    number, unknown, refused = map(a.label, ("number", "unknown", "refused"))
    a.cmp(CONSOLE.it.length, CONSOLE_LINE_MAX)
    a.j(A, unknown)

    _starts_with(a, TEXT_LEASE_ARM, renew)
    a.call(parse_milliseconds)
    a.j(C, number)
    a.call(lease_arm)
    a.jmp(judged)

    a.place(renew)
    _starts_with(a, TEXT_LEASE_RENEW, expire)
    a.call(parse_milliseconds)
    a.j(C, number)
    a.call(lease_renew)
    a.jmp(judged)

    a.place(expire)
    _starts_with(a, TEXT_LEASE_EXPIRE, unknown)
    a.test(ECX, ECX)
    a.jnz(unknown)
    a.call(lease_end)
    a.place(judged)
    a.test(EAX, EAX)
    a.jnz(refused)
    a.ret()

    a.place(number)
    a.mov(EAX, ControlResult.ARGUMENT)
    a.jmp(refused)
    a.place(unknown)
    a.mov(EAX, ControlResult.VERB)
    a.place(refused)
    a.mov(ECX, EAX)
    a.mov(RAX, core.now)
    a.cmp(RAX, CONSOLE.it.quiet_until)
    with a.if_(B):
        a.ret()
    a.imul(RDX, CLOCK.it.tsc_cycles_per_ms, BAD_QUIET_MS)
    a.add(RAX, RDX)
    a.mov(CONSOLE.it.quiet_until, RAX)
    a.mov(EDX, CONSOLE.it.length)
    log(a, LEASE_BAD_COMMAND)
    a.ret()


@routine(
    clobbers=CALLER_SAVED,
    writes=[Console.length, Console.line],
    reads=[Console.length],
    calls=[console_command],
    saves=[R12],
    source="firmware/docs/lifecycle.md#operator-commands",
)
def console_poll(a: Asm) -> None:
    """Take what was typed, at most CONSOLE_BURST bytes, and run a line when it is complete."""
    done, ended, long_ = a.label("done"), a.label("ended"), a.label("long")
    a.mov(R12D, CONSOLE_BURST)
    with a.loop() as top:
        a.mov(EDX, COM1 + LINE_STATUS)
        a.in_(AL, DX)
        a.cmp(AL, NO_PORT)
        a.j(E, done)
        a.test(AL, DATA_READY)
        a.jz(done)
        a.mov(EDX, COM1)
        a.in_(AL, DX)
        with a.block() as next_byte:
            a.cmp(AL, ord("\n"))
            a.j(E, ended)
            a.cmp(AL, ord("\r"))
            a.leave(E, next_byte)
            a.mov(ECX, CONSOLE.it.length)
            a.cmp(ECX, CONSOLE_LINE_MAX)
            a.j(AE, long_)
            a.lea(RDX, CONSOLE.address)
            a.mov(Console.at(RDX, index=RCX).line.m8(), AL)
            a.inc(CONSOLE.it.length)
            a.jmp(next_byte)
            a.place(long_)
            a.mov(CONSOLE.it.length, CONSOLE_LINE_MAX + 1)
        a.dec(R12D)
        a.again(NZ, top)
    a.place(done)
    a.ret()

    a.place(ended)
    a.call(console_command)
    a.mov(CONSOLE.it.length, 0)
    a.ret()

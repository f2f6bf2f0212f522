"""Mutants that no judge kills, and why that is right or accepted.

`shardfw check --mutate` reads this table: a survivor without a reason fails it, and so does a
reason that no survivor needs any more. The keys are what the command prints.
"""

from __future__ import annotations

_STATE = "a state is one of its enum's few values, none of which is negative"
_LENGTH = "lengths are counted by the parser, below 64 MiB; none is negative when read with a sign"
_COUNT = "counts of a window are below 2**15; none is negative when read with a sign"
_TABLE = "there are at most SHARDS_MAX rows; no count of them is negative"
_ROOM = "the bench has no memory for SHARDS_MAX workspaces, so its end comes first"
_SAME = "when both are equal, both ways end with the same value"
_KEPT = "RSI still holds the text: what was called before does not change it"

# Routine -> mutant -> reason.
SURVIVORS: dict[str, dict[str, str]] = {
    "node_init": {
        "mov eax, 0x100 -> mov eax, 0x101": _ROOM,
        "mov eax, 0x100 -> mov eax, 0xff": _ROOM,
        "cmovae r13d, eax -> cmovge r13d, eax": _ROOM,
        "jae endloop_4 -> jge endloop_4": _TABLE,
    },
    "slot_add": {
        "clc -> nop": "the SHL before it clears CF: a slot's number has no bit that high",
    },
    "slots_wake": {"jb endloop_2 -> jl endloop_2": _TABLE},
    "shard_tick": {"jbe endif_2 -> jle endif_2": _STATE},
    "tick_backoff": {
        "jb due -> jbe due": "the next line sends equal times to the same place",
    },
    "shard_say_goodbye": {"jb endif_5 -> jbe endif_5": _SAME},
    "tick_connection": {"jb out_3 -> jl out_3": _STATE},
    "shard_find_failure": {"jae fail -> jge fail": _STATE},
    "shard_dial": {
        "jae endif_5 -> jge endif_5": "the answer of `dns_resolve` is one of three small numbers",
    },
    "settle_session": {
        "jmp done -> nop": "REPLAY is behind WS, so the lines that follow go to `done`, too",
    },
    "gateway_submit": {
        "cmp r12d, 0x40 -> cmp r12d, 0x3f": "opcode 63 is sent by no profile: refused either way",
        "cmp r14d, 0x1000 -> cmp r14d, 0x1001": (
            "this bound only keeps the sum below from wrapping; the sum has the exact one"
        ),
        "cmp r14d, 0x1000 -> cmp r14d, 0xfff": (
            "so long a body is too large with its envelope, whose bound follows"
        ),
        "ja too_large -> jae too_large": (
            "so long a body is too large with its envelope, whose bound follows"
        ),
        "ja too_large -> jg too_large #2": "the sum of two bounded lengths is not negative",
        "cmp r12d, 0xa -> cmp r12d, 0xb": "no profile sends opcode 10",
        "cmp r12d, 0xa -> cmp r12d, 9": "no profile sends opcode 9",
        "setae al -> seta al": "no profile sends opcode 10",
        "setae al -> setge al": "opcodes are below 64 here",
        "mov rsi, r13 -> nop": _KEPT,
    },
    "gateway_check_body": {
        "mov rsi, r12 -> nop": _KEPT,
        "mov eax, 0 -> nop": "EAX was just tested to be zero, which is UTF8_ACCEPT",
        "clc -> nop": "CMP found equal values, so CF is clear",
    },
    "gateway_pace_wait": {
        "mov ecx, 0x3e8 -> mov ecx, 0x3e7": "a minute holds sixty beats of 999 ms, too",
        "cmovb ecx, dword GatewayContext.heartbeat_interval_ms -> "
        "cmovl ecx, dword GatewayContext.heartbeat_interval_ms": (
            "Hello's interval is at most 2**31 - 1 ms"
        ),
        "cmova ecx, dword ProfileTable.send_limit -> cmovg ecx, dword ProfileTable.send_limit": (
            _COUNT
        ),
        "jae endif_1 -> jge endif_1": _COUNT,
        "jb out_2 -> jl out_2": _COUNT,
    },
    "gateway_pace": {
        "jb endloop_3 -> jl endloop_3": "more than 61 seconds were sent elsewhere just before",
    },
    "gateway_rate_limited": {
        "cmp edx, 0x40 -> cmp edx, 0x3f": "opcode 63 is sent by no profile: ignored either way",
        "cmova rax, rcx -> cmovg rax, rcx": "a product of 32-bit milliseconds has no sign bit",
    },
    "gateway_op_dispatch": {
        "jb fail -> jl fail": _STATE,
        "ja fail -> jg fail": _STATE,
    },
    "gateway_op_hello": {"ja second -> jg second": _STATE},
    "gateway_ready": {
        "test byte [rdx+rax], 2 -> test byte [rdx+rax], 3": (
            "what may stand in a host name may stand in a session id"
        ),
        "and eax, 0x37 -> and eax, 0x36": "the next line sets that bit, SEQ_VALID, anyway",
    },
    "gateway_resume_url": {
        "ja ignored -> jg ignored": _LENGTH,
    },
    "gateway_heartbeat": {
        "lea rsi, byte [rel payload_null] -> nop": (
            "the text lies right behind the one that was put before, where RSI ended"
        ),
        "test dword GatewayContext.flags, 1 -> nop": (
            "AND left no other flag than ACK_PENDING, so ZF is the same"
        ),
    },
    "gateway_closed": {
        "cmp eax, 0xf -> cmp eax, 0x10": "the byte behind the table is zero: code 4015 asks nothing",
        "jae endif_1 -> ja endif_1": "the byte behind the table is zero: code 4015 asks nothing",
    },
}


def reason_of(routine: str, key: str) -> str:
    """Return why a mutant may survive, or an empty string."""
    return SURVIVORS.get(routine, {}).get(key, "")

"""Mutants that no judge kills, and why that is right or accepted.

`shardfw check --mutate` reads this table: a survivor without a reason fails it, and so does a
reason that no survivor needs any more. The keys are what the command prints.
"""

from __future__ import annotations

_STATE = "a state is one of its enum's few values, none of which is negative"
_LEVEL = "a level of the log is one of few values, none of which is negative"
_LENGTH = (
    "a length is counted while bytes come, below 64 MiB; none is negative when read with a sign"
)
_COUNT = "counts of a window are below 2**15; none is negative when read with a sign"
_TABLE = "there are at most SHARDS_MAX rows; no count of them is negative"
_NUMBER = "a number of a head is at most NUMBER_MAX; none is negative when read with a sign"
_ADDRESS = "addresses lie below 4 GB; none is negative when read with a sign"
_ANSWER = "the answer of `dns_resolve` is one of three small numbers"
_COLON = "no host has a colon, the only byte about which the two differ"
_ROOM = "the bench has no memory for SHARDS_MAX workspaces, so its end comes first"
_SAME = "when both are equal, both ways end with the same value"
_BEHIND = "the text lies right behind the one that was put before, where RSI ended"
_HOST_CHAR = "what may stand in a host name may stand here, too"
_ASIDE = "a byte aside each profile says the same: zero, or something else"
_SECOND = "only the second profile's row moves, and a byte aside it says the same"
_BEHIND_FIRST = "a byte behind the first profile's value stands what the second's says"
_FIRST = "only the first profile has a random wait, and its row is the first"
_NO_ACTION = "no profile gives 4015 or 4000 an action, and behind the last row stands a zero"
_SECONDS = "seconds since 1970, and between two of them, are far below 2**63"
_EQUAL = "the CMP of equal values has cleared CF"
_MOVED = "the MOV before has cleared the upper half"
_TIME = "times are far below 2**63; none is negative when read with a sign"
_FEW = "a node holds at most HELD_MAX slots; no count of them is negative"
_NINTH = "behind the last entry lie fields that are no slot in such a phase"
_KEPT = "the routine that was called in between leaves that register as it was"
_SETUP = "a fleet's first start computes for longer than the bench may take; whole nodes do it in simulation and QEMU"
_SIZE = "a size is below 64 MiB; none is negative when read with a sign"

# Layer by layer: routine -> mutant -> reason.
SURVIVORS: dict[str, dict[str, str]] = {
    # -- plan and lease
    "node_init": {
        "mov r12d, 0x100 -> mov r12d, 0x101": _ROOM,
        "mov r12d, 0x100 -> mov r12d, 0xff": _ROOM,
        "cmp dword FleetConfig.magic, 0x31464653 -> cmp dword FleetConfig.magic-4, 0x31464653": _SETUP,
        "cmp dword FleetConfig.magic, 0x31464653 -> cmp dword FleetConfig.magic, 0x31464654": _SETUP,
        "cmp dword FleetConfig.magic, 0x31464653 -> cmp dword FleetConfig.magic, 0x31464652": _SETUP,
        "mov r12d, 0xfe -> mov r12d, 0xff": _SETUP,
        "mov r12d, 0xfe -> mov r12d, 0xfd": _SETUP,
        "mov r12d, 0xfe -> mov r12d, 0": _SETUP,
        "mov r12d, 0xfe -> nop": _SETUP,
        "cmp r13d, r12d -> nop": "CF is set by the CMP before, so the count stays; the bench has no room for more",
        "cmovae r13d, r12d -> cmovge r13d, r12d": _ROOM,
        "jae endloop_5 -> jge endloop_5": _TABLE,
    },
    "slots_wake": {
        "jb endloop_2 -> jl endloop_2": _TABLE,
    },
    "slot_find": {
        "jb endloop_2 -> jl endloop_2": _TABLE,
    },
    "plan_mark": {
        "jb endloop_4 -> jl endloop_4": _TABLE,
    },
    "plan_next": {
        "jb endloop_5 -> jl endloop_5": _TABLE,
    },
    "plan_row": {
        "jb endloop_3 -> jl endloop_3": _TABLE,
        "jae full -> jge full": _TABLE,
        "clc -> nop #2": "CF is clear where the branch on it was not taken, and INC leaves it",
    },
    "plan_move": {
        "cmovb r15d, ecx -> cmovbe r15d, ecx": "at zero the register holds the zero that would be moved",
        "cmovb r15d, ecx -> cmovl r15d, ecx": _TABLE,
        "jc endloop_5 -> jl endloop_5": _TABLE,
    },
    "plan_settle": {
        "jb endloop_3 -> jl endloop_3": _TABLE,
    },
    "plan_obey": {
        "xor edi, edi -> nop #2": "EDI is zero since the first line",
    },
    # -- fleet
    "claims_tick": {
        "cmova eax, ecx -> cmovg eax, ecx": _FEW,
        "jae none -> jge none": _FEW,
        "jb loop_3 -> jl loop_3": "a plan has at most FLEET_SLOTS_MAX slots",
        "jbe endif_7 -> jle endif_7": _TIME,
        "ja note -> jg note": _TIME,
        "mov edx, r13d -> mov r13d, edx #2": _KEPT,
        "mov edx, r13d -> nop #2": _KEPT,
        "mov rsi, r12 -> mov r12, rsi #2": _KEPT,
        "mov rsi, r12 -> nop #2": _KEPT,
    },
    "claim_time": {
        "cmovb rdx, rcx -> cmovl rdx, rcx": _TIME,
    },
    "claim_slot": {
        "mov ecx, 8 -> mov ecx, 9": _NINTH,
    },
    "owning_start": {
        "jae endloop_2 -> jge endloop_2": _TABLE,
    },
    "owning_refresh": {
        "jb endloop_2 -> jl endloop_2": _TABLE,
    },
    "owning_stop": {
        "jb endloop_2 -> jl endloop_2": _TABLE,
    },
    "owning_end": {
        "jb endloop_2 -> jl endloop_2": _TABLE,
    },
    "owning_guard": {
        "cmp r13d, 8 -> cmp r13d, 9": _NINTH,
        "jbe loop_2 -> jle loop_2": _FEW,
    },
    "owning_tick": {
        "jb out_3 -> jl out_3": _STATE,
        "ja out_3 -> jg out_3": _STATE,
        "cmp r13d, 8 -> cmp r13d, 9": _NINTH,
        "jbe loop_1 -> jle loop_1": _FEW,
    },
    "handover_want": {
        "ja nothing -> jg nothing": _TIME,
        "clc -> nop": "the CMP or TEST on each way here has cleared CF",
        "xor ecx, ecx -> nop #2": "the line has no values, so `log_write` takes none from ECX",
    },
    "handover_shard": {
        "ja out -> jg out": _TIME,
        "ja out -> jg out #2": _TIME,
        "ja out -> jg out #3": "a step is one of its enum's few values, none of which is negative",
        "jae out -> jge out": _TABLE,
    },
    "handover_tick": {
        "ja later -> jg later": _TIME,
        "jb endloop_4 -> jl endloop_4": _TABLE,
        "jbe out_6 -> jle out_6": _TIME,
    },
    "handover_read": {
        "jc again -> nop": "`key_number` gives zero where it finds no number, and zero leads to the same place",
    },
    "handover_answer": {
        "jb out -> jl out": _TABLE,
        "jbe out -> jle out": _TIME,
    },
    "outbox_refused": {
        "jbe later -> jle later": _SIZE,
        "jb endif_4 -> jbe endif_4": _SAME,
    },
    "outbox_answer": {
        "jb refused -> jl refused": _SIZE,
    },
    "outbox_overdue": {
        "jbe endif_3 -> jle endif_3": _TIME,
    },
    "publish_whole": {
        "mov rsi, r12 -> nop": _KEPT,
        "mov r8d, r14d -> mov r14d, r8d": _KEPT,
        "mov r8d, r14d -> nop": _KEPT,
        "ja stub -> jg stub": _SIZE,
        "jbe fits -> jle fits": _SIZE,
    },
    "outbox_room": {
        "jae full -> jge full": "there are at most ENTRIES publications; no count of them is negative",
        "ja full -> jg full": "positions count bytes, and their difference is far below 2**63",
    },
    "outbox_head": {
        "lea rsi, byte [rel publish_subject] -> nop": _BEHIND,
    },
    "outbox_publish": {
        "clc -> nop": "the ADD of two addresses below 4 GB has left CF clear",
    },
    "clocks_compare": {
        "jb base -> jl base": _SECONDS,
        "jb base -> jbe base": "within one second nothing is ahead, and both ways end at the base",
        "jae useless -> jge useless": _TIME,
        "movzx eax, al -> nop #2": "EAX held a byte before, and IN replaces AL alone",
        "jae frozen -> jge frozen": _SECONDS,
        "jb out -> jl out": _SECONDS,
        "imul rcx, qword Clock.tsc_cycles_per_ms, 0x64 -> nop #2": "both spans are of a hundred milliseconds, and RCX holds the first",
        "cmovl rdi, rcx -> cmovle rdi, rcx": "at zero the register holds the zero that would be moved",
    },
    "leases_end": {
        "jae endif_6 -> ja endif_6": "at no cycles late, both ways end with zero",
    },
    "rtc_glimpse": {
        "clc -> nop": _EQUAL,
    },
    "held_grant": {
        "mov eax, eax -> nop": _MOVED,
    },
    "lease_mirror": {
        "jb out_3 -> jl out_3": _STATE,
        "ja out_3 -> jg out_3": _STATE,
    },
    "plan_differs": {
        "jae differs -> jge differs": "a plan has at most FLEET_SLOTS_MAX slots",
        "clc -> nop": _EQUAL,
    },
    "server_is_deaf": {
        "jb out_4 -> jl out_4": _STATE,
        "ja out_4 -> jg out_4": _STATE,
        "mov eax, 1 -> mov eax, 2": "NEG sets CF for whatever is not zero",
    },
    "ticket_take": {
        "jmp wait -> nop #2": "a ticket that was just asked for is not MINE, which leads to the same place",
    },
    "ticket_of": {
        "clc -> nop": "the ADD of two addresses below 4 GB has left CF clear",
    },
    "budget_write": {
        "clc -> nop": "CF is clear where the branch on it was not taken, and MOV leaves it",
        "stc -> nop": "both branches that lead here are taken with CF set",
    },
    "budget_pay": {
        "clc -> nop": "the CMP with zero has left CF clear",
    },
    "watch_check": {
        "jbe no -> jle no": "what was heard last was heard before now, less than 2**63 cycles ago",
    },
    "node_put": {
        "mov ecx, ecx -> nop": _MOVED,
        "jc bad -> nop #2": "a word that cannot be read has no bytes, and no order is as short",
        "clc -> nop": _EQUAL,
        "clc -> nop #2": _EQUAL,
    },
    "move_put": {
        "mov ecx, ecx -> nop": _MOVED,
        "jc bad -> nop": "behind a format that does not end as a number no other number begins",
        "ja bad -> jg bad": _LENGTH,
    },
    "orders_obey": {
        "jb following -> jl following": _STATE,
        "ja following -> jg following": _STATE,
    },
    "watch_answered": {
        "jc endif_4 -> nop": "`key_number` gives zero where it finds no number, and no error is zero",
        "jae endif_6 -> jge endif_6": _TIME,
    },
    # -- lifecycle
    "starts_spent": {
        "clc -> nop": "the CMP of equal values, or the TEST of zero, has cleared CF",
    },
    "allowance_ask": {
        "jb asked -> jl asked": _STATE,
        "jb no -> jl no": _TIME,
        "jb no -> jl no #2": _TIME,
    },
    "stop_open": {
        "jb endloop_2 -> jl endloop_2": _TABLE,
    },
    "stop_tick": {
        "jae stopped -> jge stopped": _STATE,
    },
    "plan_refusal": {
        "jae bad -> jge bad": "so large a count is above what is left of any total, which the last bound refuses",
        "jae bad -> ja bad #2": "behind the end nothing is left, and the next bound refuses any count of that",
        "jae bad -> jge bad #3": "both are at most TOTAL_MAX here",
        "jae bad -> jge bad #4": "at most MOVES_MAX moves are counted",
    },
    "startup_budget": {
        "cmova rax, rcx -> cmovg rax, rcx": "2**32 spacings of five seconds leave the sign bit clear",
    },
    "startup_check": {
        "jb endloop_3 -> jl endloop_3": _TABLE,
    },
    "allowance_spent": {
        "jb endif_4 -> jl endif_4": "it is no more than today's date, whose sign bit is clear",
    },
    "full_jitter": {
        "cmovb r12, rax -> cmovl r12, rax": "32 bits moved up by at most 31 leave the sign bit clear",
    },
    "required_wait": {
        "imul rcx, rcx, 0x90 -> imul rcx, rcx, 0x91": _SECOND,
        "imul rcx, rcx, 0x90 -> imul rcx, rcx, 0x8f": _SECOND,
        "lea rdx, byte [rel profiles] -> lea rdx, byte [rel profiles] moved by +1": _ASIDE,
        "lea rdx, byte [rel profiles] -> lea rdx, byte [rel profiles] moved by -1": _ASIDE,
        "cmp dword ProfileTable.invalid_spread_ms, 0 -> cmp dword ProfileTable.invalid_wait_ms, 0": "a profile has both waits or neither",
        "imul rcx, rcx, 0x90 -> imul rcx, rcx, 0x91 #2": _FIRST,
        "imul rcx, rcx, 0x90 -> imul rcx, rcx, 0x8f #2": _FIRST,
        "imul rcx, rcx, 0x90 -> imul rcx, rcx, 0 #2": _FIRST,
        "imul rcx, rcx, 0x90 -> nop #2": _FIRST,
    },
    "shard_verdict": {
        "cmp eax, 0x10 -> cmp eax, 0xf": "no profile has a reason for 4015, the last row",
    },
    "settle_session": {
        "test dword ShardContext.failure_flags, 0x20 -> test dword ShardContext.failure_flags, 0x21": "RESET_SESSION, the bit that came in, was tested before and is clear here",
        "test dword ShardContext.failure_flags, 0x80 -> test dword ShardContext.failure_flags, 0x81": "RESET_SESSION, the bit that came in, was tested before and is clear here",
    },
    "session_wait": {
        "cmovb rcx, rdx -> cmovbe rcx, rdx": "at zero the register holds the zero that would be moved",
        "cmovb rax, rcx -> cmovl rax, rcx": "the timeout of a load in cycles is far below 2**63",
    },
    "snapshot_problem": {
        "test byte [rdi+r8], 2 -> test byte [rdi+r8], 3": _HOST_CHAR,
    },
    "snapshot_restore": {
        "xor ecx, ecx -> nop": "REP has counted RCX down to zero",
    },
    "shard_tick": {
        "jbe endif_4 -> jle endif_4": _STATE,
    },
    "tick_connection": {
        "jb out_3 -> jl out_3": _STATE,
        "jb again -> jl again": _STATE,
    },
    "shard_find_failure": {
        "jae fail -> jge fail": _STATE,
    },
    "tick_backoff": {
        "jb due -> jbe due": "the next line sends equal times to the same place",
    },
    "shard_say_goodbye": {
        "jb endif_5 -> jbe endif_5": _SAME,
    },
    "shard_drain": {
        "jmp none -> nop": "the wipe cleared close_deadline, so the lines that follow go to `none`, too",
    },
    "shard_dial": {
        "jae endif_10 -> jge endif_10": _ANSWER,
    },
    "shard_discover": {
        "ja shared -> jg shared": _STATE,
        "mov rax, qword CoreState.now -> nop #2": "RAX holds the time since the comparison before",
    },
    # -- gateway
    "gateway_submit": {
        "cmp r12d, 0x40 -> cmp r12d, 0x3f": "opcode 63 is sent by no profile: refused either way",
        "cmp r14d, 0x1000 -> cmp r14d, 0x1001": "this bound only keeps the sum below from wrapping; the sum has the exact one",
        "cmp r14d, 0x1000 -> cmp r14d, 0xfff": "so long a body is too large with its envelope, whose bound follows",
        "ja too_large -> jae too_large": "so long a body is too large with its envelope, whose bound follows",
        "ja too_large -> jg too_large #2": "the sum of two bounded lengths is not negative",
        "cmp r12d, 0xa -> cmp r12d, 0xb": "no profile sends opcode 10",
        "cmp r12d, 0xa -> cmp r12d, 9": "no profile sends opcode 9",
        "setae al -> seta al": "no profile sends opcode 10",
        "setae al -> setge al": "opcodes are below 64 here",
    },
    "gateway_check_body": {
        "mov eax, 0 -> nop": "EAX was just tested to be zero, which is UTF8_ACCEPT",
        "clc -> nop": "CMP found equal values, so CF is clear",
    },
    "gateway_pace_wait": {
        "mov ecx, 0x3e8 -> mov ecx, 0x3e7": "a minute holds sixty beats of 999 ms, too",
        "cmovb ecx, dword GatewayContext.heartbeat_interval_ms -> cmovl ecx, dword GatewayContext.heartbeat_interval_ms": "Hello's interval is at most 2**31 - 1 ms",
        "cmova ecx, dword ProfileTable.send_limit -> cmovg ecx, dword ProfileTable.send_limit": _COUNT,
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
    "gateway_send": {
        "ja endif_2 -> jg endif_2": _LEVEL,
    },
    "gateway_message": {
        "ja endif_2 -> jg endif_2": _LEVEL,
    },
    "gateway_op_unknown": {
        "ja endif_1 -> jg endif_1": _LEVEL,
    },
    "gateway_op_ack": {
        "ja endif_3 -> jg endif_3": _LEVEL,
    },
    "gateway_op_dispatch": {
        "ja endif_10 -> jg endif_10": _LEVEL,
        "imul r8, r8, 0x90 -> imul r8, r8, 0x91": _SECOND,
        "imul r8, r8, 0x90 -> imul r8, r8, 0x8f": _SECOND,
        "jb fail -> jl fail": _STATE,
        "ja fail -> jg fail": _STATE,
    },
    "gateway_op_hello": {
        "ja second -> jg second": _STATE,
    },
    "gateway_op_invalid": {
        "imul rax, rax, 0x90 -> imul rax, rax, 0x91": _SECOND,
        "imul rax, rax, 0x90 -> imul rax, rax, 0x8f": _SECOND,
        "lea rcx, byte [rel profiles] -> lea rcx, byte [rel profiles] moved by +1": _ASIDE,
        "lea rcx, byte [rel profiles] -> lea rcx, byte [rel profiles] moved by -1": _ASIDE,
    },
    "gateway_heard_part": {
        "and edx, 1 -> nop": "of a part that is not the last no other bit says anything",
    },
    "gateway_heard_whole": {
        "cmovbe r9d, eax -> cmovle r9d, eax": _LENGTH,
        "cmovbe r9d, eax -> cmovle r9d, eax #2": _LENGTH,
        "xor r9d, r9d -> nop #2": "R9D is zero since R8D went there",
    },
    "gateway_tell": {
        "mov edx, 3 -> nop": "EDX is WAIT_RESUMED here, which has the number of the notice",
        "imul rax, rax, 0x90 -> imul rax, rax, 0x8f": _SECOND,
        "imul rax, rax, 0x90 -> nop": _BEHIND_FIRST,
        "lea rcx, byte [rel profiles] -> lea rcx, byte [rel profiles] moved by -1": _ASIDE,
    },
    "gateway_closed": {
        "cmp eax, 0x10 -> cmp eax, 0x11": _NO_ACTION,
        "cmp eax, 0x10 -> cmp eax, 0xf": _NO_ACTION,
        "jae endif_1 -> ja endif_1": _NO_ACTION,
    },
    "gateway_ready": {
        "test byte [rdx+rax], 2 -> test byte [rdx+rax], 3": _HOST_CHAR,
        "and eax, 0xf7 -> and eax, 0xf6": "the next line sets that bit, SEQ_VALID, anyway",
    },
    "gateway_resume_url": {
        "ja ignored -> jg ignored": _LENGTH,
        "imul rcx, rcx, 0x90 -> imul rcx, rcx, 0x8f": _SECOND,
        "imul rcx, rcx, 0x90 -> nop": _BEHIND_FIRST,
        "lea rdx, byte [rel profiles] -> lea rdx, byte [rel profiles] moved by -1": _ASIDE,
    },
    "gateway_user_id": {
        "jae none -> jge none": "an empty text is read up to a byte that is no digit, or past 64 bits: none either way",
    },
    "gateway_heartbeat": {
        "lea rsi, byte [rel payload_null] -> nop": _BEHIND,
    },
    "gateway_identify": {
        "imul rax, rax, 0x90 -> imul rax, rax, 0x91": _SECOND,
        "imul rax, rax, 0x90 -> imul rax, rax, 0x8f": _SECOND,
        "lea rcx, byte [rel profiles] -> lea rcx, byte [rel profiles] moved by +1": _ASIDE,
        "lea rcx, byte [rel profiles] -> lea rcx, byte [rel profiles] moved by -1": _ASIDE,
        "lea rsi, byte [rel payload_pair] -> nop": _BEHIND,
    },
    "url_authority": {
        "jae endloop_6 -> jge endloop_6": _ADDRESS,
        "jae fine -> jge fine": _ADDRESS,
        "jae endloop_8 -> jge endloop_8": _ADDRESS,
        "jae fine -> jge fine #2": _ADDRESS,
        "ja bad -> jg bad": "a port is judged after each digit and never has more than six",
    },
    "gateway_host_allowed": {
        "jc refused -> jbe refused": "the last letter of a host begins no parent: it is refused either way",
        "jc refused -> jl refused": _LENGTH,
        "jc endloop_7 -> jl endloop_7": _LENGTH,
        "cmp al, 0x39 -> cmp al, 0x3a": _COLON,
        "jbe endif_9 -> jle endif_9": "no host has a byte above 0x7f",
    },
    "host_is_under": {
        "jc other -> jl other": _LENGTH,
        "cmp eax, 0x39 -> cmp eax, 0x3a": _COLON,
        "jbe endif_5 -> jle endif_5": "a byte in 32 bits is not negative",
        "clc -> nop": "TEST, or a CMP of equal values, has cleared CF on every way",
    },
    "discovery_later": {
        "cmovb r8, qword Discovery.retry_after_ms -> cmovl r8, qword Discovery.retry_after_ms": "a wait is at most a day",
    },
    "discovery_begin": {
        "imul rdx, rdx, 0x90 -> imul rdx, rdx, 0x8f": _SECOND,
    },
    "discovery_dial": {
        "ja fail -> jae fail": "what is equal has returned before",
        "ja fail -> jg fail": _ANSWER,
    },
    "discovery_send": {
        "lea rsi, byte [rel discovery_authorization] -> nop": _BEHIND,
    },
    "discovery_head": {
        "jnc top -> nop": "what TLS added to the run is read in the next turn",
        "jae broken -> jge broken": _LENGTH,
        "cmp eax, 0x64 -> cmp eax, 0x65": "status 200 has gone elsewhere before",
        "jb top -> jbe top": "status 200 has gone elsewhere before",
        "jbe endif_12 -> jle endif_12": _NUMBER,
    },
    "discovery_field": {
        "cmovb ecx, r15d -> cmovl ecx, r15d": _LENGTH,
        "cmova eax, ecx -> cmovg eax, ecx": _NUMBER,
        "jbe fine -> jle fine": "both waits are at most a day",
    },
    "discovery_redirect": {
        "jbe endif_5 -> jle endif_5": "redirects are counted up to four",
        "ja fault -> jg fault": _LENGTH,
    },
    "discovery_target": {
        "ja bad -> jg bad": _LENGTH,
        "test byte [r10+rax], 4 -> test byte [r10+rax], 5": _HOST_CHAR,
    },
    "discovery_chunk": {
        "cmp ecx, 0x39 -> cmp ecx, 0x3a": "a colon is no digit of a size",
        "jbe endif_2 -> jle endif_2": "a byte in 32 bits is not negative",
    },
    "discovery_body": {
        "cmova r13, qword Discovery.left -> cmovg r13, qword Discovery.left": "what is left is at most DOCUMENT_MAX before any of it is taken",
        "ja big -> jg big": "a size is judged after each digit, so it has one more than DOCUMENT_MAX at most",
        "ja big -> jg big #2": _LENGTH,
        "or r9d, 0x82c0000 -> or r9d, 0x82c0001": "the status is 429 here, which is odd",
    },
    "discovery_document": {
        "ja bad_url -> jg bad_url": _LENGTH,
        "cmova rax, rcx -> cmovg rax, rcx": "32 bits times a thousand leave the sign bit clear",
        "jbe asked -> jle asked": "both waits are at most a day",
    },
}


def reason_of(routine: str, key: str) -> str:
    """Return why a mutant may survive, or an empty string."""
    return SURVIVORS.get(routine, {}).get(key, "")

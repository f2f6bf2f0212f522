"""The control channel: authenticated commands over UDP (decision 30).

`control_input` takes a datagram, `VERBS` says who carries a verb out. A handler gets an authenticated
request that was never seen before, and the room for its answer; firmware/docs/control.md tells how to
add one.
"""

from firmware.abi import CALLER_SAVED
from firmware.crypto.drbg import drbg_u64
from firmware.crypto.hmac import tag_differs
from firmware.layouts.config import CONFIG, ConfigBlob
from firmware.layouts.control import (
    CONTROL,
    CONTROL_ANSWER,
    CONTROL_DATAGRAM,
    CONTROL_FRAME,
    CONTROL_REPLY_FRAME,
    CONTROL_REQUEST_MAGIC,
    CONTROL_TAG_BYTES,
    CONTROL_TRIES_PER_TURN,
    CONTROL_VERSION,
    Control,
    ControlReply,
    ControlRequest,
    ControlResult,
    ControlVerb,
)
from firmware.layouts.node import CoreState, core
from firmware.net.udp import udp_answer, udp_finish
from firmware.node.control_seal import control_authentic, control_head, control_seal
from firmware.node.diagnostics import diagnostics_input
from firmware.node.listen import control_subscribe, control_unsubscribe
from firmware.node.moving import control_plan
from firmware.node.owner import control_owner
from firmware.node.send import control_submit
from firmware.node.sessions import control_session_offer, control_session_take
from firmware.node.stop import control_stop
from firmware.node.verbs import (
    control_lease_arm,
    control_lease_expire,
    control_lease_renew,
    control_node_release,
    control_ping,
)
from toolchain.asm import (
    AE,
    AX,
    CF,
    EAX,
    ECX,
    EDX,
    NE,
    R8,
    R8D,
    R9D,
    R12,
    R12D,
    R13,
    R13D,
    R14,
    R14D,
    R15,
    R15D,
    RAX,
    RBX,
    RDI,
    RDX,
    RSI,
    A,
    Asm,
    B,
    C,
    E,
    In,
    Out,
    Reg32,
    Reg64,
    mem8,
    mem32,
    mem64,
    routine,
)
from toolchain.layout.data import Table

_HANDLERS = {
    ControlVerb.PING: control_ping,
    ControlVerb.LEASE_ARM: control_lease_arm,
    ControlVerb.LEASE_RENEW: control_lease_renew,
    ControlVerb.LEASE_EXPIRE: control_lease_expire,
    ControlVerb.SEND: control_submit,
    ControlVerb.SUBSCRIBE: control_subscribe,
    ControlVerb.UNSUBSCRIBE: control_unsubscribe,
    ControlVerb.STOP: control_stop,
    ControlVerb.NODE_RELEASE: control_node_release,
    ControlVerb.SESSION_OFFER: control_session_offer,
    ControlVerb.SESSION_TAKE: control_session_take,
    ControlVerb.OWNER: control_owner,
    ControlVerb.PLAN: control_plan,
}
HANDLERS = tuple(_HANDLERS[verb] for verb in ControlVerb)
VERBS = Table("control_verbs", len(ControlVerb), lambda: HANDLERS, "who carries a verb out")


@routine(
    outputs=[Out(CF, "1 = this turn has looked at enough")],
    clobbers=[RAX],
    reads=[CoreState.now, Control.tries_at, Control.tries],
    writes=[Control.tries_at, Control.tries, Control.held],
    source="firmware/docs/control.md#bounds",
)
def control_try(a: Asm) -> None:
    """Allow one more tag to be computed in this turn, or count that a request was passed over."""
    a.mov(RAX, core.now)
    a.cmp(RAX, CONTROL.it.tries_at)
    with a.if_(NE):
        a.mov(CONTROL.it.tries_at, RAX)
        a.mov(CONTROL.it.tries, 0)
    a.cmp(CONTROL.it.tries, CONTROL_TRIES_PER_TURN)
    with a.if_(AE):
        a.inc(CONTROL.it.held)
        a.stc()
        a.ret()
    a.inc(CONTROL.it.tries)
    a.clc()
    a.ret()


@routine(
    inputs=[
        In(RSI, ControlRequest, "an authentic request of this boot, with a new counter"),
        In(ECX, int, "bytes of the datagram"),
        In(RDI, ControlReply, "where the answer goes"),
    ],
    clobbers=CALLER_SAVED,
    reads=[
        ControlRequest.version,
        ControlRequest.verb,
        ControlRequest.length,
        VERBS,
    ],
    writes=[ControlReply.result, ControlReply.value, ControlReply.length, Control.refused],
    calls=[control_head],
    indirect=lambda: HANDLERS,
    saves=[RBX, R12],
    source="firmware/docs/control.md#verbs",
)
def control_perform(a: Asm, request: ControlRequest, length: Reg32, reply: ControlReply) -> None:
    """Let the verb's handler act and answer; what no handler may see is refused here."""
    asked, answer = ControlRequest.at(RSI), ControlReply.at(RBX)
    refused, judged = a.label("refused"), a.label("judged")
    a.mov(RBX, RDI)
    a.mov(R12D, length)
    a.xor(ECX, ECX)  # ControlResult.DONE
    a.call(control_head)
    a.mov(EAX, ControlResult.VERSION)
    a.cmp(asked.version, CONTROL_VERSION)
    a.j(NE, refused)
    a.mov(EAX, ControlResult.VERB)
    a.movzx(R8D, asked.verb)
    a.cmp(R8D, len(ControlVerb))
    a.j(AE, refused)
    a.mov(EAX, ControlResult.ARGUMENT)
    a.mov(ECX, asked.length)
    a.sub(R12D, CONTROL_FRAME)
    a.cmp(ECX, R12D)
    a.j(A, refused)
    a.lea(RDI, mem8(RBX, ControlReply.SIZE, ref=CONTROL_ANSWER))
    a.lea(EDX, mem8(R12, CONTROL_FRAME - CONTROL_REPLY_FRAME, ref=CONTROL_ANSWER))
    a.lea(RAX, VERBS.address)
    a.mov(RAX, mem64(RAX, index=R8, scale=8, ref=VERBS))
    a.call_indirect(RAX)
    a.mov(answer.value, RDX)
    a.mov(answer.length, ECX)
    a.jmp(judged)
    a.place(refused)
    a.inc(CONTROL.it.refused)
    a.place(judged)
    a.mov(answer.result, AX)
    a.ret()


@routine(
    inputs=[
        In(RSI, ControlRequest, "an authentic request; CONTROL.made is its tag"),
        In(ECX, int, "bytes of the datagram"),
    ],
    outputs=[Out(RSI, "the answer"), Out(ECX, "its bytes")],
    clobbers=CALLER_SAVED,
    reads=[
        ControlRequest.boot,
        ControlRequest.counter,
        Control.boot,
        Control.last,
        Control.made,
        Control.stored_length,
    ],
    writes=[
        Control.boot,
        Control.last,
        Control.accepted,
        Control.refused,
        Control.tag,
        Control.stored_length,
    ],
    calls=[drbg_u64, tag_differs, control_head, control_perform, control_seal],
    saves=[RBX, R12],
    source="firmware/docs/control.md#counters",
)
def control_decide(a: Asm, request: ControlRequest, length: Reg32) -> None:
    """Carry a new request out, answer a repeated one again, refuse an old one."""
    state, asked = CONTROL.it, ControlRequest.at(RBX)
    fresh, refuse = a.label("fresh"), a.label("refuse")
    a.mov(RBX, RSI)
    a.mov(R12D, length)
    a.cmp(state.boot, 0)
    with a.if_(E):
        a.call(drbg_u64)
        a.mov(state.boot, RAX)
    a.mov(ECX, ControlResult.BOOT)
    a.mov(RAX, state.boot)
    a.cmp(RAX, asked.boot)
    a.j(NE, refuse)
    a.mov(RAX, asked.counter)
    a.cmp(RAX, state.last)
    a.j(A, fresh)
    a.mov(ECX, ControlResult.REPLAYED)
    a.j(NE, refuse)

    # The last one again, because its answer was lost: the same answer, and nothing is done twice.
    # Its tag is the same, so it is as long as it was.
    a.lea(RSI, state.tag.address)
    a.lea(RDI, state.made.address)
    a.call(tag_differs)
    a.mov(ECX, ControlResult.REPLAYED)
    a.j(C, refuse)
    a.lea(RSI, state.stored.address)
    a.mov(ECX, state.stored_length)
    a.ret()

    # Who names no boot only asks for its number.
    a.place(refuse)
    a.cmp(asked.boot, 0)
    with a.if_(NE):
        a.inc(state.refused)
    a.mov(RSI, RBX)
    a.lea(RDI, state.refusal.address)
    a.call(control_head)
    a.call(control_seal)
    a.lea(RSI, state.refusal.address)
    a.ret()

    a.place(fresh)
    a.mov(state.last, RAX)
    a.inc(state.accepted)
    for n in range(0, CONTROL_TAG_BYTES, 8):  # unrolled: four quadwords
        a.mov(RAX, state.made.m64(n))
        a.mov(state.tag.m64(n), RAX)
    a.mov(RSI, RBX)
    a.mov(ECX, R12D)
    a.lea(RDI, state.stored.address)
    a.call(control_perform)
    a.lea(RDI, state.stored.address)
    a.call(control_seal)
    a.mov(state.stored_length, ECX)
    a.lea(RSI, state.stored.address)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "the answer"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "who asked, as on the wire"),
        In(R8D, int, "from which port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[ConfigBlob.diagnostics_port, CONTROL_ANSWER],
    writes=[CONTROL_ANSWER],
    calls=[udp_answer, udp_finish],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/control.md#answers",
)
def control_send(a: Asm, answer: Reg64, length: Reg32, source: Reg32, port: Reg32) -> None:
    """Send an answer, when the turn has room for one; whoever gets none asks again."""
    a.mov(R12, answer)
    a.mov(R13D, length)
    a.mov(R14D, source)
    a.mov(R15D, port)
    a.call(udp_answer)
    with a.if_(C):
        a.ret()
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.rep_movsb()
    a.mov(EDX, R14D)
    a.mov(ECX, R13D)
    a.movzx(R8D, CONFIG.it.diagnostics_port)
    a.mov(R9D, R15D)
    a.call(udp_finish)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "received UDP payload that begins with CONTROL_REQUEST_MAGIC"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "source address, as on the wire"),
        In(R8D, int, "source port"),
    ],
    clobbers=CALLER_SAVED,
    writes=[Control.bad, Control.asker, Control.asker_port],
    calls=[control_try, control_authentic, control_decide, control_send],
    saves=[R12, R13, R14, R15],
    source="firmware/docs/control.md",
)
def control_input(a: Asm, datagram: Reg64, length: Reg32, source: Reg32, port: Reg32) -> None:
    """Take a command; what is not from who holds the key is counted and gets no answer."""
    a.call(control_try)
    with a.if_(C):
        a.ret()
    a.mov(R12, datagram)
    a.mov(R13D, length)
    a.mov(R14D, source)
    a.mov(R15D, port)
    a.call(control_authentic)
    with a.if_(C):
        a.inc(CONTROL.it.bad)
        a.ret()
    a.mov(CONTROL.it.asker, R14D)
    a.mov(CONTROL.it.asker_port, R15D)
    a.mov(RSI, R12)
    a.mov(ECX, R13D)
    a.call(control_decide)
    a.mov(EDX, R14D)
    a.mov(R8D, R15D)
    a.call(control_send)
    a.ret()


@routine(
    inputs=[
        In(RSI, int, "received UDP payload"),
        In(ECX, int, "its bytes"),
        In(EDX, int, "source address, as on the wire"),
        In(R8D, int, "source port"),
    ],
    clobbers=CALLER_SAVED,
    reads=[CONTROL_DATAGRAM],
    calls=[control_input, diagnostics_input],
    source="firmware/docs/control.md",
)
def operator_input(a: Asm, datagram: Reg64, length: Reg32, source: Reg32, port: Reg32) -> None:
    """Tell commands from questions by their magic; both come to the diagnostics port."""
    question = a.label("question")
    a.cmp(length, 4)
    a.j(B, question)
    a.cmp(mem32(datagram, ref=CONTROL_DATAGRAM), CONTROL_REQUEST_MAGIC)
    a.j(NE, question)
    a.jmp(control_input)
    a.place(question)
    a.jmp(diagnostics_input)

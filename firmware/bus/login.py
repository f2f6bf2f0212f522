"""The login: CONNECT with what the operator configured, the inbox, and a PING whose PONG is the answer."""

from firmware.abi import CALLER_SAVED
from firmware.bus.send import bus_put_inbox
from firmware.crypto.base64 import base64_encode
from firmware.crypto.ed25519_chosen import ed25519_key, ed25519_sign
from firmware.layouts.bus import (
    BUS,
    BUS_LOGIN,
    CONNECT_TEXT,
    HELLO_MAX,
    INBOX_END_TEXT,
    NKEY_TEXT,
    PASSWORD_TEXT,
    SIGNATURE_BYTES,
    SIGNATURE_TEXT,
    SUBSCRIBE_TEXT,
    USER_TEXT,
    Bus,
    BusLink,
    BusLogin,
    LinkState,
)
from firmware.layouts.credentials import CREDENTIALS, Credentials
from firmware.layouts.fleet_config import BusAuth
from firmware.layouts.shard import ShardContext
from firmware.layouts.text import TEXT_OUT
from firmware.text import put, put_escaped
from firmware.tls.transport import tls_commit, tls_reserve
from toolchain.asm import (
    AL,
    CF,
    EAX,
    ECX,
    NE,
    NZ,
    R12,
    RBP,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    Asm,
    C,
    E,
    In,
    Mem8,
    Out,
    Reg64,
    mem8,
    routine,
)

TEXT_BYTES = 4 * (SIGNATURE_BYTES // 3) + 2
"""Of a signature in base64url, which RFC 4648 section 5 lets go without padding."""
URL_ALPHABET = {ord("+"): ord("-"), ord("/"): ord("_")}
"""RFC 4648 section 5: the two characters in which base64url differs."""


@routine(
    inputs=[In(RBP, BusLink, "a link whose server gave a nonce")],
    clobbers=CALLER_SAVED,
    reads=[BusLink.nonce_len],
    writes=[BusLogin],
    calls=[ed25519_key, ed25519_sign],
    source="RFC 8032 5.1; firmware/docs/bus.md#login",
)
def bus_sign(a: Asm, link: BusLink) -> None:
    """Sign the nonce with the node's own key, and forget the key."""
    login = BUS_LOGIN.it
    a.lea(RDI, login.key.scalar.address)
    a.lea(RSI, CREDENTIALS.it.nkey_seed.address)
    a.call(ed25519_key)
    a.lea(RDI, login.signature.address)
    a.lea(RSI, login.key.scalar.address)
    a.lea(RDX, link.nonce.address)
    a.movzx(ECX, link.nonce_len)
    a.call(ed25519_sign)
    a.lea(RDI, login.key.scalar.address)
    a.mov(ECX, BusLogin.key.size // 8)
    a.xor(EAX, EAX)
    a.rep_stosq()
    a.ret()


@routine(
    inputs=[
        In(RBP, BusLink, "a link whose server gave a nonce"),
        In(RDI, int, "where the text goes; with room for two bytes more"),
    ],
    outputs=[Out(RDI, "the first byte after it")],
    clobbers=CALLER_SAVED,
    reads=[TEXT_OUT],
    writes=[TEXT_OUT],
    calls=[bus_sign, base64_encode],
    saves=[R12],
    source="RFC 4648 section 5; firmware/docs/bus.md#login",
)
def bus_put_signature(a: Asm, link: BusLink, text: Reg64) -> None:
    """Write the signature of the nonce as base64url without padding."""
    a.mov(R12, text)
    a.call(bus_sign)
    a.lea(RSI, BUS_LOGIN.it.signature.address)
    a.mov(ECX, SIGNATURE_BYTES)
    a.mov(RDI, R12)
    a.call(base64_encode)
    a.mov(RDI, R12)
    a.mov(ECX, TEXT_BYTES)
    with a.loop() as letters:
        a.mov(AL, mem8(RDI, ref=TEXT_OUT))
        for other, letter in URL_ALPHABET.items():  # unrolled: two characters
            a.cmp(AL, other)
            with a.if_(E):
                a.mov(mem8(RDI, ref=TEXT_OUT), letter)
        a.inc(RDI)
        a.dec(ECX)
        a.again(NZ, letters)
    a.ret()


def _put_string(a: Asm, text: Mem8[int], length: Mem8[int]) -> None:
    a.lea(RSI, text)
    a.movzx(ECX, length)
    a.call(put_escaped)


@routine(
    inputs=[In(RBP, BusLink, "a link that may log in"), In(RBX, ShardContext, "its workspace")],
    outputs=[Out(CF, "1 = no room yet")],
    clobbers=CALLER_SAVED,
    reads=[
        Credentials.auth, Credentials.user, Credentials.user_len, Credentials.password,
        Credentials.password_len, Credentials.nkey_public, Bus.node, Bus.node_len,
    ],
    writes=[BusLink.state, TEXT_OUT],
    calls=[
        tls_reserve, tls_commit, put_escaped, bus_put_signature, bus_put_inbox,
    ],
    saves=[R12],
    source="NATS client protocol, CONNECT; firmware/docs/bus.md#login",
)  # fmt: skip
def bus_hello(a: Asm, link: BusLink, shard: ShardContext) -> None:
    """Send CONNECT, the subscription to the link's inbox and PING, in one piece."""
    mine, full, nkey, named = CREDENTIALS.it, *map(a.label, ("full", "nkey", "named"))
    a.mov(ECX, HELLO_MAX)
    a.call(tls_reserve)
    a.j(C, full)
    a.mov(R12, RDI)
    put(a, CONNECT_TEXT)
    _put_string(a, BUS.it.node.address, BUS.it.node_len)
    a.cmp(mine.auth, BusAuth.NKEY)
    a.j(E, nkey)
    a.cmp(mine.auth, BusAuth.USER)
    a.j(NE, named)
    put(a, USER_TEXT)
    _put_string(a, mine.user.address, mine.user_len)
    put(a, PASSWORD_TEXT)
    _put_string(a, mine.password.address, mine.password_len)
    a.jmp(named)
    a.place(nkey)
    put(a, NKEY_TEXT)
    a.lea(RSI, mine.nkey_public.address)
    a.mov(ECX, Credentials.nkey_public.size)
    a.rep_movsb()
    put(a, SIGNATURE_TEXT)
    a.call(bus_put_signature)
    a.place(named)
    put(a, SUBSCRIBE_TEXT)
    a.call(bus_put_inbox)
    put(a, INBOX_END_TEXT)
    a.mov(RCX, RDI)
    a.sub(RCX, R12)
    a.call(tls_commit)
    a.mov(link.state, LinkState.HELLO)
    a.clc()
    a.place(full)
    a.ret()

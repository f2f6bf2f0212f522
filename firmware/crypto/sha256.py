"""SHA-256 (FIPS 180-4) of messages that come in parts."""

from firmware.abi import CALLER_SAVED
from firmware.crypto.chosen import sha256_blocks
from firmware.crypto.sha2 import (
    SHA256,
    emit_finish,
    emit_start,
    emit_update,
)
from firmware.layouts.crypto import (
    BUFFER_IN,
    BUFFER_OUT,
    SHA256_DIGEST_BYTES,
    SHA256_INITIAL,
    Hash,
)
from toolchain.asm import ECX, R12, RAX, RBP, RBX, RDI, RSI, Asm, In, Reg32, Reg64, routine


@routine(
    inputs=[In(RDI, Hash, "the hash")],
    clobbers=[RAX],
    writes=[Hash.state, Hash.length],
    source="FIPS 180-4 5.3.3",
)
def sha256_start(a: Asm, work: Hash) -> None:
    """Begin a message: it is empty yet."""
    emit_start(a, SHA256_INITIAL, SHA256.word)


@routine(
    inputs=[
        In(RDI, Hash, "the hash"),
        In(RSI, int, "what comes next in the message"),
        In(ECX, int, "its bytes; all parts together are fewer than 2^61"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Hash.length, BUFFER_IN],
    writes=[Hash.length, Hash.block],
    calls=[sha256_blocks],
    saves=[RBX, RBP, R12],
    secret=[Hash.block, BUFFER_IN],
    source="FIPS 180-4 5.2.1",
)
def sha256_update(a: Asm, work: Hash, message: Reg64, length: Reg32) -> None:
    """Append to the message."""
    emit_update(a, SHA256, sha256_blocks)


@routine(
    inputs=[
        In(RDI, Hash, "the hash"),
        In(RSI, int, "where the 32 bytes of the digest go"),
    ],
    clobbers=CALLER_SAVED,
    reads=[Hash.state, Hash.length],
    writes=[Hash, BUFFER_OUT],
    calls=[sha256_blocks],
    saves=[RBX, R12],
    secret=[Hash.state, Hash.block, BUFFER_OUT],
    source="FIPS 180-4 5.1.1 and 6.2.2",
)
def sha256_finish(a: Asm, work: Hash, digest: Reg64) -> None:
    """End the message, write its digest, and wipe the hash."""
    emit_finish(a, SHA256, sha256_blocks, SHA256_DIGEST_BYTES)

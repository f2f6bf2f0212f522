"""The table of forms that Unicorn runs wrong names forms, not mnemonics."""

import iced_x86 as ix
import pytest

from toolchain.asm import RAX, RCX, Asm, In, Out, Reg64, routine
from toolchain.asm.unjudged import UNICORN_DEFECTS, unicorn_defect


def test_a_form_beside_a_defect_is_taken():
    """PDEP with 64 bits is good."""

    @routine(
        inputs=[In(RAX, int, "first"), In(RCX, int, "second")],
        outputs=[Out(RAX, "result")],
        source="tests",
    )
    def good(a: Asm, first: Reg64, second: Reg64) -> None:
        a.pdep(RAX, RAX, RCX)
        a.ret()

    assert [line.mnemonic for line in good.lines()] == ["pdep", "ret"]


@pytest.mark.parametrize(
    ("code", "refused"),
    [
        ("f0f718", True),  # lock neg [rax]
        ("f718", False),
        ("0fa40500000000 03", True),  # shld [rip], eax, 3
        ("0fa400 03", False),  # shld [rax], eax, 3
        ("0fa50500000000", False),  # shld [rip], eax, cl
        ("c4e37bf00500000000 07", True),  # rorx eax, [rip], 7
        ("0fb1c1", True),  # cmpxchg ecx, eax
        ("480fb1c1", False),  # cmpxchg rcx, rax
        ("c20080", True),  # ret 8000h
        ("c20800", False),
    ],
)
def test_the_table_knows_the_forms(code, refused):
    ins = ix.Decoder(64, bytes.fromhex(code), ip=0x1000).decode()
    assert ins.mnemonic in UNICORN_DEFECTS
    assert bool(unicorn_defect(ins)) is refused

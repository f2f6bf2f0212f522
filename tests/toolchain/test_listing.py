"""The listing of a whole program: its text, and that NASM makes the program's bytes of it."""

import re

import pytest

from tests.support.forms import nasm
from tests.support.program import PLAN, program
from toolchain.asm import CF, RAX, RBX, Asm, In, Mem8, Out, Reg64, routine
from toolchain.link import Linker, LinkerSymbol, SectionPlan
from toolchain.link.flat import file_offsets, flat
from toolchain.listing import image_hex, image_listing, routine_hex, routine_listing

IMAGE = program()


def test_image_listing_reassembles_to_the_flat_image():
    assert nasm(image_listing(IMAGE)) == flat(IMAGE)


def test_flat_keeps_distances_and_pages_align_sections_elsewhere():
    assert file_offsets(IMAGE) == {
        ".boot": 0,
        ".text": 0x400,  # 0x7C00 + 0x400 begins a page
        ".rodata": 0x400 + IMAGE.section(".rodata").address - IMAGE.section(".text").address,
        ".data": 0x1400,
    }
    contents = flat(IMAGE)
    assert (0x7C00 + len(contents)) % 4096 == 0
    for name, offset in file_offsets(IMAGE).items():
        section = IMAGE.section(name)
        assert contents[offset : offset + section.size] == section.contents


def test_routine_listing_shows_contract_comments_names_and_source():
    text = re.sub(r"py:\d+", "py:@", routine_listing(IMAGE, "checksum"))
    assert text == (
        "bits 64\n"
        "; checksum\n"
        "; Add up bytes.\n"
        ";   in:      rsi: bytes\n"
        ";   in:      ecx: how many; not 0\n"
        ";   out:     rax: sum of the bytes\n"
        ";   changes: rcx, rdx, rsi\n"
        ";   reads:   text\n"
        ";   stack:   0 bytes with all it calls\n"
        ";   source:  none\n"
        ";   at:      tests/support/program.py:@\n"
        "checksum:\n"
        "        xor eax, eax                         ; program.py:@\n"
        "\n"
        "        ; One byte a turn.\n"
        ".loop_1:\n"
        "        movzx rdx, byte [rsi]                ; text; a byte has no sign here; program.py:@\n"
        "        add rax, rdx                         ; program.py:@\n"
        "        inc rsi                              ; program.py:@\n"
        "        dec ecx                              ; program.py:@\n"
        "        jnz short .loop_1                    ; program.py:@\n"
        ".endloop_2:\n"
        "        ret                                  ; program.py:@\n"
    )


@pytest.mark.parametrize(
    "wanted",
    [
        "mov byte [rbx], 5                    ; Engine.mode, Mode.BUSY;",
        "test dword [rel engine+0x4], 9       ; Engine.flags, Flags.HOT|Flags.LATE;",
        "jmp near step_add",
        "jz near .done",
        "mov cl, byte [rel $loop]",
        "jmp dword 8:boot_protected",
        "jmp 0x10:main",
        "mov esi, boot_note+0x1",
        "add esi, text_start",
        "        dq step_add",
        "$loop:\n        db 0x07",
        "bits 16\n",
        "bits 32\n",
        "scratch:\n        resb 40",
        "        ; Unrolled on purpose, so that the branches above need their long form.",
        ";   calls:   checksum, step_add, step_sub",
        ";   saves:   r12",
    ],
)
def test_image_listing_shows(wanted):
    assert wanted in image_listing(IMAGE)


def test_prologue_points_at_the_declaration():
    text = routine_listing(IMAGE, "main")
    declared = re.search(r"at: +tests/support/(program.py:\d+)", text)
    push = re.search(r"push r12 +; (program.py:\d+)", text)
    assert declared is not None
    assert push is not None
    assert push[1] == declared[1]


def twice(a: Asm) -> None:
    """Emit a macro with a label of its own."""
    skip = a.label("skip")
    a.jz(skip)
    a.inc(RAX)
    a.place(skip)


@routine(outputs=[Out(RAX, "count"), Out(CF, "0")], source="none")
def repeats(a: Asm) -> None:
    """Use a macro twice."""
    a.xor(RAX, RAX)
    for _ in range(2):
        # Once more.
        twice(a)
    a.clc()
    a.ret()


def test_labels_of_repeated_macros_are_told_apart():
    image = Linker((repeats,), PLAN).link()
    text = routine_listing(image, "repeats")
    assert re.findall(r"^\.\w+:", text, re.MULTILINE) == [".skip:", ".skip_2:"]
    assert nasm(image_listing(image)) == flat(image)


@routine(outputs=[Out(RAX, "an address"), Out(RBX, "another")], source="none")
def measures(a: Asm) -> None:
    """Refer to the ends of a section that is empty, and of its own."""
    a.lea(RAX, Mem8(None, symbol=LinkerSymbol("bss_end")))
    a.lea(RBX, Mem8(None, symbol=LinkerSymbol("text_start")))
    a.ret()


def test_ends_of_empty_sections_are_relative_too():
    image = Linker((measures,), PLAN).link()
    assert image.section(".bss").size == 0
    assert nasm(image_listing(image)) == flat(image)


def test_routine_listing_refuses_data():
    with pytest.raises(KeyError, match="greeting"):
        routine_listing(IMAGE, "greeting")


def test_hex_is_the_linked_bytes_and_nothing_else():
    text = routine_hex(IMAGE, "step_add")
    assert text == "48 83 43 10 01 c3\n"
    whole = bytes.fromhex(image_hex(IMAGE))
    assert whole == b"".join(bytes.fromhex(routine_hex(IMAGE, p.name)) for p in IMAGE.routines())
    assert all(re.fullmatch(r"([0-9a-f]{2} ?)+", line) for line in image_hex(IMAGE).splitlines())


def test_a_branch_is_short_up_to_its_reach():
    for filling, size in ((127, 2), (128, 6)):
        image = Linker((_branch_over(filling),), (SectionPlan(".text", 0x1000),)).link()
        code = image.section(".text").contents
        assert len(code) == 3 + size + filling + 1
        assert nasm(image_listing(image)) == flat(image)


def _branch_over(filling: int):
    @routine(inputs=[In(RBX, int, "anything")], source="none")
    def over(a: Asm, value: Reg64) -> None:
        """Jump over single bytes."""
        end = a.label("end")
        a.test(value, value)
        a.jz(end)
        for _ in range(filling):
            a.nop()
        a.place(end)
        a.ret()

    return over

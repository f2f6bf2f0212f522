"""The trampoline's own bytes."""

from iced_x86 import Decoder, FlowControl, Mnemonic

from emulator.trampoline import (
    EXIT,
    EXIT_2,
    FRAME_BASE,
    FRAME_SIZE,
    PAGE,
    TRAMPOLINE_BASE,
    jump_to,
    trampoline,
)


def test_it_fits_its_page_and_its_exits_are_instructions() -> None:
    code, *_ = trampoline()
    assert len(code) <= PAGE
    starts = {ins.ip for ins in Decoder(64, code, ip=TRAMPOLINE_BASE)}
    assert {EXIT, EXIT_2} <= starts


def test_every_memory_operand_lies_in_the_frame() -> None:
    code, *_ = trampoline()
    addresses = [
        ins.ip_rel_memory_address
        for ins in Decoder(64, code, ip=TRAMPOLINE_BASE)
        if ins.is_ip_rel_memory_operand
    ]
    assert len(addresses) > 60
    assert all(FRAME_BASE <= address < FRAME_BASE + FRAME_SIZE for address in addresses)


def test_nothing_between_loading_the_flags_and_the_jump_changes_them() -> None:
    code, *_ = trampoline()
    instructions = list(Decoder(64, code, ip=TRAMPOLINE_BASE))
    loaded = next(n for n, ins in enumerate(instructions) if ins.mnemonic == Mnemonic.POPFQ)
    jump = next(
        n for n, ins in enumerate(instructions) if ins.flow_control == FlowControl.INDIRECT_BRANCH
    )
    between = instructions[loaded + 1 : jump]
    assert len(between) == 16
    assert all(ins.rflags_modified == 0 for ins in between)


def test_jump_to_reaches_any_address_without_a_register() -> None:
    data = jump_to(0xFFFF_8000_1234_5678)
    ins = Decoder(64, data, ip=0x1000).decode()
    assert (ins.mnemonic, ins.ip_rel_memory_address) == (Mnemonic.JMP, 0x1006)
    assert int.from_bytes(data[6:], "little") == 0xFFFF_8000_1234_5678

"""The instructions that are refused are real ones, and no others are."""

from emulator.refused import REFUSED_MNEMONICS, refused_instructions

CODE = 0x6000_0000


def test_the_refused_list_names_real_mnemonics() -> None:
    assert {"RDTSC", "IN", "OUT", "WRMSR", "LIDT", "HLT"} <= REFUSED_MNEMONICS
    found = refused_instructions(bytes.fromhex("900f31c3"), CODE)
    assert [str(ins) for ins in found] == ["rdtsc"]
    assert refused_instructions(bytes.fromhex("4801d8c3"), CODE) == []

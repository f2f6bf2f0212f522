"""Which instructions no user process can judge, so that they are left to Unicorn or QEMU."""

from typing import Final

from iced_x86 import Decoder, Instruction, Mnemonic

# What a user process cannot run, or runs with an answer that no test supplies.
REFUSED_MNEMONICS: Final = frozenset(
    {
        *("RDTSC", "RDTSCP", "RDRAND", "RDSEED", "RDPMC", "CPUID", "RDPID"),
        *("IN", "OUT", "INSB", "INSW", "INSD", "OUTSB", "OUTSW", "OUTSD"),
        *("CLI", "STI", "HLT", "CLTS", "INVD", "WBINVD", "INVLPG", "INVPCID"),
        *("RDMSR", "WRMSR", "XSETBV", "SWAPGS", "IRET", "IRETD", "IRETQ"),
        *("LGDT", "LIDT", "LLDT", "LTR", "LMSW", "SGDT", "SIDT", "SLDT", "STR", "SMSW"),
        *("SYSCALL", "SYSENTER", "SYSRET", "SYSRETQ", "SYSEXIT", "SYSEXITQ"),
        *("INT", "INT1", "INT3"),
        *("WRFSBASE", "WRGSBASE", "MONITOR", "MWAIT", "VMCALL", "VMMCALL"),
    }
)
_REFUSED_CODES = frozenset(getattr(Mnemonic, name) for name in REFUSED_MNEMONICS)


def refused_instructions(code: bytes, address: int) -> list[Instruction]:
    """Return the instructions of a routine that cannot run in a user process.

    Args:
        code: The routine's bytes, nothing but instructions.
        address: Its link address.
    """
    return [
        instruction
        for instruction in Decoder(64, code, ip=address)
        if instruction.is_privileged or instruction.mnemonic in _REFUSED_CODES
    ]

"""Many registers at once are those that the engine gives one by one."""

import unicorn as uc
import unicorn.x86_const as ux

from emulator.registers import GPR, Snapshot


def test_registers_are_read_at_once():
    engine = uc.Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)
    snapshot = Snapshot(engine)
    for n, name in enumerate(GPR):
        engine.reg_write(getattr(ux, f"UC_X86_REG_{name.upper()}"), 2**63 + n)
    for n in range(16):
        engine.reg_write(ux.UC_X86_REG_XMM0 + n, n << 64 | 100 + n)
    engine.reg_write(ux.UC_X86_REG_RIP, 0x1234)
    engine.reg_write(ux.UC_X86_REG_RFLAGS, 0x8D7)
    assert snapshot.take() == [*(2**63 + n for n in range(16)), 0x1234, 0x8D7]
    assert snapshot.vectors() == [v for n in range(16) for v in (100 + n, n)]

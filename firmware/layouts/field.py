"""Elements of finite fields in 64-bit limbs, least significant first, and how they are multiplied."""

from __future__ import annotations

import enum

from toolchain.asm import Region

ELEMENT = Region("field elements", "owned by the caller, as many limbs as the field has")


class Level(enum.Enum):
    """What the processor must have for a variant; the value ends the variant's name."""

    ADX = "adx"
    """MULX (BMI2), ADCX and ADOX (ADX): two carry chains at once."""
    BASE = "base"
    """Every x86-64 processor: MUL and one carry chain."""

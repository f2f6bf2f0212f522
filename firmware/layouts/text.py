"""Where a text goes that the node writes."""

from toolchain.asm.operands import Region

TEXT_OUT = Region("the text being written", "a buffer of the caller, bounded by its contract")

"""Texts that the node writes and reads."""

from toolchain.asm.operands import Region

TEXT_OUT = Region("the text being written", "a buffer of the caller, bounded by its contract")
TEXT_IN = Region("the text being read", "as many bytes as the caller says")
ESCAPED_MAX = 6
"""Bytes that a byte of a JSON string takes at most: `\\u001f`."""

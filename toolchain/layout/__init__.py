"""Structs, enums and globals: declared once, read by generators, models, decoders and documents."""

from toolchain.layout.data import Data, Global, Table
from toolchain.layout.fields import (
    Field,
    Span,
    array,
    be16,
    be32,
    bytes_,
    enum8,
    enum32,
    flags8,
    flags32,
    nested,
    ptr,
    u8,
    u16,
    u32,
    u64,
)
from toolchain.layout.struct import Struct

__all__ = [
    "Data", "Field", "Global", "Span", "Struct", "Table", "array", "be16", "be32", "bytes_",
    "enum8", "enum32", "flags8", "flags32", "nested", "ptr", "u8", "u16", "u32", "u64",
]  # fmt: skip

"""Regions of memory with contents, and the pages by which an address is looked up."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass, field
from typing import NamedTuple

PAGE = 4096


@dataclass
class Region:
    """Memory with contents.

    `aliases` are further addresses of the same bytes. `foreign` memory holds what others wrote (a
    frame, a ring, a caller's buffer): a routine may load only what its model looks at.
    """

    name: str
    address: int
    size: int
    writable: bool = True
    executable: bool = False
    aliases: tuple[int, ...] = ()
    foreign: bool = False
    buffer: mmap.mmap = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = mmap.mmap(-1, self.size)

    @property
    def pointer(self) -> int:
        """The host address of the buffer."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self.buffer))


class Page(NamedTuple):
    """Where the bytes of one page of the address space are.

    Attributes:
        region: The region.
        offset: Of the page in the region's buffer.
        first: Number of the page at the region's first address: equal for all aliases.
    """

    region: Region
    offset: int
    first: int


def split(address: int, size: int) -> list[tuple[int, int]]:
    """Cut a run of bytes at page boundaries into (address, size)."""
    if 0 < size <= PAGE - address % PAGE:
        return [(address, size)]  # nearly always
    end, parts = address + size, []
    while address < end:
        length = min(end, (address // PAGE + 1) * PAGE) - address
        parts.append((address, length))
        address += length
    return parts


def whole_pages(size: int) -> int:
    """Return a size rounded up to pages, at least one."""
    return max(PAGE, -(-size // PAGE) * PAGE)

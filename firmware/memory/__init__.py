"""Memory: a clean list of usable pages, page tables, and what the node's windows hold.

A page below 1 MB, or one that any entry of the map calls something other than usable, is never
touched.
"""

from firmware.memory.pages import map_fresh, memory_init, page_entry, page_map, pages_take
from firmware.memory.windows import (
    dma_map,
    fault_stacks_map,
    low_unmap,
    mmio_map,
    record_map,
    workspace_map,
)

__all__ = [
    "dma_map", "fault_stacks_map", "low_unmap", "map_fresh", "memory_init", "mmio_map", "page_entry",
    "page_map", "pages_take", "record_map", "workspace_map",
]  # fmt: skip

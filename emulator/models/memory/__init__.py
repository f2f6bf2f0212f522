"""Reference models of `firmware.memory`."""

from emulator.models.memory.pages import map_fresh, memory_init, page_entry, page_map, pages_take
from emulator.models.memory.windows import (
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

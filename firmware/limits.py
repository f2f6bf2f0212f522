"""Sizes, addresses and bounds of the node, each declared once."""

PAGE = 4096

# Virtual memory. Everything the node owns has a fixed virtual address (ADR 0002).
IMAGE_BASE = 0x6000_0000
WINDOW_PAGE_TABLES = 0x6600_0000
"""The page tables themselves, so that device windows can be added after boot."""
WINDOW_DMA = 0x6700_0000
"""NIC rings and buffers, physically contiguous; see `Memory.dma_physical`."""
DMA_BYTES = 0x10_0000
WINDOW_ARENAS, ARENA_STRIDE = 0x6B00_0000, 0x1_0000
"""Arenas of TLS handshakes, 44 KB each, unmapped memory between them."""
WINDOW_MMIO = 0x6C00_0000
MMIO_BYTES = 0x80_0000
WINDOW_OUTBOX, OUTBOX_BYTES = 0x6D00_0000, 0x10_0000
"""What is published and not acknowledged: a ring that is mapped twice in a row."""
WINDOW_ASSEMBLY, ASSEMBLY_BYTES = 0x6D20_0000, 0x8_0000
"""Buffers for messages that come in parts, one behind the other."""
STACK_TOP = 0x6E01_0000
STACK_BYTES = 0x4000
FAULT_STACK_TOP = 0x6E03_0000
"""Stacks of #DF and NMI, one page each below this address with guard pages between."""
RECORD_PAGE = 0x6E04_0000
"""The crash record: one page at a fixed physical address that a warm reset keeps."""
SURVIVOR_PAGE = RECORD_PAGE + PAGE
"""Behind it, kept as well: what the next boot takes over, half a kilobyte of it for each slot."""

# Shard workspaces: ten pages each in a window of their own, guard pages between.
SHARDS_MAX = 256
WORKSPACE_BASE = 0x7000_0000
WORKSPACE_STRIDE = 0x2_0000
WORKSPACE_STATE = 0x1000
WORKSPACE_STATE_BYTES = 3 * PAGE
WORKSPACE_TX = 0x5000
TX_BYTES = 2 * PAGE
WORKSPACE_RING = 0x8000
RING_BYTES = 5 * PAGE
"""The receive ring is mapped twice in a row: `RING_BYTES` at WORKSPACE_RING and again after it."""
WORKSPACE_COLOURS = 16
KEPT_PAGES = 2 + SHARDS_MAX // 8
"""The crash record and what lies behind it."""
"""Workspaces start `slot % 16` cache lines into their state pages (decision 10)."""

# Image.
IMAGE_LIMIT_BYTES = 308 * 1024
"""Without the anchors: with the 92 KB of all of certifi's it is 400 KB (decision 11)."""
BIOS_LIMIT_BYTES = 480 * 1024
NBP_ADDRESS = 0x7C00

# Lifecycle (seed A).
RECONNECT_BACKOFF_MS = 5000

# Deadlines (decision 21), milliseconds.
HELLO_TIMEOUT_MS = 10_000
RESUME_TIMEOUT_MS = 20_000
CLOSE_TIMEOUT_MS = 5_000

# Gateway.
OUTBOUND_PAYLOAD_MAX = 4096
SESSION_ID_MAX = 256
RESUME_HOST_MAX = 128
TOKEN_MAX = 256
JSON_DEPTH_MAX = 64
MESSAGE_BYTES_MAX = 64 * 1024 * 1024

# Network.
SEND_PAYLOAD_MAX = 1208
RECEIVE_MSS = 1460
FRAME_MAX = 1514

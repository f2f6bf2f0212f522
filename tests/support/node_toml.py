"""Types of the fixtures that load and refuse a text as node.toml."""

from collections.abc import Callable

from toolchain.config import NodeConfig

Load = Callable[..., NodeConfig]
Fail = Callable[..., list[str]]

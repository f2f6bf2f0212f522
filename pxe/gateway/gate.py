"""Who may identify now, and how often a day."""

from collections import deque
from typing import Final

from pxe.gateway.options import GatewayOptions

_DAY_MS: Final = 86_400_000
_ADDRESS_WINDOW_MS: Final = 60_000


class IdentifyGate:
    """The pace of Identify for one bot.

    A key is ``shard_id % max_concurrency``; an accepted Identify keeps its key busy.
    Every well-formed Identify counts against the day, a refused one too.

    Attributes:
        refusals: Identifies that came while their key was busy.

    Args:
        options: Concurrency, interval, tolerance and daily total.
    """

    def __init__(self, options: GatewayOptions) -> None:
        self.refusals = 0
        self._options = options
        self._accepted_at: dict[int, int] = {}
        self._starts: deque[int] = deque()

    def passes(self, shard: int, now_ms: int) -> bool:
        """Take the key of a shard if it is free."""
        key = shard % self._options.max_concurrency
        busy_ms = self._options.identify_busy_ms - self._options.identify_tolerance_ms
        last = self._accepted_at.get(key)
        if last is not None and now_ms - last < busy_ms:
            self.refusals += 1
            return False
        self._accepted_at[key] = now_ms
        return True

    def take_start(self, now_ms: int) -> bool:
        """Count an Identify against the day; False when none was left."""
        if self.starts_left(now_ms) <= 0:
            return False
        self._starts.append(now_ms)
        return True

    def starts_left(self, now_ms: int) -> int:
        """Return how many Identifies are left in the present 24 hours."""
        while self._starts and self._starts[0] <= now_ms - _DAY_MS:
            self._starts.popleft()
        return self._options.session_start_total - len(self._starts)

    def reset_after_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the oldest counted Identify is forgotten."""
        return self._starts[0] + _DAY_MS - now_ms if self._starts else 0


class AddressGate:
    """The pace of Identify and Resume for one client address: a number in fixed windows.

    Attributes:
        drops: Handshakes that were over the number.

    Args:
        limit: Handshakes in one window.
    """

    def __init__(self, limit: int) -> None:
        self.drops = 0
        self._limit = limit
        self._windows: dict[str, tuple[int, int]] = {}

    def passes(self, address: str, now_ms: int) -> bool:
        """Count one handshake; a window begins with the first after the last has ended."""
        began, count = self._windows.get(address, (now_ms, 0))
        if now_ms - began >= _ADDRESS_WINDOW_MS:
            began, count = now_ms, 0
        self._windows[address] = (began, count + 1)
        self.drops += count >= self._limit
        return count < self._limit

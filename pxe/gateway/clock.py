"""Where the gateway takes its time from."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of milliseconds that never goes back."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since some fixed point."""


class MonotonicClock:
    """Real time, counted from when the object was made."""

    def __init__(self) -> None:
        self._start_ns = time.monotonic_ns()

    def now_ms(self) -> int:
        """Return the milliseconds since the clock was made."""
        return (time.monotonic_ns() - self._start_ns) // 1_000_000


class ManualClock:
    """Time that only moves when a test or a simulator moves it."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that was set last."""
        return self._now_ms

    def set(self, now_ms: int) -> None:
        """Move to a time in milliseconds.

        Raises:
            ValueError: The time lies before the present one.
        """
        if now_ms < self._now_ms:
            msg = f"the clock stands at {self._now_ms} ms and cannot go back to {now_ms} ms"
            raise ValueError(msg)
        self._now_ms = now_ms

    def advance(self, delta_ms: int) -> int:
        """Move forward by some milliseconds and return the new time."""
        self.set(self._now_ms + delta_ms)
        return self._now_ms

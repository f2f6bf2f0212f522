"""When a server gives a silent client up."""

import enum
from typing import Protocol


class Verdict(enum.Enum):
    """What a look at a client's silence leads to."""

    WAIT = enum.auto()
    ASK = enum.auto()
    CLOSE = enum.auto()


class Patience(Protocol):
    """A way to judge silence.

    Attributes:
        deadline: Time in ms of the next look, or None.
    """

    deadline: int | None

    def restart(self, now_ms: int) -> None:
        """Begin anew after Hello or a heartbeat."""

    def judge(self, now_ms: int) -> Verdict:
        """Look at the silence; called at the deadline or later."""


class DeadlinePatience:
    """One deadline after each heartbeat.

    Args:
        patience_ms: Longest silence.
    """

    def __init__(self, patience_ms: int) -> None:
        self.deadline: int | None = None
        self._patience_ms = patience_ms

    def restart(self, now_ms: int) -> None:
        """Begin anew after Hello or a heartbeat."""
        self.deadline = now_ms + self._patience_ms

    def judge(self, now_ms: int) -> Verdict:
        """Give up at the deadline."""
        late = self.deadline is not None and now_ms >= self.deadline
        return Verdict.CLOSE if late else Verdict.WAIT


class AskingPatience:
    """Fluxer's timer: it looks at every third of the interval, counted from Hello.

    At nine tenths of the interval without a heartbeat it asks for one; asked for and still
    missing at twelve elevenths, the client is given up. With 41 250 ms: ticks of 13 750,
    asked from 37 125 on, given up after 45 000.

    Args:
        interval_ms: The interval that Hello announces.
    """

    def __init__(self, interval_ms: int) -> None:
        self.deadline: int | None = None
        self._tick_ms = max(1, interval_ms // 3)
        self._ask_ms = interval_ms * 9 // 10
        self._close_ms = interval_ms * 12 // 11
        self._last_ms = 0
        self._is_asked = False

    def restart(self, now_ms: int) -> None:
        """Note a heartbeat; the ticks go on as they were."""
        self._last_ms, self._is_asked = now_ms, False
        if self.deadline is None:
            self.deadline = now_ms + self._tick_ms

    def judge(self, now_ms: int) -> Verdict:
        """Look at the silence and set the next tick."""
        if self.deadline is not None:
            self.deadline += self._tick_ms
        silent_ms = now_ms - self._last_ms
        if self._is_asked:
            return Verdict.CLOSE if silent_ms > self._close_ms else Verdict.WAIT
        if silent_ms < self._ask_ms:
            return Verdict.WAIT
        self._is_asked = True
        return Verdict.ASK

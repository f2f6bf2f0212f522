"""Virtual time: a queue of events ordered by nanosecond, then by the order they were asked for."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class Timer:
    """One event that has not happened yet."""

    __slots__ = ("action", "when_ns")

    def __init__(self, when_ns: int, action: Callable[[], None]) -> None:
        self.when_ns = when_ns
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Forget the event; cancelling twice, or after it happened, changes nothing."""
        self.action = None

    @property
    def pending(self) -> bool:
        """True until the event happened or was cancelled."""
        return self.action is not None


class EventQueue:
    """The clock and everything that is going to happen.

    Args:
        start_ns: the first value of `now_ns`, in nanoseconds.
    """

    def __init__(self, start_ns: int = 0) -> None:
        self.now_ns = start_ns
        self._heap: list[tuple[int, int, Timer]] = []
        self._asked = 0

    def at(self, when_ns: int, action: Callable[[], None]) -> Timer:
        """Run `action` at an absolute time; a time in the past means now, after what is due now."""
        when_ns = max(when_ns, self.now_ns)
        timer = Timer(when_ns, action)
        self._asked += 1
        heapq.heappush(self._heap, (when_ns, self._asked, timer))
        return timer

    def after(self, delay_ns: int, action: Callable[[], None]) -> Timer:
        """Run `action` after a delay in nanoseconds."""
        return self.at(self.now_ns + delay_ns, action)

    def next_time(self) -> int | None:
        """Return the time of the earliest pending event, or None when nothing is pending."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_next(self) -> bool:
        """Move the clock to the earliest event and run it; return False when there was none."""
        when_ns = self.next_time()
        if when_ns is None:
            return False
        _, _, timer = heapq.heappop(self._heap)
        action = timer.action
        timer.action = None
        self.now_ns = when_ns
        if action is not None:
            action()
        return True


class Alarm:
    """A deadline that moves often, such as a retransmission timer.

    Moving it later costs nothing: the queued event notices and queues itself again. That keeps
    the queue small when a deadline is pushed back on every acknowledgement.
    """

    __slots__ = ("_action", "_events", "_timer", "deadline_ns")

    def __init__(self, events: EventQueue, action: Callable[[], None]) -> None:
        self._events = events
        self._action = action
        self._timer: Timer | None = None
        self.deadline_ns: int | None = None

    def set_after(self, delay_ns: int) -> None:
        """Ring after `delay_ns`, instead of whenever it would have rung before."""
        when_ns = self._events.now_ns + delay_ns
        self.deadline_ns = when_ns
        timer = self._timer
        if timer is not None and timer.pending:
            if timer.when_ns <= when_ns:
                return
            timer.cancel()
        self._timer = self._events.at(when_ns, self._fire)

    def stop(self) -> None:
        """Do not ring until it is set again."""
        self.deadline_ns = None

    @property
    def running(self) -> bool:
        """True while a deadline is set."""
        return self.deadline_ns is not None

    def _fire(self) -> None:
        deadline_ns = self.deadline_ns
        if deadline_ns is None:
            return
        if deadline_ns > self._events.now_ns:
            self._timer = self._events.at(deadline_ns, self._fire)
            return
        self.deadline_ns = None
        self._action()

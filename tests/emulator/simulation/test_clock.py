from __future__ import annotations

from emulator.simulation.clock import Alarm, EventQueue


def test_events_run_by_time_then_by_the_order_they_were_asked_for():
    events = EventQueue(start_ns=100)
    seen = []
    events.after(10, lambda: seen.append("b"))
    events.after(5, lambda: seen.append("a"))
    events.after(10, lambda: seen.append("c"))
    while events.run_next():
        pass
    assert seen == ["a", "b", "c"]
    assert events.now_ns == 110


def test_a_time_in_the_past_means_now():
    events = EventQueue(start_ns=100)
    events.at(3, lambda: None)
    assert events.next_time() == 100


def test_a_cancelled_event_does_not_happen_and_does_not_move_the_clock():
    events = EventQueue()
    seen = []
    timer = events.after(50, lambda: seen.append("cancelled"))
    events.after(10, lambda: seen.append("kept"))
    timer.cancel()
    while events.run_next():
        pass
    assert seen == ["kept"]
    assert events.now_ns == 10
    assert not timer.pending


class TestAlarm:
    def test_moving_it_later_rings_once_at_the_last_time(self):
        events = EventQueue()
        rings = []
        alarm = Alarm(events, lambda: rings.append(events.now_ns))
        alarm.set_after(10)
        events.at(5, lambda: alarm.set_after(20))
        while events.run_next():
            pass
        assert rings == [25]

    def test_moving_it_earlier_rings_once_at_the_earlier_time(self):
        events = EventQueue()
        rings = []
        alarm = Alarm(events, lambda: rings.append(events.now_ns))
        alarm.set_after(100)
        alarm.set_after(7)
        while events.run_next():
            pass
        assert rings == [7]

    def test_stopped_it_stays_quiet_until_set_again(self):
        events = EventQueue()
        rings = []
        alarm = Alarm(events, lambda: rings.append(events.now_ns))
        alarm.set_after(10)
        alarm.stop()
        assert not alarm.running
        events.at(50, lambda: alarm.set_after(1))
        while events.run_next():
            pass
        assert rings == [51]

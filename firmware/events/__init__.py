"""Dispatches and notices for up to four listeners, each told by UDP where it asked from.

The layer above tests `EVENTS.listeners` and calls nothing here while it is 0. What is sent is best
effort: an event that finds no transmit buffer is lost for that listener and counted, and events leave
half of the buffers to everybody else. Read `firmware/docs/events.md` first.
"""

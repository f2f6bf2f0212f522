"""Ctrl-C for the programs that tests start, whoever started the tests."""

import signal


def hear_interrupts() -> None:
    """Let this process, and so each that it starts, hear SIGINT.

    A shell without job control ignores it for what it starts in the background; ignored signals
    are inherited, and a handler of Python's becomes the default of a program that it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

"""The log: what a line looks like, when it is dropped, and when it leaves."""

from emulator.models.log.serial import log_drain, log_finish
from emulator.models.log.write import log, log_at_level, log_setup, log_write

__all__ = ["log", "log_at_level", "log_drain", "log_finish", "log_setup", "log_write"]

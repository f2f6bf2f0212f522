"""The log: lines go into a ring and leave by the serial port a few bytes at a time."""

from firmware.log.serial import log_drain, log_finish
from firmware.log.write import at_level, log, log_setup, log_write

__all__ = ["at_level", "log", "log_drain", "log_finish", "log_setup", "log_write"]

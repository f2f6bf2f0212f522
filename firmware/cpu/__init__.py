"""The processor: set-up, faults, clock, idling, watchdog, the serial port."""

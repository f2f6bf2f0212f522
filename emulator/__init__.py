"""How the firmware is proved: the machine, the judges, the reference models and the simulator."""

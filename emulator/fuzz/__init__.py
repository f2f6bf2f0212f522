"""Coverage-guided fuzzing of emulated routines: blocks say what is new, the footprint what is wrong.

An input that reaches an edge between blocks that none reached before is kept and changed further.
An input is a finding when the code faults, runs longer than it may, or stores where it must not.
"""

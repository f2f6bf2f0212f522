"""Reference models: same paths and names as `firmware`, built on `firmware.layouts` only.

A model states the rule on field values and cites its source; it never copies the routine.
"""

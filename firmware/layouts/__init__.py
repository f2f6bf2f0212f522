"""Structs, enums and node-wide globals: declarations only, no code.

Generators, reference models, the diagnostics decoder and the documents read the same classes.
"""

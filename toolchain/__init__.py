"""How the firmware is made: assembler, layouts, linker, listing, configuration, command line.

Nothing in here knows of shards, the composition root `toolchain.cli` aside.
"""

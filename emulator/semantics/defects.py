"""Where Unicorn 2.1.4 departs from the SDM, found by the three-way comparison in the tests.

The processor sides with the Python semantics in every one. The build refuses these forms, so the
list lives with the assembler; a lockstep run that meets one all the same names the reason.
"""

from toolchain.asm.unjudged import UNICORN_DEFECTS, unicorn_defect

__all__ = ["UNICORN_DEFECTS", "unicorn_defect"]

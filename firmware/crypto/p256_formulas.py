"""Complete formulas on P-256, and what surrounds them, as programs on `P256Work`.

No case of the group law is apart. The formulas are those of Renes, Costello and Batina for a = -3
("Complete addition formulas for prime order elliptic curves", ePrint 2015/1060), in place.
"""

from __future__ import annotations

from firmware.crypto.formula import compiled
from firmware.layouts.p256 import P256Work

START = """
x1 = x1 - x1
y1 = one
z1 = x1
z2 = one
"""
"""The sum is infinity; what is added is affine."""
TAKE = """
x2 = x * square
y2 = y * square
t0 = y2 * unit
t1 = x2 * unit
left = y2 ^ 2^1
t2 = x2 ^ 2^1
t2 = t2 * x2
t2 = t2 - x2
t2 = t2 - x2
t2 = t2 - x2
t2 = t2 + b
"""
"""The point in Montgomery's form. t0, t1 are y, x when these are below the prime: a product is, if one
factor is. left = y^2, t2 = x^3 - 3x + b."""
ADD = """
t0 = x1 * x2
t1 = y1 * y2
t2 = z1 * z2
t3 = x1 + y1
t4 = x2 + y2
t3 = t3 * t4
t4 = t0 + t1
t3 = t3 - t4
t4 = y1 + z1
t5 = y2 + z2
t4 = t4 * t5
t5 = t1 + t2
t4 = t4 - t5
x1 = x1 + z1
y1 = x2 + z2
x1 = x1 * y1
y1 = t0 + t2
y1 = x1 - y1
z1 = b * t2
x1 = y1 - z1
z1 = x1 + x1
x1 = x1 + z1
z1 = t1 - x1
x1 = t1 + x1
y1 = b * y1
t1 = t2 + t2
t2 = t1 + t2
y1 = y1 - t2
y1 = y1 - t0
t1 = y1 + y1
y1 = t1 + y1
t1 = t0 + t0
t0 = t1 + t0
t0 = t0 - t2
t1 = t4 * y1
t2 = t0 * y1
y1 = x1 * z1
y1 = y1 + t2
x1 = t3 * x1
x1 = x1 - t1
z1 = t4 * z1
t1 = t3 * t0
z1 = z1 + t1
"""
"""Their algorithm 4: the sum of any two points."""
DOUBLE = """
t0 = x1 ^ 2^1
t1 = y1 ^ 2^1
t2 = z1 ^ 2^1
t3 = x1 * y1
t3 = t3 + t3
t4 = y1 * z1
t4 = t4 + t4
z1 = x1 * z1
z1 = z1 + z1
y1 = b * t2
y1 = y1 - z1
x1 = y1 + y1
y1 = x1 + y1
x1 = t1 - y1
y1 = t1 + y1
y1 = x1 * y1
x1 = x1 * t3
t3 = t2 + t2
t2 = t2 + t3
z1 = b * z1
z1 = z1 - t2
z1 = z1 - t0
t3 = z1 + z1
z1 = z1 + t3
t3 = t0 + t0
t0 = t3 + t0
t0 = t0 - t2
t0 = t0 * z1
y1 = y1 + t0
z1 = t4 * z1
x1 = x1 - z1
z1 = t4 * t1
z1 = z1 + z1
z1 = z1 + z1
"""
"""Their algorithm 6: twice any point."""
AFFINE = """
t0 = z1 ^ 2^1
t0 = t0 * z1
t1 = t0 ^ 2^2
t1 = t1 * t0
t2 = t1 ^ 2^4
t2 = t2 * t1
t3 = t2 ^ 2^8
t3 = t3 * t2
t3 = t3 ^ 2^8
t3 = t3 * t2
t3 = t3 ^ 2^4
t3 = t3 * t1
t3 = t3 ^ 2^2
t3 = t3 * t0
t4 = t3 ^ 2^2
t4 = t4 * t0
t5 = t4 ^ 2^32
t5 = t5 * z1
t5 = t5 ^ 2^128
t5 = t5 * t4
t5 = t5 ^ 2^32
t5 = t5 * t4
t5 = t5 ^ 2^30
t5 = t5 * t3
t5 = t5 ^ 2^2
t5 = t5 * z1
t5 = t5 * unit
x = x1 * t5
y = y1 * t5
"""
"""Runs of 2, 4, 8, 24, 30 and 32 ones in the exponent p - 2, which inverts; then the numbers."""
P256_START = compiled("p256_start", START, P256Work)
P256_TAKE = compiled("p256_take", TAKE, P256Work)
P256_ADD = compiled("p256_add_complete", ADD, P256Work)
P256_DOUBLE = compiled("p256_double_complete", DOUBLE, P256Work)
P256_AFFINE = compiled("p256_affine", AFFINE, P256Work)

"""Formulas of Ed25519 as programs on `Ed25519Work`: points in extended coordinates, and scalars.

The formulas for points are complete: d is no square, so no case is apart (RFC 8032 5.1.4). X / Z and
Y / Z are the coordinates, T = XY / Z. A pair of names is a sum and the difference behind it.
"""

from __future__ import annotations

from firmware.crypto.formula import compiled
from firmware.layouts.ed25519 import Ed25519Work

START = """
x = one - one
y = one
z = one
t = x
"""
"""The sum is the neutral point."""
ADD = """
a = y +- x
b = b * minus
a = a * plus
t = t * twice
c = z +- z
c = c +- t
h = a +- b
x = e * f
y = c * h
t = e * h
z = f * c
"""
"""B = a, A = b, C = t, then D = c, G = c and F = f, H = h and E = e, with the RFC's names."""
DOUBLE = """
s = x +- y
s = s ^ 2^1
a = x ^ 2^1
b = y ^ 2^1
c = z ^ 2^1
c = c +- c
h = a +- b
c = c +- e
s = h - s
x = s * c
y = e * h
t = s * h
z = c * e
"""
"""A = a, B = b, H = h, G = e, F = c, E = s, with the RFC's names."""
AFFINE = """
a = z ^ 2^1
b = a ^ 2^2
b = b * z
c = b * a
f = c ^ 2^1
f = f * b
h = f ^ 2^5
h = h * f
e = h ^ 2^10
e = e * h
s = e ^ 2^20
s = s * e
s = s ^ 2^10
s = s * h
e = s ^ 2^50
e = e * s
v = e ^ 2^100
v = v * e
v = v ^ 2^50
v = v * s
v = v ^ 2^5
v = v * c
x = x * v
y = y * v
"""
"""a = z^2, b = z^9, c = z^11, then runs of 5, 10, 20, 50, 100, 200 and 250 ones; v = 1 / z."""
NONCE = """
by = low * square
high = high * cube
by = by + high
by = by * one
"""
"""The digest modulo the order; Montgomery's form in between."""
ANSWER = """
hashed = low * square
high = high * cube
hashed = hashed + high
answer = hashed * scalar
answer = answer + by
"""
"""S = r + k * s of RFC 8032 5.1.6; only one of two factors is in Montgomery's form."""
ED25519_START = compiled("ed25519_start", START, Ed25519Work)
ED25519_ADD = compiled("ed25519_add", ADD, Ed25519Work)
ED25519_DOUBLE = compiled("ed25519_double", DOUBLE, Ed25519Work)
ED25519_AFFINE = compiled("ed25519_affine", AFFINE, Ed25519Work)
ED25519_NONCE = compiled("ed25519_nonce", NONCE, Ed25519Work)
ED25519_ANSWER = compiled("ed25519_answer", ANSWER, Ed25519Work)

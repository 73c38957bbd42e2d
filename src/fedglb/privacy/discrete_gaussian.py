"""The discrete Gaussian, sampled exactly: whole numbers and bits of the system, no floats.

A sampler in floating point has gaps and wrong tails, which leak differences of the data
(Mironov 2012). How long a draw takes depends on the noise (not on the data), so agents draw before
they are asked (`noise.PreparedNoise`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import isqrt
from typing import TypeAlias

from fedglb.errors import InvalidInput, instance

#: Returns n random bytes.
Source: TypeAlias = Callable[[int], bytes]

_WORDS = 128  # words of 64 bits per read
_WORD = 2**64


def sample(variance: Fraction, count: int, source: Source = os.urandom) -> list[int]:
    """Draw `count` whole numbers k with P(k) ∝ exp(−k²/2σ²), exactly.

    Random bytes come from the system; another `source` is for tests. Canonne, Kamath and Steinke
    (2020), Algorithms 1 to 3.
    """
    instance("variance", variance, Fraction, "Fraction(7, 2)")
    if variance <= 0:
        raise InvalidInput("variance", variance, "a Fraction > 0")
    top, bottom = variance.as_integer_ratio()
    words = _words(source)
    return [_gaussian(words, top, bottom) for _ in range(count)]


def _words(source: Source) -> Iterator[int]:
    """Yield random words of 64 bits, without end."""
    while True:
        block = source(8 * _WORDS)
        for start in range(0, 8 * _WORDS, 8):
            yield int.from_bytes(block[start : start + 8], "little")


def _bernoulli(words: Iterator[int], top: int, bottom: int) -> bool:
    """Return True with probability top/bottom ≤ 1.

    A uniform number in [0, 1) is compared with top/bottom word by word, until they differ.
    """
    while True:
        digit, top = divmod(top * _WORD, bottom)
        word = next(words)
        if word != digit:
            return word < digit
        if top == 0:
            return False


def _below(words: Iterator[int], bound: int) -> int:
    """Return a whole number in [0, bound), all with the same probability."""
    count = -(-bound.bit_length() // 64)
    surplus = 64 * count - bound.bit_length()
    while True:
        drawn = 0
        for _ in range(count):
            drawn = drawn * _WORD + next(words)
        drawn >>= surplus
        if drawn < bound:
            return drawn


def _exponential(words: Iterator[int], top: int, bottom: int) -> bool:
    """Return True with probability exp(−top/bottom) (Algorithm 1)."""
    while top > bottom:
        if not _exponential_of_one(words):
            return False
        top -= bottom
    k = 1
    while _bernoulli(words, top, bottom * k):
        k += 1
    return k % 2 == 1


def _exponential_of_one(words: Iterator[int]) -> bool:
    """Return True with probability exp(−1)."""
    k = 2  # the first coin of Algorithm 1 is always 1
    while _bernoulli(words, 1, k):
        k += 1
    return k % 2 == 1


def _laplace(words: Iterator[int], scale: int) -> int:
    """Return a whole number k with P(k) ∝ exp(−|k|/scale) (Algorithm 2 for a whole scale)."""
    while True:
        part = _below(words, scale)
        if not _exponential(words, part, scale):
            continue
        whole = 0
        while _exponential_of_one(words):
            whole += 1
        size = part + scale * whole
        negative = next(words) & 1
        if size or not negative:  # else 0 would count twice
            return -size if negative else size


def _gaussian(words: Iterator[int], top: int, bottom: int) -> int:
    """Return one number for σ² = top/bottom (Algorithm 3)."""
    scale = isqrt(top // bottom) + 1
    # (|k| − σ²/t)²/2σ² = (|k|·t·bottom − top)²/(2·top·bottom·t²)
    below = 2 * top * bottom * scale * scale
    while True:
        drawn = _laplace(words, scale)
        distance = abs(drawn) * scale * bottom - top
        if _exponential(words, distance * distance, below):
            return drawn

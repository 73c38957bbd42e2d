"""Masks: numbers mod 2⁶⁴ that hide a vector and cancel in the sum.

Each pair of members has a mask that one adds and the other subtracts. Each member also has a self
mask, whose seed it reveals when all others of the set have answered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

from fedglb.federation.secure_sums.transcript import encoded
from fedglb.typing import IntArray

#: Numbers mod 2⁶⁴.
WordArray = NDArray[np.uint64]
SEED_SIZE = 32  # bytes
_SHA256 = hashes.SHA256()
_WORD = np.dtype("<u8")
#: Every key is derived for one transcript and makes one stream, so the nonce is constant.
_NONCE = bytes(16)


def masked(
    vector: IntArray, place: int, secrets: Mapping[int, bytes], seed: bytes, transcript: bytes
) -> WordArray:
    """Return a vector under all masks of the member at this place in the roster.

    `secrets` has the secret shared with each other member of the set, by its place; `seed` is the
    seed of the member's self mask.
    """
    out = vector.astype(np.int64).view(np.uint64) + own_mask(seed, transcript, vector.size)
    info = encoded("pair mask", transcript)
    for other, secret in secrets.items():
        mask = _stream(secret, info, vector.size)
        if place < other:
            out += mask
        else:
            out -= mask
    return out


def unmasked(total: WordArray, seeds: list[bytes], transcript: bytes) -> IntArray:
    """Return the sum of the vectors, from the sum of all masked ones and all seeds."""
    out = total.copy()
    for seed in seeds:
        out -= own_mask(seed, transcript, total.size)
    return out.view(np.int64)


def own_seed(secret: bytes, transcript: bytes) -> bytes:
    """Return the seed of a member's self mask, from its file's secret: stable across restarts.

    It reveals neither the secret nor the seed of any other transcript.
    """
    return HKDF(_SHA256, SEED_SIZE, None, encoded("own seed", transcript)).derive(secret)


def own_mask(seed: bytes, transcript: bytes, count: int) -> WordArray:
    """Return a member's self mask."""
    return _stream(seed, encoded("own mask", transcript), count)


def _stream(secret: bytes, info: bytes, count: int) -> WordArray:
    """Return pseudorandom numbers, by the secret."""
    key = HKDFExpand(_SHA256, SEED_SIZE, info).derive(secret)
    stream = Cipher(algorithms.ChaCha20(key, _NONCE), None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * count)), _WORD).astype(np.uint64, copy=False)

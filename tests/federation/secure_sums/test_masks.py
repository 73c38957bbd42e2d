"""Masks cancel to the bit, and what is under them cannot be told from noise."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
from scipy import stats

from fedglb.federation.secure_sums.masks import masked, own_mask, own_seed, unmasked

TR = b"t" * 32


def secrets_of(rng: np.random.Generator, count: int) -> list[dict[int, bytes]]:
    """The secret of each pair, by the places of the two."""
    pairs = {(i, j): rng.bytes(32) for j in range(count) for i in range(j)}
    return [{j: pairs[min(i, j), max(i, j)] for j in range(count) if j != i} for i in range(count)]


def test_masks_cancel_to_the_bit():
    for count in range(2, 51):
        rng = np.random.default_rng(count)
        vectors = rng.integers(-(2**62) // count, 2**62 // count, (count, 7))
        vectors[0, 0], vectors[1, 0] = -(2**63), 2**63 - 1  # each as large as there are
        seeds = [rng.bytes(32) for _ in range(count)]
        shared = secrets_of(rng, count)
        total = np.zeros(7, np.uint64)
        for k in rng.permutation(count):
            total += masked(vectors[k], int(k), shared[k], seeds[k], TR)
        assert unmasked(total, seeds, TR).tolist() == vectors.sum(axis=0).tolist(), count


def is_uniform(vector: np.ndarray) -> bool:
    """Whether the bytes pass a χ² test that a uniform draw fails once in 10⁶ times."""
    assert vector.dtype.kind in "iu"
    counts = np.bincount(np.frombuffer(vector.tobytes(), np.uint8), minlength=256)
    return bool(stats.chisquare(counts).pvalue > 1e-6)


def test_the_test_of_uniformity_can_fail():
    assert not is_uniform(np.arange(2000))
    assert not is_uniform(np.random.default_rng(0).integers(-(2**60), 2**60, 2000))


def test_with_the_same_keys_vectors_differ_by_what_is_under_the_masks():
    rng = np.random.default_rng(2)
    shared, seed = secrets_of(rng, 5)[2], rng.bytes(32)
    one, other = rng.integers(-1000, 1000, (2, 6))
    difference = masked(one, 2, shared, seed, TR) - masked(other, 2, shared, seed, TR)
    assert difference.view(np.int64).tolist() == (one - other).tolist()
    fresh = masked(one, 2, shared, seed, TR) - masked(other, 2, shared, seed, b"u" * 32)
    assert np.abs(fresh.view(np.int64)).min() > 2**40


def test_seeds_and_masks_are_functions_of_secret_and_transcript():
    assert own_seed(b"s" * 32, TR) == own_seed(b"s" * 32, TR)
    assert len({own_seed(b"s" * 32, TR), own_seed(b"r" * 32, TR), own_seed(b"s" * 32, b"u")}) == 3
    assert own_mask(b"s" * 32, TR, 3).tolist() == own_mask(b"s" * 32, TR, 5)[:3].tolist()


def test_a_mask_is_what_two_standards_say():
    rng = np.random.default_rng(3)
    for count in (1, 8, 9, 65):
        seed, transcript = rng.bytes(32), rng.bytes(32)
        expected = plain_own_mask(seed, transcript, count)
        assert own_mask(seed, transcript, count).tolist() == expected


def plain_own_mask(seed: bytes, transcript: bytes, count: int) -> list[int]:
    """The same mask, written down a second time from RFC 5869 and RFC 8439."""
    parts = [b"fedglb secure sums 1", b"own mask", transcript]
    info = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    key = hmac.new(seed, info + b"\x01", hashlib.sha256).digest()
    words = b"".join(chacha_block(key, k) for k in range(-(-count // 8)))
    return [int.from_bytes(words[8 * k : 8 * k + 8], "little") for k in range(count)]


def chacha_block(key: bytes, counter: int) -> bytes:
    """RFC 8439, section 2.3, with the nonce 0."""

    def rotate(x: int, n: int) -> int:
        return (x << n | x >> 32 - n) & 0xFFFFFFFF

    def quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
        for left, right, n in ((a, d, 16), (c, b, 12), (a, d, 8), (c, b, 7)):
            other = b if left == a else d
            s[left] = (s[left] + s[other]) & 0xFFFFFFFF
            s[right] = rotate(s[right] ^ s[left], n)

    words = [int.from_bytes(key[4 * k : 4 * k + 4], "little") for k in range(8)]
    first = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *words, counter, 0, 0, 0]
    s = list(first)
    for _ in range(10):
        for a, b, c, d in ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)):
            quarter(s, a, b, c, d)
        for a, b, c, d in ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)):
            quarter(s, a, b, c, d)
    return b"".join(
        ((x + y) & 0xFFFFFFFF).to_bytes(4, "little") for x, y in zip(s, first, strict=True)
    )

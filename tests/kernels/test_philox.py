"""The stream of random numbers: the published vectors, and the laws along every way."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from fedglb.kernels.philox import normals, philox, uniforms
from tests import plain_mixture

ONES = 0xFFFFFFFF


def plain_uniforms(seed, number, client, draw, block):
    pairs = plain_mixture.uniforms(seed, number, client, draw)
    return tuple(islice(pairs, 2 * block, 2 * block + 2))


def filled(n, *place):
    out = np.full(n, np.nan)
    normals(*place, out)
    return out


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_published_vectors(counter, key, expected):
    """The known answers of philox4x32, 10 rounds, in the authors' library Random123."""
    assert tuple(int(w) for w in philox(*counter, *key)) == expected
    assert plain_mixture.philox(counter, key) == expected


PLACES = [
    (0, 1, 0, 0, 0),
    (12345, 7, 3, 2, 1),
    (2**62 + 12345, 7, 3, 2, 1),  # the upper half of the seed counts
    (-1, 2**31, 2**31 - 1, ONES, 5),  # a seed is taken modulo 2⁶⁴
    (5, 2**32 + 7, 3, 2, 1),  # the number of a decision is taken modulo 2³²
]


@pytest.mark.parametrize("where", PLACES)
def test_uniforms_are_53_bits_of_two_words(where):
    assert uniforms(*where) == plain_uniforms(*where)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("n", [1, 2, 5, 24, 27])
def test_normals_are_those_of_box_and_muller(where, n):
    expected = plain_mixture.normals(*where[:4], n)
    # the C library rounds the angle before it takes the cosine: an error of 2π ulp at most
    assert_allclose(filled(n, *where[:4]), expected, rtol=1e-14, atol=1e-14)


# -- laws: at fixed seeds, so that nothing here is left to chance ------------------------------


def streams(n):
    """Long sequences along each of the ways through the table."""
    return {
        "steps": [uniforms(1, i, 0, 0, 0) for i in range(n)],
        "clients": [uniforms(1, 5, i, 0, 0) for i in range(n)],
        "draws": [uniforms(1, 5, 0, i, 0) for i in range(n)],
        "blocks": [uniforms(1, 5, 0, 0, i) for i in range(n)],
        "seeds": [uniforms(i, 5, 0, 0, 0) for i in range(n)],
        "upper halves of seeds": [uniforms(i << 32, 5, 0, 0, 0) for i in range(n)],
    }


def test_uniforms_are_uniform_and_neighbours_uncorrelated_along_every_way_through_the_table():
    """Both numbers of a pair, and each with its successor."""
    n = 20_000
    for way, pairs in streams(n).items():
        u, v = np.transpose(pairs)
        for values in (u, v):
            assert values.min() >= 0.0, way
            assert values.max() < 1.0, way
            assert stats.kstest(values, "uniform").pvalue > 1e-3, way
        for a, b in ((u, v), (u[1:], u[:-1]), (v[1:], v[:-1]), (u[1:], v[:-1])):
            assert abs(np.corrcoef(a, b)[0, 1]) < 4.0 / math.sqrt(n), way


def test_pairs_of_normals_do_not_depend_on_how_many_are_asked_for():
    few, many = filled(5, 4, 5, 6, 7), filled(8, 4, 5, 6, 7)
    assert few[:3].tolist() == many[:3].tolist()  # the first of each pair
    assert few[3:].tolist() == many[4:6].tolist()  # the second

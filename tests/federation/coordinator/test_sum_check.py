"""Sums are looked at before they enter a model: honest ones pass, invalid ones do not."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.errors import InvalidInput
from fedglb.federation.coordinator.sum_check import check_sum
from fedglb.privacy.fixed_point import size
from fedglb.protocol.one_pass import sums_of
from tests.privacy.packing import pack, quantised

CLIENTS = 6
PRIVATE = fg.GaussianMechanism(epsilon=1.0, delta=1e-6, reward_limit=2.0)


def setting_of(link, privacy=None, dim=4):
    algorithm = fg.fedglb_private(updates=9, first=1.0, growth=2.0, privacy=privacy)
    return algorithm.setting(fg.Problem(dim=dim, link=link, noise=1.0), CLIENTS, None)


def honest(setting, rng, samples, update=1) -> np.ndarray:
    """The sum of what clients with so many samples each release, noise included."""
    d, link, plan = setting.problem.dim, setting.problem.link, setting.noise
    X = rng.standard_normal((CLIENTS, samples, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    theta = np.full(d, 0.3)
    y = np.clip(link.mean(X @ theta) + 0.3 * rng.standard_normal((CLIENTS, samples)), 0.0, 1.0)
    every = np.zeros(CLIENTS, np.int64), np.full(CLIENTS, samples)
    batches = sums_of(setting, theta, X, y, *every)
    if plan is None:
        return batches.sum(axis=0)
    shares = np.rint(rng.standard_normal((CLIENTS, size(d))) * plan.scales()).astype(np.int64)
    released = [plan.encoded({1: each, update: each}, update) for each in batches]
    return np.sum(released, axis=0) + shares.sum(axis=0)


@pytest.mark.parametrize("privacy", [None, PRIVATE], ids=["plain", "private"])
@pytest.mark.parametrize("link", [fg.Logistic(), fg.Poisson(), fg.Identity(), fg.Probit()])
def test_honest_sums_pass(link, privacy):
    setting, rng = setting_of(link, privacy), np.random.default_rng(0)
    for samples in (0, 1, 2, 50, 400):
        for update in (1, 2, 7):
            check_sum(honest(setting, rng, samples, update), setting, CLIENTS)
            check_sum(honest(setting, rng, samples, update), setting, CLIENTS, max_samples=400)


@pytest.mark.parametrize("privacy", [None, PRIVATE], ids=["plain", "private"])
def test_numbers_at_random_do_not_pass(privacy):
    """So is a sum whose masks do not cancel, or for which a member gave a wrong seed."""
    setting, rng = setting_of(fg.Logistic(), privacy, dim=10), np.random.default_rng(1)
    for _ in range(200):
        numbers = np.frombuffer(rng.bytes(8 * size(10)), np.int64)
        with pytest.raises(InvalidInput, match="a member sent bad data"):
            check_sum(numbers, setting, CLIENTS)


@pytest.mark.parametrize("privacy", [None, PRIVATE], ids=["plain", "private"])
def test_what_one_member_can_spoil(privacy):
    setting, rng = setting_of(fg.Logistic(), privacy), np.random.default_rng(2)
    sums = honest(setting, rng, 100)
    nothing, negative, huge = np.zeros(4), -1e6 * np.eye(4), 1e9 * np.eye(4)
    for vector, matrix, most in (
        (nothing, negative, None),  # no curvature is negative
        (nothing, huge, 10**6),  # more than a million samples of each could give
    ):
        invalid = sums + quantised(pack(vector, matrix))
        with pytest.raises(InvalidInput, match="a member sent bad data"):
            check_sum(invalid, setting, CLIENTS, most)
    if privacy is not None:  # more than samples of this curvature could give
        invalid = sums + quantised(pack(np.full(4, 1e8), np.zeros((4, 4))))
        with pytest.raises(InvalidInput, match="norm of v"):
            check_sum(invalid, setting, CLIENTS, 10**6)

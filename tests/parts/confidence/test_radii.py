"""Radii around fits that are not exact, from the samples at every step; log-determinants.

`tests/test_against_plain.py` has all radii around exact fits.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from tests.parts.confidence import formulas
from tests.parts.confidence.traces import LINKS, Case, trace

DELTA, RIDGE = 0.05, 0.7
COMMON = {"ridge": RIDGE, "delta": DELTA}
LOOSE = {  # so that gradients and multipliers are not negligible
    "newton": fg.Newton(),
    "newton 1e-3": fg.Newton(tolerance=1e-3),
    "agd 1e-3": fg.AGD(tolerance=1e-3),
    "agd, 3 rounds": fg.AGD(stop="fixed", rounds=3),
    "lbfgs 1e-3": fg.LBFGS(tolerance=1e-3),
}
FAMILIES = {
    **{
        f"FedGLB, event, {name}": (fg.fedglb_ucb(2.0, solver, **COMMON), formulas.fedglb)
        for name, solver in LOOSE.items()
    },
    **{
        f"GlobalModel, {name}": (fg.fedglb_ucb_1(5, solver, **COMMON), formulas.global_model)
        for name, solver in LOOSE.items()
    },
}


def in_the_ball_or_out(link: str) -> Case:
    # θ* on the sphere: the constraint is active in many updates
    return Case(link, seed=2)


@pytest.mark.some(13)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_radius_from_the_samples(family, link):
    algorithm, formula = FAMILIES[family]
    run = trace(algorithm, in_the_ball_or_out(link))
    for m in run.moments:
        A, b, centre, alpha = formula(m)
        assert_allclose(m.state.matrix, A, rtol=1e-12, atol=1e-13)
        assert_allclose(m.state.inverse, np.linalg.inv(A), rtol=1e-9, atol=1e-12)
        assert_allclose(m.state.centre, centre, rtol=1e-9, atol=1e-11)
        if b is not None:
            assert_allclose(m.state.b, b, rtol=1e-9, atol=1e-11)
        assert_allclose(m.alpha, alpha, rtol=1e-9)
    assert len({m.alpha for m in run.moments}) > 4
    assert len(run.syncs) >= 4


# -- log-determinants --------------------------------------------------------------------------


# -- what the radius needs and who has it -----------------------------------------------------

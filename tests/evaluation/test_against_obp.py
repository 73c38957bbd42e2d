"""The estimators against Open Bandit Pipeline's numbers, on a log of 24 decisions.

They were computed by obp 0.5.7's `InverseProbabilityWeighting` and `DoublyRobust` (with and without
lambda_=1.5, which is `clip`), `SelfNormalizedInverseProbabilityWeighting` and `DirectMethod`, by
`estimate_policy_value`; errors are the standard deviation of `_estimate_round_rewards` (ddof=1) by
√24. That release is for Python < 3.11 and imports torch for other estimators: its module
`obp.ope.estimators` was imported by itself, on 3.11, with mock modules in place of torch.

The reward model was scikit-learn 1.9.1's `LogisticRegression(C=1/ridge, fit_intercept=False,
tol=1e-12)`: of the whole log for DirectMethod, and for DoublyRobust of the blocks before the one
that is predicted, four blocks by `numpy.array_split`, with predictions of 1/2 in the first. NumPy
was 2.4.6.
"""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg

N, RIDGE, FOLDS = 24, 0.5, 4
ROWS = np.arange(N)
ANGLES = 0.7 * ROWS[:, None] + np.array([0.0, 1.9, 3.5])
ARMS = 0.9 * np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=2)
CHOSEN = (ROWS * ROWS + ROWS // 3) % 3
REWARDS = ((ROWS * 7) % 5 < 3).astype(float)
PROPENSITIES = np.array([0.2, 0.5, 0.3])[CHOSEN]
LOG = fg.Logged(fg.Problem(dim=2), ARMS, CHOSEN, REWARDS, PROPENSITIES)
POLICY = fg.ModelPolicy([1.0, -0.5], temperature=0.5)

#: By method and clip: value, and the standard error where obp's rounds have it.
OBP = {
    ("ips", None): (0.8862279019660823, 0.3211602277783571),
    ("ips", 1.5): (0.4246332003125133, 0.12312786909396829),
    ("snips", None): (0.5507668288420219, None),
    ("dr", None): (0.6129462150913055, 0.24739776288086424),
    ("dr", 1.5): (0.5162200260661628, 0.10774720940806112),
    ("dm", None): (0.44317337274258767, None),
}


@pytest.mark.parametrize(("method", "clip"), OBP)
def test_open_bandit_pipeline_has_the_same_numbers(method, clip):
    value, error = OBP[method, clip]
    found = fg.evaluate(LOG, POLICY, method, clip=clip, folds=FOLDS, ridge=RIDGE)
    exact = 1e-12 if method in ("ips", "snips") else 1e-6  # two solvers fitted the model
    assert found.value == pytest.approx(value, rel=exact)
    if error is not None:
        assert found.standard_error == pytest.approx(error, rel=exact)

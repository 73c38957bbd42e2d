"""The two rules for b at a global update (erratum 2)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.protocol.messages import NewModel
from tests.protocol.driver import Federation

D = 3


@pytest.mark.parametrize("rule", ["refit", "printed"])
def test_b_after_an_update(rule):
    algorithm = fg.fedglb_ucb(1.0, fg.Newton(), b_rule=rule)
    fed = Federation(algorithm, fg.Problem(D), 3, 30)
    models = []
    prior = algorithm.local_update.prior(fed.setting) * np.eye(D)

    def check():
        matrices = [prior, *(m.matrix for m in models)]
        thetas = [m.theta for m in models]
        if rule == "refit":
            b = (matrices[-1] - prior) @ thetas[-1]
            squares = thetas[-1] @ (matrices[-1] - prior) @ thetas[-1]
        else:
            steps = list(zip(np.diff(matrices, axis=0), thetas, strict=True))
            b = sum(delta @ theta for delta, theta in steps)
            squares = sum(theta @ delta @ theta for delta, theta in steps)
        for client in fed.clients:
            assert_allclose(client.state.b, b, atol=1e-12)
            assert_allclose(client.state.squares, squares, atol=1e-12)
            assert_allclose(client.state.centre, np.linalg.solve(matrices[-1], b), atol=1e-12)

    for t in range(1, 31):
        for i in range(3):
            before = len(fed.sent)
            fed.deliver(fed.interact(i, t))
            new = [m.model for m in fed.sent[before:] if isinstance(m, NewModel)]
            if new:
                models.append(new[0])
                check()
    assert len(models) > 4

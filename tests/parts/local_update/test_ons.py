"""b after a global update (erratum 2)."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import fedglb as fg
from fedglb.protocol.messages import NewModel
from tests.protocol.driver import Federation

D = 3


def test_b_after_an_update():
    algorithm = fg.fedglb_ucb(1.0, fg.Newton())
    fed = Federation(algorithm, fg.Problem(D), 3, 30)
    models = []
    prior = algorithm.local_update.prior(fed.setting) * np.eye(D)

    def check():
        matrix, theta = models[-1].matrix, models[-1].theta
        b = (matrix - prior) @ theta
        squares = theta @ (matrix - prior) @ theta
        for client in fed.clients:
            assert_allclose(client.state.b, b, atol=1e-12)
            assert_allclose(client.state.squares, squares, atol=1e-12)
            assert_allclose(client.state.centre, np.linalg.solve(matrix, b), atol=1e-12)

    for t in range(1, 31):
        for i in range(3):
            before = len(fed.sent)
            fed.deliver(fed.interact(i, t))
            new = [m.model for m in fed.sent[before:] if isinstance(m, NewModel)]
            if new:
                models.append(new[0])
                check()
    assert len(models) > 4

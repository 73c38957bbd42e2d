"""What the one-pass update must be equal to, without noise."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg

D, N, K, T, B = 3, 4, 5, 60, 6
UNIT = 2.0**-30


def models(algorithm: fg.Algorithm, env: fg.Environment, seed: int = 1):
    """The samples of all clients, in arrays, and the model, after the last update."""
    seen = {}

    def watch(t, i, client):
        if client.state.base is not None:
            seen["model"], seen["t"] = client.state.base, client.state.base.t
        seen[i] = client

    fg.simulate(algorithm, env, T, seed, engine="reference", observer=watch)
    clients = [seen[i] for i in range(N)]
    return seen["model"], clients


@pytest.mark.parametrize("ridge", [1.0, 0.1])
@pytest.mark.parametrize("radius", [1.0, 50.0], ids=["a ball that is active", "a large ball"])
def test_with_the_identity_link_it_is_ridge_regression(ridge, radius):
    problem = fg.Problem(D, fg.Identity(), radius, noise=0.5)
    env = fg.Synthetic(problem, N, K)
    model, clients = models(fg.fedglb_private(B, ridge=ridge), env)
    taken = [client.batches.taken for client in clients]
    X = np.concatenate([c.samples.X[:n] for c, n in zip(clients, taken, strict=True)])
    y = np.concatenate([c.samples.y[:n] for c, n in zip(clients, taken, strict=True)])
    assert len(X) == sum(taken) > 50
    A, b = X.T @ X + ridge * np.eye(D), X.T @ y
    assert np.abs(model.matrix - A).max() <= len(X) * UNIT
    free = np.linalg.solve(A, b)
    if np.linalg.norm(free) <= radius:
        assert np.abs(model.theta - free).max() < 10 * len(X) * UNIT
    else:  # on the sphere, where b − Aθ points outwards
        assert np.linalg.norm(model.theta) == pytest.approx(radius, abs=1e-9)
        pull = b - A @ model.theta
        cosine = pull @ model.theta / np.linalg.norm(pull) / radius
        assert cosine == pytest.approx(1.0, abs=1e-6)

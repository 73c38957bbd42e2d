"""What the one-pass update must be equal to, without noise."""

from __future__ import annotations

import numpy as np
import pytest

import fedglb as fg
from fedglb.protocol.messages import SumsRequest

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


def test_with_the_identity_link_its_sums_are_those_of_dislinucb():
    """On the same samples: Σ x xᵀ and Σ x y over all clients."""
    problem = fg.Problem(D, fg.Identity(), radius=50.0, noise=0.5)
    linear, once = fg.dislinucb(np.inf), fg.fedglb_private(3, 1, growth=2.0)
    rng = np.random.default_rng(3)
    found = []
    for algorithm in (linear, once):
        setting = algorithm.setting(problem, N, None)
        clients = [fg.Client(i, algorithm, setting) for i in range(N)]
        coordinator = fg.Coordinator(algorithm, setting, range(N))
        rng = np.random.default_rng(3)
        for t in range(1, 91):
            for client in clients:
                x = rng.standard_normal(D)
                x /= np.linalg.norm(x)
                client.observe(x, float(rng.standard_normal()), t)
            if t % 30 == 0:
                queue = coordinator.begin(t)
                while queue:
                    message = queue.pop(0)
                    to = coordinator if message.upward else clients[message.client]
                    queue += to.receive(message)
        found.append(coordinator.model)
    one, two = found
    assert np.abs(one.matrix - two.matrix).max() < 1e-6
    theta = np.linalg.solve(one.matrix, one.b) if one.theta is None else one.theta
    assert np.abs(theta - two.theta).max() < 1e-7


@pytest.mark.parametrize("link", [fg.Logistic(), fg.Probit(), fg.Poisson(), fg.Identity()])
def test_one_update_is_one_newton_step_from_the_model_before(link):
    """From 0: θ = (H + λI)⁻¹ Σ x(y − μ(0)), H = μ′(0) Σ x xᵀ, where the ball is large."""
    problem = fg.Problem(D, link, radius=20.0, noise=0.5, curvature=1e-3)
    algorithm = fg.fedglb_private(2, 1, growth=2.0)
    setting = algorithm.setting(problem, 1, None)
    client, coordinator = (
        fg.Client(0, algorithm, setting), fg.Coordinator(algorithm, setting, [0])
    )  # fmt: skip
    rng = np.random.default_rng(4)
    X = rng.standard_normal((50, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, 50).astype(float)
    for t in range(50):
        client.observe(X[t], y[t], t + 1)
    (request,) = coordinator.begin(50)
    (model,) = coordinator.receive(client.receive(request)[0])
    H = float(link.variance(0.0)) * X.T @ X + np.eye(D)
    step = np.linalg.solve(H, X.T @ (y - float(link.mean(0.0))))
    assert np.abs(model.model.theta - step).max() < 1e-7
    # and the next batch is linearised there
    client.receive(model)
    client.observe(X[0], y[0], 51)
    (answer,) = client.receive(SumsRequest(0, 2, 1))
    z = float(X[0] @ model.model.theta)
    w = float(link.variance(z))
    v = X[0] * (y[0] - float(link.mean(z)) + w * z)
    assert np.abs(answer.numbers[:D] * UNIT - v).max() < 2 * UNIT * max(1.0, w)

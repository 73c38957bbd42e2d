"""FedGLB with the likelihood-mixture sets and FedGLB without constants, written straight down.

An independent derivation for tests, as in `tests.plain`: it shares no code with the package, takes
every sum over samples again at each use, and uses explicit inverses and eigenvalues. Everything is
in the units of the likelihood: losses, curvatures and ridges are divided by the dispersion, which
is R^2 for the identity link and 1 for the others. Ridges that go in or out are in the loss's units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import comb, exp, expm1, factorial, inf, log, log1p, nan, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.linalg import cholesky, eigh, inv, norm
from scipy.special import ndtri

from tests.plain import LINKS, Array, Outcome, Problem, _fit, _growth, _multiplier

# ------------------------------------------------------------------------------------- functions


def _series(r: float, first: int) -> float:
    """Sum over k >= 0 of r^k / (k + first)!, for |r| <= 1."""
    return sum(r**k / factorial(k + first) for k in range(25))


def kappa(r: float) -> float:
    """2 (e^-r - 1 + r) / r^2."""
    return 2 * _series(-r, 2) if r <= 1 else 2 * (expm1(-r) + r) / r**2


def kappa_plus(r: float) -> float:
    """2 (e^r - 1 - r) / r^2."""
    return 2 * _series(r, 2) if r <= 1 else 2 * (_expm1(r) - r) / r**2


def widening(v: float) -> float:
    """T of Lemma 2, (e^(v/2) - 1) / (v/2)."""
    return _series(v / 2, 1) if v <= 2 else _expm1(v / 2) / (v / 2)


def phi(r: float) -> float:
    """(e^r - 1 - r) / r."""
    return r * _series(r, 2) if r <= 1 else (_expm1(r) - r) / r


def _expm1(r: float) -> float:
    return expm1(r) if r < 700 else inf


def _exp(r: float) -> float:
    return exp(r) if r < 700 else inf


def dispersion(p: Problem) -> float:
    return p.R**2 if p.link == "identity" else 1.0


def self_concordance(p: Problem, radius: float) -> float:
    """s with |mu''| <= s mu' on [-radius, radius]."""
    return {"logistic": float(np.tanh(radius / 2)), "poisson": 1.0, "identity": 0.0}[p.link]


# ------------------------------------------------------------------------------------- the stream

WORD = 2**32


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox-4x32 with ten rounds (Salmon, Moraes, Dror and Shaw 2011, Section 3.3)."""
    c, (k0, k1) = counter, key
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = (
            (second // WORD) ^ c[1] ^ k0,
            second % WORD,
            (first // WORD) ^ c[3] ^ k1,
            first % WORD,
        )
        k0, k1 = (k0 + 0x9E3779B9) % WORD, (k1 + 0xBB67AE85) % WORD
    return c


def uniforms(seed: int, step: int, client: int, draw: int, first: int = 0) -> Iterator[float]:
    """The uniforms in [0, 1) of one (step, client, draw) from a block on, without end."""
    block = first
    while True:
        w = philox((block, draw, client, step % WORD), (seed % WORD, (seed >> 32) % WORD))
        yield ((w[0] >> 5) * 2**26 + (w[1] >> 6)) / 2**53
        yield ((w[2] >> 5) * 2**26 + (w[3] >> 6)) / 2**53
        block += 1


def normals(seed: int, step: int, client: int, draw: int, count: int) -> Array:
    """Box and Muller's standard normals from the same stream: all cosines, then all sines."""
    source, cosines, sines = uniforms(seed, step, client, draw), [], []
    while len(cosines) + len(sines) < count:
        u, v = next(source), next(source)
        length = sqrt(-2 * log(1 - u))
        cosines.append(length * np.cos(2 * pi * v))
        sines.append(length * np.sin(2 * pi * v))
    return np.array((cosines + sines)[:count])


# ------------------------------------------------------------------------------- rules of choice


@dataclass(frozen=True)
class Ucb:
    pass


@dataclass(frozen=True)
class Greedy:
    pass


@dataclass(frozen=True)
class Sigma:
    c: float


@dataclass(frozen=True)
class Bayes:
    pass


@dataclass(frozen=True)
class Thompson:
    scale: float = 1.0
    draws: int = 0


@dataclass(frozen=True)
class EpsilonGreedy:
    epsilon: float
    rule: Rule = Greedy()


@dataclass(frozen=True)
class Bank:
    index: Rule
    factor: float
    credit: float = 0.0


Rule = Ucb | Greedy | Sigma | Bayes | Thompson | EpsilonGreedy | Bank
UCB, BAYES = Ucb(), Bayes()  # the two defaults


class View(NamedTuple):
    """What a rule sees of a client in one step."""

    x: Array  # (K, d)
    theta: Array
    P: Array  # in the likelihood's units: the posterior's covariance
    low: Array  # of the proven sets together, unclipped; nan where there is none
    high: Array
    S: float
    seed: int
    step: int  # from 1
    client: int  # from 0
    spent: float = 0.0  # what the client has charged to its bank


def equals(score: Array) -> list[int]:
    """The arms whose scores are within rounding of the best."""
    best = score.max()
    return [int(k) for k in np.flatnonzero(score >= best - 1e-12 * max(1.0, abs(best)))]


def one_of(arms: list[int], seed: int, step: int, client: int, draw: int) -> int:
    """One of equal arms, by the first number of the draw's last block."""
    return arms[int(next(uniforms(seed, step, client, draw, WORD - 1)) * len(arms))]


def _quadratic_forms(x: Array, M: Array) -> Array:
    return np.sqrt(np.maximum(np.einsum("kd,de,ke->k", x, M, x), 0.0))


def _index(rule: Rule, see: View, draw: int = 0) -> Array:
    """The number per arm that the rule wants to be large."""
    mean, sd = see.x @ see.theta, _quadratic_forms(see.x, see.P)
    match rule:
        case Ucb():
            return see.high
        case Greedy():
            return mean
        case Sigma(c):
            return mean + c * sd
        case Bayes():
            return mean + float(ndtri(1 - 1 / (see.step + 1))) * sd
        case Thompson(scale):
            z = normals(see.seed, see.step, see.client, draw, len(see.theta))
            return see.x @ (see.theta + scale * (cholesky(see.P) @ z))
    raise TypeError(rule)


def _charges(rule: Bank, see: View) -> tuple[Array, Array]:
    """What each arm costs, and the ends of the intervals from above, cut at the ball."""
    edge = see.S * norm(see.x, axis=1)
    low, high = np.maximum(see.low, -edge), np.minimum(see.high, edge)
    return high.max() - low - rule.factor * (high - low), high


def _winners(rule: Rule, see: View, draw: int = 0) -> list[int]:
    if not isinstance(rule, Bank):
        return equals(_index(rule, see, draw))
    (costs, high), best = _charges(rule, see), equals(_index(rule.index, see, draw))
    if see.spent + costs[best].max() <= rule.credit + 1e-12:
        return best
    bound = np.full(len(high), -inf)
    bound[equals(high)] = see.high[equals(high)]
    return equals(bound)


def choose(rule: Rule, see: View) -> tuple[int, float]:
    """The arm, and the probability with which it was chosen (1 for a rule without chance)."""
    if isinstance(rule, EpsilonGreedy):
        share = rule.epsilon / len(see.x)
        source = uniforms(see.seed, see.step, see.client, WORD - 1)
        first, second = next(source), next(source)
        k = _winner(rule.rule, see)
        if first < rule.epsilon:
            k = int(second * len(see.x))
        return k, share + (1 - rule.epsilon) * _probability(rule.rule, see, k)
    k = _winner(rule, see)
    return k, _probability(rule, see, k)


def _winner(rule: Rule, see: View, draw: int = 0) -> int:
    return one_of(_winners(rule, see, draw), see.seed, see.step, see.client, draw)


def _probability(rule: Rule, see: View, k: int) -> float:
    """The probability of arm k under the rule."""
    source = rule.index if isinstance(rule, Bank) else rule
    if not isinstance(source, Thompson):
        best = _winners(rule, see)
        return (k in best) / len(best)
    if not source.draws:
        return nan
    wins = [_winner(rule, see, draw) for draw in range(source.draws + 1)]
    return wins.count(k) / len(wins)


# ------------------------------------------------------------------------------ models and sets


class Model(NamedTuple):
    """What an update broadcasts, in the likelihood's units."""

    theta: Array
    H: Array  # e^-q H <= the Hessian at theta <= e^q H
    ridge: float  # lambda + nu
    residual: Array  # gradient + ridge theta, where it is evaluated
    bound: float  # on the residual in the norm of H^-1, where it is not
    q: float


class Component(NamedTuple):
    u: float  # precision of the prior
    v: float  # the same around the truth, 0 around the origin
    weight: float


class Samples(NamedTuple):
    x: Array
    y: Array

    def gradient(self, p: Problem, theta: Array) -> Array:
        return self.x.T @ (LINKS[p.link].mean(self.x @ theta) - self.y) / dispersion(p)

    def hessian(self, p: Problem, theta: Array) -> Array:
        return (self.x.T * LINKS[p.link].slope(self.x @ theta)) @ self.x / dispersion(p)


def components(p: Problem, d: int, below: float) -> list[Component]:
    """The origin, and the truth with v = 1, 4, 16, ... < below."""
    out, j = [Component(d / p.S**2, 0.0, 0.5)], 1
    while 4.0 ** (j - 1) < below:
        out.append(Component(4.0 ** (j - 1), 4.0 ** (j - 1), 1 / (2 * j * (j + 1))))
        j += 1
    return out


def share_of(left_out: int, N: int) -> float:
    """pi_E of Proposition 25: the part of delta for a set E of clients that an update leaves out.

    Without anybody all of it; the others share what the weights of 61 components leave over.
    """
    if left_out == 0:
        return 1.0
    spare = 1 - 0.5 - sum(1 / (2 * j * (j + 1)) for j in range(1, 61))
    return spare / (left_out * (left_out + 1) * comb(N, left_out))


class GlobalSet(NamedTuple):
    """|theta* - theta|_W <= rho."""

    theta: Array
    W: Array
    rho: float
    r: float  # at least s |theta* - theta|
    width: float  # rho sqrt(tr W^-1)
    component: Component


def first_global_set(p: Problem, d: int) -> GlobalSet:
    """Before any model: the ball."""
    origin = components(p, d, below=0.0)[0]
    r = self_concordance(p, p.S) * p.S
    return GlobalSet(np.zeros(d), np.eye(d) / p.S**2, 1.0, r, p.S, origin)


def component_radius(p: Problem, model: Model, j: Component, r: float, log_term: float) -> tuple:
    """Theorem M for one component: rho_j and W's eigenvalues; `log_term` is log(1/(w delta))."""
    h, U = eigh(model.H)
    h = np.maximum(h, 0.0)
    W = kappa(r) * exp(-model.q) * h + model.ridge - j.v
    if W.min() <= 0:
        return inf, W
    tau = widening(1 / (j.u + h[0]))
    square = model.theta @ model.theta
    B = np.sum(np.log1p(tau * exp(model.q) * h / j.u)) + 2 * log_term
    B += model.ridge * max(p.S**2 - square, 0.0) + (j.u * square if j.v == 0 else 0.0)
    residual = model.bound * sqrt(np.max(h / W))
    residual += sqrt(np.sum((U.T @ model.residual) ** 2 / W))
    return residual + sqrt(B + residual**2), W


def global_set(p: Problem, model: Model, delta: float) -> GlobalSet:
    """Theorem M, the component of the least width; v at most half of the least eigenvalue."""
    d = len(model.theta)
    s = self_concordance(p, p.S)
    h, U = eigh(model.H)
    r = 2 * p.S * s
    while True:
        half = (kappa(r) * exp(-model.q) * max(h[0], 0.0) + model.ridge) / 2
        found = []
        for j in components(p, d, below=half):
            rho, W = component_radius(p, model, j, r, log(1 / (j.weight * delta)))
            found.append((rho, W, j))
        smaller = s * min(rho / sqrt(W.min()) for rho, W, _ in found)
        if not smaller < r * (1 - 1e-4):
            break
        r = smaller
    widths = [rho * sqrt(np.sum(1 / W)) for rho, W, _ in found]
    rho, W, j = found[int(np.argmin(widths))]
    return GlobalSet(model.theta, (U * W) @ U.T, rho, r, min(widths), j)


class LocalSet(NamedTuple):
    """|theta* - theta|_(P^-1) <= radius, and the sharper |theta* - theta|_W <= X it comes from."""

    theta: Array
    P: Array
    radius: float
    W: Array
    X: float


def local_set(
    p: Problem, model: Model, own: Samples, j: Component, r: float, log_term: float, first: bool
) -> LocalSet:
    """Theorem L; `first`: before any model, where theta* itself bounds the distance."""
    d = len(model.theta)
    H = model.H + own.hessian(p, model.theta)
    P = inv(H + model.ridge * np.eye(d))
    theta = model.theta - P @ own.gradient(p, model.theta)
    move = theta - model.theta
    m2 = max(0.0, float(move @ H @ move))
    far = self_concordance(p, inf) * float(norm(move))

    h, U = eigh(model.H)
    h = np.maximum(h, 0.0)
    gain = _growth(H + model.ridge * np.eye(d), model.H + model.ridge * np.eye(d))
    c = widening(1 / (j.u + h[0])) / j.u
    if 1 / c >= model.ridge:
        start = np.sum(np.log1p(c * h))
    else:
        start = np.sum(np.log(c * (model.ridge + h)))
    square = theta @ theta
    B = start + gain + d * _expm1(far + model.q) + 2 * log_term + model.ridge * (p.S**2 - square)
    B += j.u * square if j.v == 0 else 0.0
    B += (kappa_plus(far) * exp(model.q) - 1) * m2 if m2 > 0 else 0.0

    k = kappa(r) * exp(-model.q)
    least = h[0] + model.ridge - j.v
    eta = max(1.0, h[0] / least) if j.v else 1.0
    omega = sqrt((h[0] + model.ridge) / least) if j.v else 1.0
    lead = 1 - (1 - k) * eta
    b = sqrt(eta) * model.bound
    b += sqrt(np.sum((U.T @ model.residual) ** 2 / (h + model.ridge - j.v)))
    b += (1 - k) * sqrt(eta * m2)
    if lead <= 0:
        X = inf
    else:
        inside = b**2 + lead * (B + (1 - k) * m2)
        X = (b + sqrt(inside)) / lead if inside >= 0 else 0.0
    if first:
        X = min(X, sqrt(max(0.0, B + (1 - k) * p.S**2 * np.trace(H))))
    return LocalSet(theta, P, X * omega, H + (model.ridge - j.v) * np.eye(d), X)


def local_component(p: Problem, model: Model, r: float, delta: float, N: int) -> Component:
    """The component of Theorem L that a model's epoch keeps: the best one without own samples."""
    d = len(model.theta)
    none = Samples(np.zeros((0, d)), np.zeros(0))
    split = delta / (2 * N * 2 * 3)

    def radius(j: Component) -> float:
        return local_set(p, model, none, j, r, log(1 / (j.weight * split)), False).radius

    least = max(0.0, float(eigh(model.H)[0][0])) + model.ridge
    return min(components(p, d, below=least), key=radius)


# -------------------------------------------------------------------------------- global updates


def quadratic_over_ball(H: Array, b: Array, lam: float, S: float) -> tuple[Array, float]:
    """argmin of theta'(H + lam I)theta / 2 - b'theta over |theta| <= S, and its multiplier."""
    h, U = eigh(H)
    w = U.T @ b
    free = w / (h + lam)
    if norm(free) <= S:
        return U @ free, 0.0
    nu = _multiplier(lambda nu: w / (h + lam + nu), S, 2 * norm(w) / S, lam, 1e-15)
    theta = U @ (w / (h + lam + nu))
    return theta * (S / norm(theta)), nu


def one_exchange(
    p: Problem,
    data: Samples,
    theta: Array,
    lam: float,
    S: float,
    accept: Callable[[Model], bool],
    refit: Callable[[Model], float] | None = None,
    once: bool = False,
) -> tuple[Model, int]:
    """Newton steps from the last model, a round each, until one is good enough unevaluated.

    `refit` gives a new ridge, with which the accepted step is taken once more from the same sums,
    and further rounds follow if that one is not good enough. `once`: there is one round, and a
    step that might go uphill is shortened.
    """
    for rounds in range(1, 100):
        g, H = data.gradient(p, theta), data.hessian(p, theta)

        def step(ridge: float) -> Model:
            to, nu = quadratic_over_ball(H, H @ theta - g, ridge, S)  # noqa: B023
            move = to - theta  # noqa: B023
            reach = float(max(norm(theta), norm(to)))  # noqa: B023
            q = self_concordance(p, reach) * float(norm(move))
            bound = phi(q) * sqrt(max(0.0, move @ H @ move))  # noqa: B023
            if once and q > 1.79:
                to = theta + log1p(q) / q * move  # noqa: B023
            return Model(to, H, ridge + nu, np.zeros(len(to)), bound, q)  # noqa: B023

        if once:
            model = step(lam)
            return (model if refit is None else step(refit(model))), rounds
        model = step(lam)
        good = model.q <= 1.79 and accept(model)  # beyond 1.79 the full step might go uphill
        if good and refit is not None:
            lam, refit = refit(model), None
            model = step(lam)
            good = model.q <= 1.79 and accept(model)
        if good:
            return model, rounds
        part = 1.0 if model.q <= 1.79 else log1p(model.q) / model.q
        theta = theta + part * (model.theta - theta)
    raise RuntimeError("no step was accepted")


def exact(p: Problem, data: Samples, theta: Array) -> tuple[Model, int]:
    """The minimiser over the ball, its residual and its Hessian."""
    theta = _fit(p, data.x, data.y, theta)
    lam = p.lam / dispersion(p)
    g = data.gradient(p, theta) + lam * theta
    on_sphere = norm(theta) >= p.S * (1 - 1e-12)
    nu = max(0.0, -float(g @ theta) / p.S**2) if on_sphere else 0.0
    return Model(theta, data.hessian(p, theta), lam + nu, g + nu * theta, 0.0, 0.0), 1


# ---------------------------------------------------------------------------------- the algorithms


@dataclass
class MixtureOutcome(Outcome):
    """With `alphas` the radii of the local sets, as multiples of |x|_P."""

    propensities: Array = field(default_factory=lambda: np.zeros(0))  # (T, N)
    lambdas: list[float] = field(default_factory=list)  # in force after each update
    rounds: list[int] = field(default_factory=list)
    rhos: list[float] = field(default_factory=list)  # radii of the global set after each update
    left_out: list[int] = field(default_factory=list)  # clients, of each update
    models: list[Model] = field(default_factory=list)
    global_sets: list[GlobalSet] = field(default_factory=list)  # per interaction
    local_sets: list[LocalSet] = field(default_factory=list)  # per interaction


def _blank(arms: Array, active: Array | None) -> tuple[Array, MixtureOutcome]:
    T, N = arms.shape[:2]
    on = np.ones((T, N), bool) if active is None else np.asarray(active, bool)
    empty = np.full((T, N), nan)
    return on, MixtureOutcome(np.full((T, N), -1), empty, [], [], propensities=empty.copy())


def _samples(rows: list[tuple[Array, float]], d: int) -> Samples:
    return Samples(np.array([x for x, _ in rows]).reshape(-1, d), np.array([y for _, y in rows]))


def _triggered(
    clock: str, t: int, t_last: int, p: Problem, model: Model, own: Samples, D: float, most: float
) -> bool:
    time = {"steps": t - t_last, "own samples": len(own.y)}[clock]
    before = model.H + model.ridge * np.eye(len(model.theta))
    gain = _growth(before + own.hessian(p, model.theta), before)
    return time * gain >= D or gain >= most


def fedglb_mix(
    problem: Problem,
    arms: Array,
    rewards: Array,
    threshold: float | None,
    clock: str = "steps",
    choice: Rule = UCB,
    slack: float = 0.2,
    solver: str = "one exchange",
    active: Array | None = None,
    seed: int = 0,
    leaves_out: Callable[[int], set[int]] = lambda asking: set(),
) -> MixtureOutcome:
    """FedGLB with mixture sets: anchored local updates, Theorems M and L, event trigger.

    `threshold` None: T / (N R), R = d log(1 + c N T / (d lambda)). A gain of 1 triggers, too.
    `leaves_out` gives the clients without whom an update is that this client asks for.
    """
    p = problem
    T, N, _, d = arms.shape
    if threshold is None:
        threshold = T / (N * d * log(1 + p.c * N * T / (d * p.lam)))
    most = inf if threshold == inf else 1.0
    on, out = _blank(arms, active)
    lam = p.lam / dispersion(p)
    everything: list[tuple[Array, float]] = []
    whose: list[int] = []
    since: list[list[tuple[Array, float]]] = [[] for _ in range(N)]  # the last model
    model = Model(np.zeros(d), np.zeros((d, d)), lam, np.zeros(d), 0.0, 0.0)
    asked: set[int] = set()  # in any update so far
    share = 1.0
    M, j = first_global_set(p, d), components(p, d, below=0.0)[0]
    epoch, t_last, spent = 1, 0, np.zeros(N)

    def accept(new: Model) -> bool:
        found, exact_fit = global_set(p, new, p.delta / 2), new._replace(bound=0.0, q=0.0)
        j = found.component
        rho, W = component_radius(p, exact_fit, j, found.r, log(1 / (j.weight * p.delta / 2)))
        return found.width <= (1 + slack) * rho * sqrt(np.sum(1 / W))

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            x = arms[t - 1, i]
            split = p.delta * share / (2 * N * epoch * (epoch + 1))
            own = _samples(since[i], d)
            L = local_set(p, model, own, j, M.r, log(1 / (j.weight * split)), epoch == 1)
            wide_M, wide_L = M.rho * _quadratic_forms(x, inv(M.W)), _quadratic_forms(x, L.P)
            wide_L = wide_L * L.radius
            low = np.maximum(x @ M.theta - wide_M, x @ L.theta - wide_L)
            high = np.minimum(x @ M.theta + wide_M, x @ L.theta + wide_L)
            see = View(x, L.theta, L.P, low, high, p.S, seed, t, i, spent[i])
            k, propensity = choose(choice, see)
            if isinstance(choice, Bank):
                spent[i] += _charges(choice, see)[0][k]
            out.choices[t - 1, i], out.alphas[t - 1, i] = k, L.radius
            out.propensities[t - 1, i] = propensity
            out.global_sets.append(M)
            out.local_sets.append(L)
            sample = (x[k], rewards[t - 1, i, k])
            everything.append(sample)
            whose.append(i)
            since[i].append(sample)

            own = _samples(since[i], d)
            if _triggered(clock, t, t_last, p, model, own, threshold, most):
                taking_part = set(range(N)) - leaves_out(i)
                asked |= taking_part
                share = share_of(len(asked - taking_part), N)
                pairs = list(zip(whose, everything, strict=True))
                data = _samples([sample for c, sample in pairs if c in taking_part], d)
                if solver == "one exchange":
                    model, rounds = one_exchange(p, data, model.theta, lam, p.S, accept)
                else:
                    model, rounds = exact(p, data, model.theta)
                M = global_set(p, model, p.delta / 2 * share)
                j = local_component(p, model, M.r, p.delta, N)
                since = [
                    [] if c in taking_part else [s for w, s in pairs if w == c] for c in range(N)
                ]
                epoch, t_last = epoch + 1, t
                out.left_out.append(len(asked - taking_part))
                _record(out, t, i, model, rounds, p.lam)
                out.rhos.append(M.rho)
    return out


def fedglb_auto(
    problem: Problem,
    arms: Array,
    rewards: Array,
    threshold: float = 0.1,
    clock: str = "own samples",
    choice: Rule = BAYES,
    start: float | None = 1 / 64,
    once: bool = True,
    active: Array | None = None,
    seed: int = 0,
) -> MixtureOutcome:
    """FedGLB without constants: no ball, no proven set, one evidence step on the ridge per update.

    `start` None: the problem's ridge throughout. `once`: exactly one exchange per update.
    """
    p = problem
    T, N, _, d = arms.shape
    on, out = _blank(arms, active)
    lam_0 = (p.lam if start is None else start) / dispersion(p)
    lam = lam_0
    everything: list[tuple[Array, float]] = []
    since: list[list[tuple[Array, float]]] = [[] for _ in range(N)]
    model = Model(np.zeros(d), np.zeros((d, d)), lam, np.zeros(d), 0.0, 0.0)
    t_last = 0

    def evidence(fit: Model) -> float:
        h = np.maximum(eigh(fit.H)[0], 0.0)
        gamma = np.sum(h / (h + fit.ridge))
        return float((gamma + 1) / (fit.theta @ fit.theta + 1 / lam_0))

    for t in range(1, T + 1):
        for i in range(N):
            if not on[t - 1, i]:
                continue
            x = arms[t - 1, i]
            own = _samples(since[i], d)
            P = inv(model.H + own.hessian(p, model.theta) + model.ridge * np.eye(d))
            theta = model.theta - P @ own.gradient(p, model.theta)
            unknown = np.full(len(x), nan)
            k, propensity = choose(choice, View(x, theta, P, unknown, unknown, nan, seed, t, i))
            out.choices[t - 1, i], out.propensities[t - 1, i] = k, propensity
            sample = (x[k], rewards[t - 1, i, k])
            everything.append(sample)
            since[i].append(sample)

            own = _samples(since[i], d)
            if _triggered(clock, t, t_last, p, model, own, threshold, inf):
                model, rounds = one_exchange(
                    p, _samples(everything, d), model.theta, lam, inf,
                    lambda new: new.bound <= 0.1, None if start is None else evidence, once,
                )  # fmt: skip
                lam = model.ridge
                since = [[] for _ in range(N)]
                t_last = t
                _record(out, t, i, model, rounds, lam * dispersion(p))
    return out


def _record(out: MixtureOutcome, t: int, i: int, model: Model, rounds: int, lam: float) -> None:
    out.syncs.append((t, i))
    out.thetas.append(model.theta.copy())
    out.models.append(model)
    out.rounds.append(rounds)
    out.lambdas.append(lam)

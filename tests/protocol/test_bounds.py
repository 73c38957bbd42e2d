"""What no samples can give is refused, and nothing honest ever is."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import fedglb as fg
from fedglb.kernels.sums import add_derivatives, add_moments, sum_loss
from fedglb.links import LINKS
from fedglb.model import SharedModel
from fedglb.parts.global_update import Query
from fedglb.protocol.checks import (
    Batch,
    check_covariance,
    check_derivatives,
    check_model_sums,
    limits,
    reward_range,
)
from fedglb.protocol.messages import Covariance, Derivatives, Evaluate, ModelSums, NewModel
from fedglb.protocol.own_sums import OwnSums
from fedglb.samples import Samples
from tests.links.families import Hyperbolic
from tests.protocol.driver import Federation, communicating, equal_arrays, same_model

D, N, T = 3, 4, 20
OFFENDER = 2
OTHERS = [0, 1, 3]
LIMIT = 3.0


LINK_TYPES = {**LINKS, "hyperbolic": Hyperbolic}

# -- nothing honest is refused -------------------------------------------------------------------


def honest_samples(rng, link, n, d, norm):
    """θ, and samples at the edge of what is allowed: few directions, extreme scores and rewards."""
    theta = rng.standard_normal(d)
    theta *= norm / np.linalg.norm(theta)
    X = rng.standard_normal((n, d))
    kind = rng.integers(6)
    if kind == 1:
        X = np.repeat(X[:1], n, axis=0)  # one direction
    elif kind == 2:
        X[:, d // 2 :] = 0.0  # half the space
    elif kind == 3 and theta.any():
        X = np.outer(rng.choice([-1.0, 1.0], n), theta)  # the largest scores
    elif kind == 4 and theta.any():
        X = np.tile(theta, (n, 1)) + 1e-7 * X  # nearly one direction
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    if kind == 5:
        X *= 10.0 ** -rng.integers(0, 200, size=(n, 1)).astype(float)  # squares that underflow
    low, high = reward_range(link, LIMIT)
    extremes = rng.choice([low, high], n), np.full(n, low), np.full(n, high)
    y = [*extremes, rng.uniform(low, high, n)][rng.integers(4)]
    return theta, np.ascontiguousarray(X), y


def sums(X, y):
    d = X.shape[1]
    matrix, b = np.zeros((d, d)), np.zeros(d)
    add_moments(X, y, matrix, b)
    return Covariance(0, 1, X.shape[0], matrix, b)


def derivatives(link, X, y, theta):
    d = theta.size
    gradient, hessian = np.zeros(d), np.zeros((d, d))
    add_derivatives(X, y, theta, link.compiled_functions, gradient, hessian, True)
    loss = sum_loss(X, y, np.empty(0), theta, link.compiled_cumulant.address)
    return Derivatives(0, 1, 1, gradient, hessian, loss)


def accepted(rng, link, n, d, norm, *, limit=LIMIT):
    """Raise if what an honest client sends is refused."""
    theta, X, y = honest_samples(rng, link, n, d, norm)
    first = int(rng.integers(n + 1)) if rng.random() < 0.5 else 0
    problem = fg.Problem(d, link, noise=1.0)
    linear, glm = fg.dislinucb(1.0), fg.fedglb_ucb(1.0)
    setting = glm.setting(problem, 1, None)
    rewards = reward_range(link, limit)
    whole, before = sums(X, y), sums(X[:first], y[:first]) if first else None
    message = Covariance(0, 1, n, whole.matrix)
    check_covariance(message, before, rewards, glm, setting)
    check_covariance(dataclasses.replace(message, b=whole.b), None, rewards, linear, setting)
    query = Query(theta, hessian=True, loss=True)
    answer = derivatives(link, X[first:], y[first:], theta)
    check_derivatives(answer, Batch.of(whole, before), limits(link, rewards, query), setting)


@pytest.mark.some(3)
@pytest.mark.parametrize("name", LINK_TYPES)
@pytest.mark.parametrize("d", [1, 2, 10, 40])
def test_an_honest_client_is_never_refused(name, d):
    rng, link = np.random.default_rng(d), LINK_TYPES[name]()
    for n in (0, 1, 2, 3, 30, 300):
        for norm in (0.0, 1e-9, 0.5, 1.0, 8.0, 50.0):
            for _ in range(8):
                accepted(rng, link, n, d, norm)


ROWS = 8  # arms that can have an effect


def model_sums(setting, X, y, model, covered):
    """What a client sends: the last column of X has the names of arms."""
    client = OwnSums(fg.fedglb_auto(effects=ROWS), setting, model, covered)
    client.add(Samples.over(X, y, len(y)))
    return client.answer(0, 1)


def honest_model(rng, theta, d, largest):
    """A model with effects up to this size for some of the arms."""
    names = np.sort(rng.choice(2 * ROWS, rng.integers(ROWS + 1), replace=False)).astype(float)
    u = rng.choice([-largest, largest], names.size) * rng.choice([1.0, 0.3], names.size)
    rows = np.column_stack([names, np.ones(names.size), u, np.zeros((names.size, d))])
    effects = np.concatenate([[1.0, 2.0 * ROWS], rows.ravel()])
    return SharedModel(1, np.eye(d), np.empty(0), theta, ridge=1.0, effects=effects)


def accepted_at_a_model(rng, link, n, d, norm, further, *, limit=LIMIT):
    """Raise if what an honest client sends is refused: at the model, and in a further round.

    Return whether it could be sent: sums that are infinite cannot.
    """
    theta, X, y = honest_samples(rng, link, n, d, norm)
    setting = fg.fedglb_auto().setting(fg.Problem(d, link, noise=1.0), 1, None)
    largest = float(rng.choice([0.0, 1.0, 20.0]))
    model = honest_model(rng, theta, d, largest)
    names = rng.integers(-1, int(rng.choice([0, 1, ROWS, 2 * ROWS])), size=(n, 1), endpoint=True)
    rows = X if setting.width == d else np.column_stack([X, names.astype(float)])
    rewards = reward_range(link, limit)
    answer = model_sums(setting, rows, y, model, int(rng.integers(n + 1)))
    sent = (answer.gradient, answer.hessian, *([] if answer.effects is None else [answer.effects]))
    if not all(np.isfinite(each).all() for each in sent):
        return False
    # without effects, z is within ‖θ‖
    reach = largest if setting.effect_ridge else 0.0
    first = limits(link, rewards, Query(theta, hessian=True), reach)
    check_model_sums(answer, first, setting, ROWS, 2 * ROWS)
    there = theta + further * rng.standard_normal(d) / math.sqrt(d)
    query = Query(there, hessian=True, loss=False)
    then = derivatives(link, X, y, there)
    if not (np.isfinite(then.gradient).all() and np.isfinite(then.hessian).all()):
        return False
    batch = Batch.of_hessian(answer, first.slope)
    then = dataclasses.replace(then, loss=None)
    check_derivatives(then, batch, limits(link, rewards, query), setting)
    return True


@pytest.mark.some(3)
@pytest.mark.parametrize("name", LINK_TYPES)
@pytest.mark.parametrize("d", [1, 2, 10, 40])
def test_nor_is_one_who_answers_at_the_model(name, d):
    rng, link = np.random.default_rng(d), LINK_TYPES[name]()
    sent = 0
    for n in (0, 1, 2, 3, 30, 300):
        for norm in (0.0, 1e-9, 0.5, 1.0, 8.0, 30.0, 37.0, 38.6, 50.0, 250.0, 699.0, 800.0):
            for further in (0.0, 0.1, 5.0, 100.0):
                sent += accepted_at_a_model(rng, link, n, d, norm, further)
    assert sent > 0.6 * 6 * 12 * 4


@pytest.mark.some(4)
@pytest.mark.parametrize("spikes", [False, True])
@pytest.mark.parametrize("name", ["logistic", "identity", "poisson"])
def test_nor_is_one_with_a_model_of_its_own(name, spikes):
    algorithm = fg.fedglb_personal(0.5, effects=0 if spikes else 5, spikes=spikes)
    for seed in range(4):
        problem = fg.Problem(D, LINK_TYPES[name](), noise=0.3)
        fed = Federation(algorithm, problem, N, 60, seed)
        fed.differ = seed % 2 == 1 and name != "poisson"
        fed.coordinator = fg.Coordinator(algorithm, fed.setting, range(N))
        fed.run()
        assert fed.coordinator.syncs > 3


@pytest.mark.some(1)
@pytest.mark.parametrize("name", LINK_TYPES)
def test_nor_with_many_samples_or_features_or_unbounded_rewards(name):
    rng, link = np.random.default_rng(0), LINK_TYPES[name]()
    for norm in (0.0, 1.0, 50.0, 680.0):
        accepted_at_a_model(rng, link, 1_000_000, 3, norm, 1.0)
        for n, d, limit in [(200_000, 3, LIMIT), (150, 118, LIMIT), (60, 4, None)] * 3:
            accepted_at_a_model(rng, link, n, d, norm, 1.0, limit=limit)
            if norm <= 50.0:
                accepted(rng, link, n, d, norm, limit=limit)


@pytest.mark.parametrize("name", LINK_TYPES)
@pytest.mark.parametrize("norm", [0.0, 1.0, 20.0])
def test_limits_are_those_of_a_fine_grid(name, norm):
    link = LINK_TYPES[name]()
    low, high = reward_range(link, LIMIT)
    found = limits(link, (low, high), Query(np.array([norm, 0.0]), hessian=True, loss=True))
    z = np.linspace(-norm, norm, 2001)[:, None]
    y = np.array([low, high])
    residuals = np.abs(link.mean(z) - y)
    losses, slopes = link.loss(np.repeat(z, 2, axis=1), y), link.variance(z)
    assert residuals.max() <= found.residual <= residuals.max() * 1.003 + 1e-6
    assert found.slope[0] <= slopes.min() <= slopes.max() <= found.slope[1]
    assert found.slope[0] >= 0.998 * slopes.min() - 1e-6
    assert found.slope[1] <= 1.002 * slopes.max() + 1e-6
    size = np.abs(losses).max() + 1.0 + norm * LIMIT
    assert found.loss[0] <= losses.min() <= losses.max() <= found.loss[1]
    assert found.loss[0] >= losses.min() - 0.003 * size
    assert found.loss[1] <= losses.max() + 0.003 * size


def test_rewards_without_bound_give_none():
    query = Query(np.ones(2), hessian=True, loss=True)
    for link in (fg.Identity(), fg.Poisson()):
        found = limits(link, reward_range(link, None), query)
        assert found.residual == math.inf
        assert found.loss == (-math.inf, math.inf)
        assert math.isfinite(found.slope[1])
    beyond = limits(fg.Logistic(), (0.0, 1.0), Query(np.full(2, 1e3), hessian=True))
    assert (beyond.residual, beyond.slope) == (math.inf, (-math.inf, math.inf))


@pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
def test_a_reward_limit_is_positive(limit):
    algorithm = communicating()["newton"]
    with pytest.raises(fg.InvalidInput, match="reward_limit"):
        fg.Coordinator(algorithm, algorithm.setting(fg.Problem(D), N, None), reward_limit=limit)


# -- what cannot be is ---------------------------------------------------------------------------


def flat(rng) -> np.ndarray:
    """Arms without a last feature."""
    x = np.append(rng.standard_normal(D - 1), 0.0)
    return x / np.linalg.norm(x)


def federation(name: str, members=range(N), link=None) -> Federation:
    """Clients with samples in a plane, and a coordinator that knows of `members`."""
    algorithm = fg.fedglb_ucb(1.0, fg.Newton()) if link else communicating()[name]
    fed = Federation(algorithm, fg.Problem(D, link or fg.Logistic()), N, T)
    fed.coordinator = fg.Coordinator(algorithm, fed.setting, members)
    rng = np.random.default_rng(5)
    for client in fed.clients:
        for _ in range(6):
            client.observe_unchecked(flat(rng), float(rng.random() < 0.5), 1)
    return fed


def with_offence(fed: Federation, kind: type, lie, argument: str) -> None:
    """An update in which the offender lies once, is refused, and is left out."""
    refused = False
    queue = fed.coordinator.begin(2, 0)
    while queue:
        message = queue.pop(0)
        if not isinstance(message, kind) or message.client != OFFENDER or refused:
            queue += fed.pass_on(message)
            continue
        before = fed.coordinator.to_arrays()
        with pytest.raises(fg.InvalidInput, match=argument):
            fed.coordinator.receive(dataclasses.replace(message, **lie(message)))
        assert equal_arrays(fed.coordinator.to_arrays(), before)
        refused = True
        queue += fed.coordinator.exclude(OFFENDER)
    assert refused


def scaled(field, factor):
    return lambda m: {field: getattr(m, field) * factor}


def moved(field, direction, size):
    return lambda m: {field: getattr(m, field) + size * np.array(direction, dtype=float)}


def poked(field, value):
    def change(message):
        wrong = getattr(message, field).copy()
        wrong[0] = value
        return {field: wrong}

    return change


UP = (0, 0, 1)  # where no sample points
#: Lies about a gradient and a Hessian, in any round.
LIES = {
    "NaN in the gradient": (poked("gradient", np.nan), "gradient"),
    "infinite gradient": (poked("gradient", np.inf), "gradient"),
    "shape of the gradient": (lambda m: {"gradient": np.zeros(D + 1)}, "gradient"),
    "gradient too large": (moved("gradient", (0.6, 0.8, 0), 9.0), "gradient"),
    "gradient no sample has": (moved("gradient", UP, 1e-5), "gradient"),
    "NaN in the Hessian": (poked("hessian", np.nan), "hessian"),
    "infinite Hessian": (poked("hessian", np.inf), "hessian"),
    "shape of the Hessian": (lambda m: {"hessian": np.zeros((D, 1))}, "hessian"),
    "Hessian not symmetric": (moved("hessian", np.triu(np.ones((D, D)), 1), 1e-6), "hessian"),
    "indefinite Hessian": (moved("hessian", np.diag(UP), -1e-6), "hessian"),
    "Hessian too large": (scaled("hessian", 3.0), "hessian"),
}
#: Where M is known, and less is asked for.
OFFENCES = {
    "NaN in the matrix": (Covariance, poked("matrix", np.nan), "matrix"),
    "infinite matrix": (Covariance, poked("matrix", np.inf), "matrix"),
    "shape of the matrix": (Covariance, lambda m: {"matrix": np.eye(D + 1)}, "matrix"),
    "matrix not symmetric": (
        Covariance, moved("matrix", np.triu(np.ones((D, D)), 1), 1.0), "matrix",
    ),
    "indefinite matrix": (Covariance, moved("matrix", np.diag(UP), -1e-6), "matrix"),
    "trace": (Covariance, scaled("matrix", 1.01), "trace"),
    "negative number": (Covariance, lambda m: {"samples": -1}, "samples"),
    "more samples than there are numbers": (Covariance, lambda m: {"samples": 2**60}, "samples"),
    "a moment not asked for": (Covariance, lambda m: {"b": np.zeros(D)}, "b"),
    **{name: (Derivatives, *lie) for name, lie in LIES.items()},
    "no Hessian": (Derivatives, lambda m: {"hessian": None}, "hessian"),
    "a loss not asked for": (Derivatives, lambda m: {"loss": 1.0}, "loss"),
    "Hessian no sample has": (Derivatives, moved("hessian", np.diag(UP), 1e-6), "hessian"),
    "Hessian a little too large": (Derivatives, scaled("hessian", 1.01), "hessian"),
    "Hessian too small": (Derivatives, scaled("hessian", 0.98), "hessian"),
}  # fmt: skip


#: By algorithm; the link with losses needs a line search.
LIARS = {
    **{name: ("newton", None, *lie) for name, lie in OFFENCES.items()},
    "a Hessian for AGD": (
        "agd", None, Derivatives, lambda m: {"hessian": 1e12 * np.eye(D)}, "hessian",
    ),
    "a loss for AGD": ("agd", None, Derivatives, lambda m: {"loss": 1.0}, "loss"),
    "moment no sample has": ("dislinucb", None, Covariance, moved("b", UP, 1e-5), "b"),
    "moment too large": ("dislinucb", None, Covariance, scaled("b", 20.0), "b"),
    "NaN in the moment": ("dislinucb", None, Covariance, poked("b", np.nan), "b"),
    **{
        f"loss {loss}": ("newton", Hyperbolic(), Derivatives, lambda m, x=loss: {"loss": x}, "loss")
        for loss in (math.nan, -math.inf, -1.0, 6 * 0.6, "much")
    },
}  # fmt: skip


@pytest.mark.parametrize("offence", LIARS)
def test_a_lie_is_refused_and_the_others_go_on(offence):
    """The model is that of a federation which never had the offender."""
    name, link, *lie = LIARS[offence]
    fed, twin = federation(name, link=link), federation(name, OTHERS, link)
    with_offence(fed, *lie)
    twin.deliver(twin.coordinator.begin(2, 0))
    assert fed.coordinator.syncs == 1
    assert same_model(fed.coordinator, twin.coordinator)


#: Of the first answer where updates are one exchange.
AT_THE_MODEL = {
    **LIES,
    "negative number": (lambda m: {"samples": -1}, "samples"),
    "too few samples": (lambda m: {"samples": 4}, "hessian"),
    "no samples": (lambda m: {"samples": 0}, "hessian"),
    "no whole number": (lambda m: {"samples": 6.5}, "samples"),
    "more samples than there are numbers": (lambda m: {"samples": 2**60}, "samples"),
}


#: About the distance from others, of a client with a model of its own: s, f, whether its prior is
#: wider, for θ and for effects; and where T has directions, rrᵀ and V.
OF_DISTANCE = {
    "missing": ("spread", lambda v: None),
    "of another shape": ("spread", lambda v: v[:-1]),
    "with effects that arms do not have": ("residuals", lambda v: np.append(v, v)),
    "NaN": ("spread", lambda v: np.append(math.nan, v[1:])),
    "infinite": ("spread", lambda v: np.append(v[0], [math.inf, *v[2:]])),
    "no square": ("spread", lambda v: np.append(v[0], [-1e-9, *v[2:]])),
    "farther than its own evidence": ("spread", lambda v: np.append(v[0] - 1e9, v[1:])),
    "a flag of two": ("spread", lambda v: np.append(v[:2], [2.0, *v[3:]])),
    "a flag of a half": ("spread", lambda v: np.append(v[:-1], 0.5)),
    "no residuals": ("residuals", lambda v: None),
    "residuals of NaN": ("residuals", lambda v: v * math.nan),
    "residuals not symmetric": ("residuals", lambda v: v + np.triu(np.ones((D, D)), 1)),
    "residuals below 0": ("residuals", lambda v: v - (1.0 + np.trace(v)) * np.eye(D)),
    "residuals unlike s": ("residuals", lambda v: 2.0 * v + np.eye(D)),
    "no information": ("information", lambda v: None),
    "information below 0": ("information", lambda v: v - np.eye(D)),
    "information unlike f": ("information", lambda v: 2.0 * v),
}


@pytest.mark.parametrize("effects", [0, 5])
@pytest.mark.parametrize("offence", OF_DISTANCE)
def test_a_lie_about_the_distance_from_others_is_refused(offence, effects):
    algorithm = fg.fedglb_personal(1.0, effects=effects, spikes=not effects)
    field, lie = OF_DISTANCE[offence]
    if effects and field != "spread":
        return
    fed = Federation(algorithm, fg.Problem(D), N, T)
    for t in range(1, 9):
        fed.step(t)
    assert fed.coordinator.syncs > 1
    honest = [a for r in fed.coordinator.begin(9, 0) for a in fed.pass_on(r)]
    before = fed.coordinator.to_arrays()
    wrong = dataclasses.replace(honest[OFFENDER], **{field: lie(getattr(honest[OFFENDER], field))})
    with pytest.raises(fg.InvalidInput, match=field):
        fed.coordinator.receive(wrong)
    assert equal_arrays(fed.coordinator.to_arrays(), before)
    fed.deliver(honest)
    assert fed.coordinator.phase == 0


@pytest.mark.parametrize("name", ["mix", "auto"])
@pytest.mark.parametrize("offence", AT_THE_MODEL)
def test_so_is_a_lie_about_the_sums_at_the_model(name, offence):
    """In the first update, at θ = 0, and in a later one."""
    for updates in (0, 2):
        fed, twin = (federation(name, members) for members in (range(N), OTHERS))
        for each in (fed, twin):
            for t in range(updates):  # the same model for both: with the offender left out
                queue = each.coordinator.begin(2 + t, 0)
                each.deliver(queue + each.coordinator.exclude(OFFENDER))
        with_offence(fed, ModelSums, *AT_THE_MODEL[offence])
        twin.coordinator.asked = dict.fromkeys(range(N))  # both radii pay for leaving one out
        twin.deliver(twin.coordinator.begin(2, 0))
        assert same_model(fed.coordinator, twin.coordinator)


@pytest.mark.parametrize("norm", [0.5, 5.0, 30.0, 300.0, 690.0])
@pytest.mark.parametrize("name", LINK_TYPES)
def test_rubbish_at_any_model_is_refused(name, norm):
    """Far out little is known of M, but never may a gradient be longer than n·max|r|."""
    link, rng = LINK_TYPES[name](), np.random.default_rng(1)
    theta = np.array([norm, 0.0, 0.0])
    setting = fg.fedglb_auto(effects=0).setting(fg.Problem(D, link, noise=1.0), 1, None)
    X = rng.standard_normal((20, D))
    X[:, 0] = 0.0  # predictions of 0: weights that are not tiny
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = SharedModel(1, np.eye(D), np.empty(0), theta, ridge=1.0)
    answer = model_sums(setting, X, np.ones(20), model, 20)
    bound = limits(link, reward_range(link, LIMIT), Query(theta, hessian=True))
    check_model_sums(answer, bound, setting)
    worst = 20 * bound.residual * 1.01
    for change in (
        {"gradient": answer.gradient + np.array([0.0, 2.0 * worst, 0.0])},
        {"hessian": answer.hessian - 1e-6 * np.diag(UP) * np.linalg.norm(answer.hessian) * 1e6},
        {"hessian": -answer.hessian},
        {"samples": -1},
    ):
        with pytest.raises(fg.InvalidInput):
            check_model_sums(dataclasses.replace(answer, **change), bound, setting)


class Unbounded(Hyperbolic):
    """The same link for rewards without a bound."""

    support = (-math.inf, math.inf)


@pytest.mark.parametrize("link", [Hyperbolic(), Unbounded()], ids=["bounded", "unbounded"])
def test_an_infinite_loss_asks_to_step_back_where_a_sample_can_have_one(link):
    fed = federation("newton", link=link)
    queue = fed.coordinator.begin(2)
    while fed.coordinator.update.rounds < 2:
        queue += fed.pass_on(queue.pop(0))
    while not queue[0].upward:
        queue += fed.pass_on(queue.pop(0))
    answer = dataclasses.replace(queue[0], loss=math.inf)
    assert queue[0].loss is not None
    if link.support[1] < math.inf:
        with pytest.raises(fg.InvalidInput, match="loss"):
            fed.coordinator.receive(answer)
    else:
        fed.coordinator.receive(answer)
    assert (answer.client in fed.coordinator.update.replies) == (link.support[1] == math.inf)


def test_where_nothing_is_refitted_the_batch_counts():
    fed = federation("variant 3")
    fed.deliver(fed.coordinator.begin(2, 0))
    rng = np.random.default_rng(6)
    for client in fed.clients:
        client.observe_unchecked(flat(rng), 1.0, 3)
    request = fed.coordinator.begin(3, 0)[OFFENDER]
    honest = fed.pass_on(request)[0]
    kept = fed.coordinator.covered[OFFENDER]
    for change in (
        {"samples": 5},  # fewer than the model has
        {"samples": 6},  # the trace of the batch is 1
        {"matrix": kept.matrix - np.diag([1e-3, 0, 0])},
    ):
        with pytest.raises(fg.InvalidInput):
            fed.coordinator.receive(dataclasses.replace(honest, **change))
    fed.coordinator.receive(honest)
    for i in (0, 1, 3):
        answers = fed.clients[i].receive(dataclasses.replace(request, client=i))
        rounds = fed.coordinator.receive(answers[0])
    answer = fed.pass_on(rounds[OFFENDER])[0]
    with pytest.raises(fg.InvalidInput, match="gradient"):  # as 6 samples could, but not this one
        fed.coordinator.receive(dataclasses.replace(answer, gradient=answer.gradient * 3.0))
    assert fed.coordinator.receive(answer) == []


def test_unbounded_rewards_are_bounded_by_the_limit():
    algorithm = fg.fedglb_ucb(1.0, fg.Newton())
    fed = Federation(algorithm, fg.Problem(D, fg.Identity()), N, T)
    fed.clients[0].observe_unchecked(np.array([1.0, 0.0, 0.0]), 50.0, 1)
    fed.coordinator = fg.Coordinator(algorithm, fed.setting, [0], reward_limit=2.0)
    requests = fed.pass_on(fed.pass_on(fed.coordinator.begin(1)[0])[0])
    with pytest.raises(fg.InvalidInput, match="gradient"):
        fed.deliver(requests)
    fed.coordinator = fg.Coordinator(algorithm, fed.setting, [0])
    fed.deliver(fed.coordinator.begin(1))
    assert fed.coordinator.syncs == 1


# -- arms with effects ---------------------------------------------------------------------------

ROW = D + 3


def with_effects(updates: int, link=None, likely: float = 0.5) -> Federation:
    """Clients with samples of five arms and of others, after so many updates."""
    problem = fg.Problem(D, link or fg.Logistic(), noise=0.5)
    fed = Federation(fg.fedglb_auto(1.0, effects=5), problem, N, T)
    rng = np.random.default_rng(5)
    items = rng.standard_normal((5, D))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    for client in fed.clients:
        for k in rng.permutation(20) % 5:
            client.observe(items[k], float(rng.random() < likely), 1, id=int(7 * k))
        client.observe_unchecked(np.append(flat(rng), -1.0), 1.0, 1)
    for t in range(updates):
        fed.deliver(fed.coordinator.begin(2 + t, 0))
    return fed


def changed(place, change):
    """A lie about one number of the second row; a model has two numbers before the rows."""

    def lie(effects, ahead):
        effects = effects.copy()
        effects[ahead + ROW + place] = change(effects[ahead + ROW + place])
        return effects

    return lie


#: About the rows of arms, in sums and in models.
WRONG_ROWS = {
    "none": lambda e, ahead: None,
    "a number short": lambda e, ahead: e[:-1],
    "a table": lambda e, ahead: e[ahead:].reshape(-1, ROW),
    "too many rows": lambda e, ahead: np.append(e, [9999.0, *e[-ROW + 1 :]]),
    "half a key": changed(0, lambda key: key - 0.5),
    "a key twice": changed(0, lambda key: 0.0),
    "keys in another order": lambda e, ahead: np.concatenate([e[:ahead], e[-ROW:], e[ahead:-ROW]]),
    "a key below 0": lambda e, ahead: np.concatenate([e[:ahead], [-1.0], e[ahead + 1 :]]),
    "a key too large": lambda e, ahead: np.concatenate([e[:-ROW], [65536.0], e[-ROW + 1 :]]),
    **{
        f"{value} at {place}": changed(place, lambda _, value=value: value)
        for value in (math.nan, math.inf)
        for place in range(ROW)
    },
}
WRONG_SUMS = {
    **WRONG_ROWS,
    "a weight below 0": changed(1, lambda h: -h),
    "a weight too large": changed(1, lambda h: h + 6.0),
    "a weight too small": changed(1, lambda h: 0.2 * h),
    "no weight": changed(1, lambda h: 0.0),
    "a residual too large": changed(2, lambda g: 5.0),
    "all residuals too large": changed(2, lambda g: -1e9),
    "features too long": lambda e, ahead: np.append(e[:3], 1.05 * e[3:ROW]),  # of a lone arm
    "features that no Hessian allows": changed(D + 2, lambda b: -b),
}
WRONG_MODELS = {
    **WRONG_ROWS,
    "nothing": lambda e, ahead: e[:1],
    "no ridge": lambda e, ahead: np.append(0.0, e[1:]),
    "NaN as the ridge": lambda e, ahead: np.append(math.nan, e[1:]),
    "an infinite ridge": lambda e, ahead: np.append(math.inf, e[1:]),
    "too few buckets": lambda e, ahead: np.concatenate([e[:1], [16.0], e[2:]]),
    **{
        f"{count} buckets": lambda e, ahead, count=count: np.concatenate([e[:1], [count], e[2:]])
        for count in (0.0, 0.5, 48.0, 2.0**17, math.inf, math.nan)
    },
    "less than the ridge": changed(1, lambda D: 0.0),
}


@pytest.mark.parametrize("updates", [0, 2])
def test_lies_about_effects_are_refused(updates):
    fed = with_effects(updates)
    coordinator = fed.coordinator
    request = coordinator.begin(5, 0)[OFFENDER]
    (honest,) = fed.pass_on(request)
    assert honest.effects[::ROW].tolist() == [0.0, 7.0, 14.0, 21.0, 28.0]
    before = coordinator.to_arrays()
    for lie in WRONG_SUMS.values():
        with pytest.raises(fg.InvalidInput, match="effects"):
            coordinator.receive(dataclasses.replace(honest, effects=lie(honest.effects, 0)))
    assert equal_arrays(coordinator.to_arrays(), before)
    coordinator.receive(honest)


def test_lies_about_a_models_effects_are_refused():
    fed = with_effects(2)
    client, model = fed.clients[0], fed.coordinator.model
    assert model.effects.size == 2 + 5 * ROW
    before = client.to_arrays()
    for lie in WRONG_MODELS.values():
        wrong = dataclasses.replace(model, effects=lie(model.effects, 2))
        with pytest.raises(fg.InvalidInput, match="effects"):
            client.receive(NewModel(0, 9, 0, wrong))
    assert equal_arrays(client.to_arrays(), before)
    client.receive(NewModel(0, 9, 0, model))
    assert client.adopted == 9


def test_residuals_of_all_arms_are_bounded_by_the_number_of_samples():
    fed = with_effects(2)
    request = fed.coordinator.begin(5, 0)[OFFENDER]
    (honest,) = fed.pass_on(request)
    bound, lie = fed.coordinator.update._model_limits, honest.effects.copy()
    lie[2::ROW] = 0.99 * bound.residual * lie[1::ROW] / bound.slope[0]  # as large as each may be
    with pytest.raises(fg.InvalidInput, match="21 samples"):
        fed.coordinator.receive(dataclasses.replace(honest, effects=lie))


def test_a_weight_is_at_least_0_where_rewards_have_no_bound():
    fed = with_effects(2, fg.Identity())
    request = fed.coordinator.begin(5, 0)[OFFENDER]
    (honest,) = fed.pass_on(request)
    lie = np.append([0.0, -0.1, 0.0, 0.0, 0.0, 0.0], honest.effects[ROW:])
    with pytest.raises(fg.InvalidInput, match=r"Σw = -0\.1"):
        fed.coordinator.receive(dataclasses.replace(honest, effects=lie))
    fed.coordinator.receive(honest)


def test_who_has_no_effects_neither_sends_nor_takes_them():
    algorithm = fg.fedglb_auto(1.0, effects=0)
    setting = algorithm.setting(fg.Problem(D), 1, None)
    client, coordinator = fg.Client(0, algorithm, setting), fg.Coordinator(algorithm, setting, [0])
    client.observe([0.6, 0.0, 0.8], 1.0, 1, id=3)
    (answer,) = client.receive(coordinator.begin(1)[0])
    assert answer.effects is None
    with pytest.raises(fg.InvalidInput, match="effects"):
        coordinator.receive(dataclasses.replace(answer, effects=np.empty(0)))
    (message,) = coordinator.receive(answer)
    wrong = dataclasses.replace(message.model, effects=np.array([1.0, 65536.0]))
    with pytest.raises(fg.InvalidInput, match="effects"):
        client.receive(dataclasses.replace(message, model=wrong))


def test_a_large_effect_widens_the_limits():
    """Where an arm's effect is large, weights are smaller than any that ‖θ‖ allows."""
    fed = with_effects(1, likely=0.0)
    model = fed.coordinator.model
    far = model.effects.copy()
    far[2 + 2 :: ROW] = 30.0
    fed.coordinator.model = dataclasses.replace(model, effects=far)
    fed.coordinator.started = fed.coordinator.finished = 9
    for client in fed.clients:
        client.receive(NewModel(client.id, 9, 0, fed.coordinator.model))
    fed.deliver(fed.coordinator.begin(10, 0))
    assert fed.coordinator.finished == 10


def test_a_client_with_effects_answers_no_round():
    """There is none in an update of effects: its samples have one number more."""
    fed = with_effects(1)
    (request, *_) = fed.coordinator.begin(5, 0)
    fed.pass_on(request)
    assert fed.clients[0].receive(Evaluate(0, request.update, 1, 0, np.zeros(D), True, True)) == []

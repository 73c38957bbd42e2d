"""The proven set of the one-pass update: how large it is, and the regret of choosing by it.

Run from the repository's root: `python -m benchmarks.one_pass_radius radii|regret`. `radii` puts
the set beside the four-term radius that it replaced, on the same runs; both print tables for
RESULTS.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import fedglb as fg
from fedglb.kernels.ball import minimise_quadratic
from fedglb.parts.confidence import OnePassRadius
from fedglb.parts.confidence.one_pass import RADIUS, SET_CENTRE
from fedglb.parts.global_update import Objective, Solution
from fedglb.setting import Setting
from fedglb.typing import FloatArray

D, ARMS, T, UPDATES = 10, 25, 2000, 30
EPSILONS = (None, 8.0, 1.0)


@dataclass(frozen=True)
class Sizes:
    """Of one update: radius, its true value, and the root mean square of half an interval's width.

    The mean is over all directions x of length 1.
    """

    old: tuple[float, float, float]
    new: tuple[float, float, float]
    linearisation: float  # what of the old radius is its term E_b


@dataclass(frozen=True)
class Watched(OnePassRadius):
    """`OnePassRadius`, which notes its size and that of the four-term radius at every update."""

    stored_name = "watched in a benchmark"
    star: ClassVar[FloatArray]
    noted: ClassVar[list[Sizes]]
    old: ClassVar[list[float]]  # r_b of the four-term radius so far
    matrices: ClassVar[list[FloatArray]]
    squares: ClassVar[list[float]]  # the terms of E_b²

    @classmethod
    def begin(cls, star: FloatArray) -> None:
        """Forget the run before."""
        cls.star, cls.noted, cls.old, cls.matrices, cls.squares = star, [], [], [], []

    def radius_terms(
        self, setting: Setting, objective: Objective, solution: Solution
    ) -> tuple[float, ...]:
        """Return what `OnePassRadius` does."""
        terms = super().radius_terms(setting, objective, solution)
        numbers, d = np.array(terms), setting.problem.dim
        W = np.zeros((d, d))
        W[np.tril_indices(d)] = numbers[SET_CENTRE + d :]
        W = W + np.tril(W, -1).T
        kappa = matrix_bound(setting, len(self.old) + 1)
        assert objective.one_pass is not None
        A = shifted(objective.one_pass.H, kappa, setting.ridge)
        theta = np.empty(d)
        minimise_quadratic(A, objective.one_pass.v, setting.problem.S, theta)
        r, linearisation = four_terms(setting, A, kappa, self)
        centre = numbers[SET_CENTRE : SET_CENTRE + d]
        self.noted.append(
            Sizes(
                (r, length(A, self.star - theta), width(r, A)),
                (numbers[RADIUS], length(W, self.star - centre), width(numbers[RADIUS], W)),
                linearisation,
            )
        )
        return terms


def length(A: FloatArray, v: FloatArray) -> float:
    """Return ‖v‖_A."""
    return math.sqrt(v @ A @ v)


def width(radius: float, A: FloatArray) -> float:
    """Return the root mean square of radius·‖x‖_{A⁻¹} over x of length 1."""
    return radius * math.sqrt(np.trace(np.linalg.inv(A)) / len(A))


def matrix_bound(setting: Setting, b: int) -> float:
    """Return κ_b = σ_{H,b}(√(2d) + √(2 log(6b(b + 1)/δ))), which bounds the noise of H."""
    plan, d = setting.noise, setting.problem.dim
    if plan is None:
        return 0.0
    tail = math.sqrt(2.0 * math.log(6.0 * b * (b + 1) / setting.delta))
    return plan.total_matrix(b, setting.clients) * (math.sqrt(2.0 * d) + tail)


def shifted(hessian: FloatArray, kappa: float, ridge: float) -> FloatArray:
    """Return H + (λ + κ)I, with eigenvalues below λ + κ/10 raised to that."""
    values, vectors = np.linalg.eigh(hessian + (ridge + kappa) * np.eye(len(hessian)))
    return np.asarray((vectors * np.maximum(values, ridge + 0.1 * kappa)) @ vectors.T)


def four_terms(
    setting: Setting, A: FloatArray, kappa: float, so_far: Watched
) -> tuple[float, float]:
    """Return r_b = statistics + linearisation + noise + shift, and the second term, E_b."""
    problem, plan, b = setting.problem, setting.noise, len(so_far.old) + 1
    d, S, c, delta, ridge = problem.dim, problem.S, problem.c_mu, setting.delta, setting.ridge
    z = np.linspace(-S, S, 4001)
    mean = problem.link.mean(z)
    bend = float(np.abs(problem.link.variance(z) * (1.0 - 2.0 * mean)).max())  # sup|μ″|
    tail = math.sqrt(2.0 * math.log(6.0 * b * (b + 1) / delta))
    sigma = 0.0 if plan is None else plan.total_vector(b, setting.clients)
    nu, eye = sigma * (math.sqrt(d) + tail), np.eye(d)
    if b == 1:
        P, near, off = A - ridge * eye, S * S, S * S * largest(A - ridge * eye)
    else:
        before, r = so_far.matrices[-1], so_far.old[-1]
        P = A - before + 2.0 * matrix_bound(setting, b - 1) * eye
        root = np.linalg.inv(np.linalg.cholesky(before))
        near = min(4.0 * S * S, r * r / smallest(before))
        off = min(r * r * largest(root @ P @ root.T), 4.0 * S * S * largest(P))
    so_far.squares.append((bend / (2.0 * c)) ** 2 * near * max(off, 0.0))
    linearisation = math.sqrt(sum(so_far.squares))
    log_det = float(np.linalg.slogdet(A)[1]) - d * math.log(ridge)
    r = problem.R / math.sqrt(c) * math.sqrt(log_det + 2.0 * math.log(3.0 / delta))
    r += linearisation + nu / math.sqrt(smallest(A)) + math.sqrt(ridge + 2.0 * kappa) * S
    so_far.old.append(r)
    so_far.matrices.append(A)
    return r, linearisation


def largest(A: FloatArray) -> float:
    return float(np.linalg.eigvalsh(A)[-1])


def smallest(A: FloatArray) -> float:
    return float(np.linalg.eigvalsh(A)[0])


def preset(epsilon: float | None, **parts: object) -> fg.Algorithm:
    privacy = None if epsilon is None else fg.GaussianMechanism(epsilon, 1e-6)
    return fg.fedglb_private(UPDATES, privacy=privacy, **parts)  # type: ignore[arg-type]


def radii(sizes: Sequence[int], seeds: Sequence[int], radius: float) -> None:
    """Print the sizes of both sets at the last update, and how often they lost θ*."""
    print("| N | ε | old r | of it E_b | true | new ρ | true | width, old | new | ratio | lost |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for clients in sizes:
        for epsilon in EPSILONS:
            env = fg.Synthetic(fg.Problem(D, radius=radius), clients, ARMS)
            algorithm = preset(epsilon, confidence=Watched(), choice=fg.Bayes())
            ends, lost = [], 0
            for seed in seeds:
                Watched.begin(env.parameter(seed))
                fg.simulate(algorithm, env, T, seed)
                ends.append(Watched.noted[-1])
                lost += any(s.new[1] > s.new[0] * (1.0 + 1e-9) for s in Watched.noted)
            old = np.mean([s.old for s in ends], axis=0)
            new = np.mean([s.new for s in ends], axis=0)
            bent = np.mean([s.linearisation for s in ends])
            print(
                f"| {clients} | {words(epsilon)} | {old[0]:.1f} | {bent:.1f} | {old[1]:.2f} "
                f"| {new[0]:.1f} | {new[1]:.2f} | {old[2]:.2f} | {new[2]:.3f} "
                f"| {old[2] / new[2]:.1f} | {lost} of {len(ends)} |",
                flush=True,
            )


def regret(sizes: Sequence[int], seeds: Sequence[int], radius: float) -> None:
    """Print the regret of rules that use the set beside the calibrated index."""
    rules: dict[str, dict[str, object]] = {
        "calibrated index": {},
        "UCB with the set": {"confidence": OnePassRadius()},
        "calibrated index, certified (8)": {
            "confidence": OnePassRadius(),
            "choice": fg.Certified(fg.Bayes(), 8.0),
        },
        "calibrated index, certified (2)": {
            "confidence": OnePassRadius(),
            "choice": fg.Certified(fg.Bayes(), 2.0),
        },
    }
    print("| N | ε | " + " | ".join(rules) + " | UCB / index |")
    print("|---|---|" + "---|" * (len(rules) + 1))
    for clients in sizes:
        for epsilon in EPSILONS:
            env = fg.Synthetic(fg.Problem(D, radius=radius), clients, ARMS)
            algorithms = [preset(epsilon, **parts) for parts in rules.values()]
            made = np.array(
                [[run.regret for run in fg.compare(algorithms, env, T, seed)] for seed in seeds]
            )
            means, errors = made.mean(axis=0), made.std(axis=0, ddof=1) / math.sqrt(len(made))
            cells = " | ".join(f"{m:.0f} ± {e:.0f}" for m, e in zip(means, errors, strict=True))
            ratio = means[1] / means[0]
            print(f"| {clients} | {words(epsilon)} | {cells} | {ratio:.2f} |", flush=True)


def words(epsilon: float | None) -> str:
    return "∞" if epsilon is None else f"{epsilon:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("radii", "regret"))
    parser.add_argument("--clients", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--radius", type=float, default=1.0)
    given = parser.parse_args()
    work = {"radii": radii, "regret": regret}[given.what]
    work(given.clients, range(1, given.seeds + 1), given.radius)


if __name__ == "__main__":
    main()

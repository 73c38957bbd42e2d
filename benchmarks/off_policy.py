"""How often intervals of `fg.evaluate` hold: python -m benchmarks.off_policy [SEEDS] [STEPS].

Per logging rule, policy and method: the bias of the estimate (and how many of its standard errors
that is), its standard deviation over seeds, the standard error that it states on average, how often
the interval contains the truth, its mean width, and the effective samples. The truth is the mean
over 20,000 further offers.
"""

from __future__ import annotations

import sys

import numpy as np

import fedglb as fg
from fedglb.parts.choice import Choice

ENV = fg.Synthetic(fg.Problem(dim=3, radius=2.0), clients=5, arms=4)
LOGGERS: tuple[Choice, ...] = (
    fg.EpsilonGreedy(0.3, fg.Bayes()),
    fg.EpsilonGreedy(0.1),
    fg.EpsilonGreedy(0.2, fg.Thompson(draws=5)),
    fg.Thompson(draws=100),
)
METHODS = [(method, "normal") for method in ("ips", "snips", "dr", "dm")] + [("ips", "proven")]


def policies(seed: int) -> dict[str, fg.Policy]:
    """Return what is evaluated: fixed before the run, and partly wrong about θ*."""
    theta, rng = ENV.parameter(seed), np.random.default_rng(seed)
    return {
        "uniform": fg.UniformPolicy(),
        "softmax": fg.ModelPolicy(theta + rng.normal(size=3), temperature=0.5),
        "greedy": fg.ModelPolicy(theta + rng.normal(size=3)),
    }


def truth(policy: fg.Policy, seed: int, steps: int) -> float:
    """Return the policy's mean reward over offers after those of the run."""
    found = []
    for block in ENV.blocks(steps + 4_000, seed):
        later = slice(max(0, steps + 1 - block.first), None)
        arms, means = block.arms[later], block.means[later]
        pi = policy.probabilities(arms.reshape(-1, *arms.shape[2:]))
        found.append((pi * means.reshape(pi.shape)).sum(axis=1))
    return float(np.concatenate(found).mean())


def main(seeds: int = 200, steps: int = 200) -> None:
    """Print one row per logging rule, policy and method."""
    for choice in LOGGERS:
        print(choice)
        rows: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
        for seed in range(seeds):
            run = fg.simulate(fg.fedglb_auto(choice=choice), ENV, steps, seed=seed)
            log = fg.Logged.from_run(run, ENV)
            for name, policy in policies(seed).items():
                value = truth(policy, seed, steps)
                for method, interval in METHODS:
                    e = fg.evaluate(log, policy, method, interval=interval)  # type: ignore[arg-type]
                    low, high = e.interval
                    row = (e.value - value, e.standard_error, low <= value <= high, high - low)
                    rows.setdefault((name, method, interval), []).append(
                        (*row, e.effective_samples)
                    )
        for key, each in rows.items():
            off, error, inside, width, effective = np.array(each, dtype=float).T
            bias, sd = off.mean(), off.std(ddof=1)
            print(
                f"  {' '.join(key):22s} bias {bias:+.4f} ({bias / sd * seeds**0.5:+.1f})"
                f"  sd {sd:.4f}  stated {error.mean():.4f}  coverage {inside.mean():.3f}"
                f"  width {width.mean():.3f}  effective {effective.mean():.0f}"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

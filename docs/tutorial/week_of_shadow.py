# %% [markdown]
# # A week of shadow, then on
#
# Nobody hands a shop to a system that has not been tried in it. So let the agent watch first: the
# system that you have decides, the agent learns from what it played, and notes what it would have
# played itself. After a week the log says how the agent would have done, with an interval.
#
# ## The shop, and the system in charge
#
# A shop shows one of five items. The system in charge plays its bestseller, the lamp, six times out
# of ten, and else another one. So it knows the probability of what it plays, which the
# estimate needs. What visitors like depends on their device, which the system ignores.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import fedglb as fg

ITEMS = {"lamp": "home", "pan": "home", "novel": "books", "atlas": "books", "phone case": "tech"}
CHANCES = {  # of a click, by device and category; the agent does not know them
    "desktop": {"home": 0.30, "books": 0.45, "tech": 0.10},
    "mobile": {"home": 0.25, "books": 0.10, "tech": 0.50},
}
rng = np.random.default_rng(1)
arms = [{"category": category} for category in ITEMS.values()]
names = list(ITEMS)


def in_charge() -> tuple[int, float]:
    """Return the item that the present system plays, and the probability with which it does."""
    played = 0 if rng.random() < 0.5 else int(rng.integers(5))
    return played, 0.5 * (played == 0) + 0.1


def visitor() -> dict[str, str]:
    """Return the record of a visitor."""
    return {"device": str(rng.choice(["desktop", "mobile"]))}


def click(context: dict[str, str], item: int) -> float:
    """Return 1 for a click, else 0."""
    return float(rng.random() < CHANCES[context["device"]][arms[item]["category"]])


# %% [markdown]
# ## A week as an apprentice
#
# `played` and `propensity` tell the agent what was decided and how likely that was. The reward goes
# to `observe` as always. (Over HTTP these are fields of `POST /v1/choose`, and the comparison is
# `GET /v1/compare`.)

# %%
schema = fg.Features(
    context={"device": fg.Category(["desktop", "mobile"])},
    arm={"category": fg.Category(["home", "books", "tech"])},
    crosses=[("context.device", "arm.category")],
)
agent = fg.Agent.open(Path(tempfile.mkdtemp()) / "shop.db", features=schema)
week = []
for _day in range(7):
    for _ in range(500):
        context, (played, probability) = visitor(), in_charge()
        decision = agent.choose(
            arms, ids=names, context=context, played=played, propensity=probability
        )
        agent.observe(decision.id, click(context, played))
    week.append(agent.compare())

for day, found in enumerate(week, 1):
    assert found.other is not None
    assert found.agent is not None
    print(
        f"day {day}: {found.other.value:.3f} in charge, {found.agent.value:.3f} the agent;", end=" "
    )
    print(found.verdict)

# %% [markdown]
# Only decisions in which the agent would have played the same item speak for it, each with weight
# one over its probability. So the interval is wider than that of the system in charge, and narrows
# as decisions come in.

# %%
figure, axes = plt.subplots(figsize=(6.8, 3.2))
for name, shift in (("other", -0.06), ("agent", 0.06)):
    means = [getattr(found, name) for found in week]
    values = np.array([mean.value for mean in means])
    reach = np.array([mean.high - mean.value for mean in means])
    label = "the system in charge" if name == "other" else "the agent, estimated"
    axes.errorbar(np.arange(1, 8) + shift, values, reach, fmt="o-", capsize=3, label=label)
axes.set(xlabel="day", ylabel="mean reward, 95 % intervals", ylim=(0.0, None))
axes.legend(frameon=False)
figure.tight_layout()

# %% [markdown]
# ## On
#
# The interval of the difference is above 0, so the agent may decide. Only one thing changes: leave
# `played` away. The agent keeps what it has learned.

# %%
rewards = []
for _ in range(1000):
    context = visitor()
    decision = agent.choose(arms, ids=names, context=context)
    rewards.append(click(context, decision.arm))
    agent.observe(decision.id, rewards[-1])

last = week[-1].agent
assert last is not None
print(f"estimated on day 7: {last.value:.3f} ({last.low:.3f} to {last.high:.3f})")
print(f"in charge itself:   {np.mean(rewards):.3f}")
agent.close()

# %% [markdown]
# The week counts as it was: on day 1 the agent knew nothing, so its estimate is below what it earns
# now.
#
# ## What to know
#
# - Without `propensity` the agent learns, but nothing can be estimated; `caveats` says so. A system
#   that always plays the same item for the same visitor has probability 1: about other items its
#   log says nothing. Let it play at random in a few percent of the decisions.
# - A small probability is a large weight. If the agent's favourite is played once in a thousand
#   decisions, the interval stays wide: look at `effective`, the number of decisions that count.
# - `agent.export()` has all of it (`proposed`, `arm`, `propensity`, `reward`), for estimates of
#   your own; [`fg.evaluate`](../research.md) has more estimators.

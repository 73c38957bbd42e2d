# %% [markdown]
# # Your own choice rule
#
# A question of your own: would a rule that explores a little less than `fedglb_auto`'s do better
# where clients differ? You write the rule, run it against `fedglb_auto` over 20 seeds on both
# cores, and look.
#
# ## The rule
#
# A rule is a frozen dataclass with a `score`. It gets the arms, the client's model and the step t.
# The model has the `mean` of each arm's prediction and its standard deviation `sd`; ours adds
# `scale`·√log(1 + t) standard deviations. numba compiles it.

# %%
import math
import tempfile
from dataclasses import dataclass

import polars as pl

import fedglb as fg


@dataclass(frozen=True)
class Growing(fg.Choice):
    """Play the largest prediction plus `scale`·√log(1 + t) standard deviations."""

    scale: float

    def score(self, arms, model, t):
        """Return the score of each arm."""
        return model.mean + self.scale * math.sqrt(math.log(1 + t)) * model.sd


# %% [markdown]
# ## Clients that differ
#
# Every client has a θ of its own, around a common one.

# %%
env = fg.Heterogeneous(fg.Synthetic(fg.Problem(dim=5), clients=10, arms=10), spread=0.3)
algorithms = {
    "fedglb_auto": fg.fedglb_auto(),
    "growing": [fg.fedglb_auto(choice=Growing(scale)) for scale in (0.2, 0.5)],
    "alone": fg.n_ucb_glm(exploration=0.1),
}
experiment = fg.Experiment.of(algorithms, env, horizon=300, seeds=20, name="growing")
result = fg.sweep(experiment, tempfile.mkdtemp() + "/growing", jobs=2)

# %% [markdown]
# ## What came out

# %%
result.runs.group_by("label", maintain_order=True).agg(
    pl.col("regret").mean(),
    (pl.col("regret").std() / pl.len().sqrt()).alias("standard error"),
    pl.col("regret").median().alias("median"),
)

# %%
fg.plot(result)

# %% [markdown]
# All algorithms of a seed meet the same arms and the same noise, so differences are paired. If you
# pick the better `scale` here, report it on other seeds.

# %% [markdown]
# # Your own choice rule
#
# A question of your own: would a rule that explores a little less than `fedglb_auto`'s do better
# where clients differ? You write the rule, run it against `fedglb_auto` over 20 seeds on both
# cores, and look.
#
# ## The rule
#
# A rule is a function. It asks by name for what it needs: the `mean` of each arm's prediction, its
# standard deviation `sd`, the step `t`; `scale` is its own. Ours adds `scale`·√log(1 + t) standard
# deviations. numba compiles it. [Your own part](../own_parts.md) has the other parts.

# %%
import math
import tempfile
from functools import partial

import polars as pl

import fedglb as fg


def growing(mean, sd, t, scale):
    """Return the score of each arm."""
    return mean + scale * math.sqrt(math.log(1 + t)) * sd


# %% [markdown]
# ## Clients that differ
#
# Every client has a θ of its own, around a common one.

# %%
env = fg.Heterogeneous(fg.Synthetic(fg.Problem(dim=5), clients=10, arms=10), spread=0.3)
algorithms = {
    "fedglb_auto": fg.fedglb_auto(),
    "growing": [fg.fedglb_auto(choice=partial(growing, scale=scale)) for scale in (0.2, 0.5)],
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

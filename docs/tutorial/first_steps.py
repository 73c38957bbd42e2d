# %% [markdown]
# # First steps
#
# Twenty clients each choose one of 25 arms per step, and learn from clicks. Do they learn faster
# together than alone, and what does it cost in messages?
#
# ## A problem, and where its arms come from
#
# A `Problem` is what is known before the first reward: the number of features, how rewards follow
# from them, and how large the unknown parameter may be. An environment draws arms and rewards.

# %%
import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import fedglb as fg

problem = fg.Problem(dim=10, link=fg.Logistic(), radius=1.0)
env = fg.Synthetic(problem, clients=20, arms=25)

# %% [markdown]
# ## One run
#
# `fedglb_auto` has nothing to tune. Regret is what was lost against always playing the best arm;
# transfers are messages that carry numbers, in both directions, and scalars these numbers.

# %%
run = fg.simulate(fg.fedglb_auto(), env, horizon=500, seed=1)
print(f"regret {run.regret:.0f}, {run.syncs} global updates, {run.transfers} transfers")
run.trace.tail(3)

# %% [markdown]
# Every message is counted:

# %%
run.ledger

# %% [markdown]
# ## Together and alone
#
# `compare` runs several algorithms side by side, on the same arms and the same noise: what differs
# is the algorithm. A larger `threshold` asks for fewer global updates. `n_ucb_glm` learns alone at
# each client, from an exact fit of its own samples; `exploration=0.1` makes its proven confidence
# sets narrower, at the price of the proof.

# %%
algorithms = {
    "together": fg.fedglb_auto(),
    "together, few updates": fg.fedglb_auto(threshold=30.0),
    "alone": fg.n_ucb_glm(exploration=0.1),
}
seeds = [fg.compare([*algorithms.values()], env, horizon=500, seed=seed) for seed in range(1, 6)]
runs = dict(zip(algorithms, zip(*seeds, strict=True), strict=True))

pl.DataFrame(
    {
        "algorithm": [*runs],
        "mean regret": [np.mean([run.regret for run in each]) for each in runs.values()],
        "mean transfers": [np.mean([run.transfers for run in each]) for each in runs.values()],
    }
)

# %% [markdown]
# ## A figure
#
# One line per seed, so that no mean hides what single runs do.

# %%
figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
styles = ["C0-", "C2-.", "C1--"]
for panel, column in zip(panels, ["regret", "transfers"], strict=True):
    for (name, each), style in zip(runs.items(), styles, strict=True):
        for i, run in enumerate(each):
            label = name if i == 0 else None
            panel.plot(run.trace["t"], run.trace[column], style, alpha=0.8, label=label)
    panel.set(xlabel="step", ylabel=f"{column}, all clients so far")
panels[0].legend()
plt.show()

# %% [markdown]
# ## What next
#
# - Parameter grids and many seeds on all cores: [sweeps](../research.md#sweeps).
# - The paper's figures, with `fedglb reproduce`: [experiments](../research.md#experiments);
#   what came out: [results](../results.md).
# - An agent in an application: [applications](../applications.md).
# - A choice rule, a link or an algorithm of your own: [your own part](../own_parts.md).

"""The Open Bandit Dataset as an environment: a shop's log, replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from fedglb.environments.datasets.conversion import Conversion
from fedglb.environments.datasets.csv_files import read_csv
from fedglb.environments.datasets.table import Table
from fedglb.environments.replay import Replay, ReplayMethod
from fedglb.errors import InvalidInput, instance, one_of
from fedglb.problem import Problem
from fedglb.typing import BoolArray, FloatArray, IntArray

Behaviour: TypeAlias = Literal["random", "bts"]
Campaign: TypeAlias = Literal["all", "men", "women"]

_ORIGIN = "the Open Bandit Dataset (research.zozo.com/data.html)"
_ITEM = {"item_feature_0": float, **{f"item_feature_{i}": str for i in (1, 2, 3)}}
_USER = tuple(f"user_feature_{i}" for i in range(4))


class OpenBandit(Replay):
    """A log whose arms are the shop's items, with one feature of user and item."""

    def __init__(
        self, problem: Problem, items: FloatArray, clicked: BoolArray, value: float,
        played: tuple[IntArray, FloatArray, FloatArray], clients: int | NDArray[Any],
        method: ReplayMethod, sources: dict[str, Any],
    ) -> None:  # fmt: skip
        super().__init__(problem, items, *played, clients=clients, method=method)
        #: Whether the user of a decision has clicked on an item before, (n, K), and the feature's
        #: value if so.
        self.clicked, self.value, self.sources = clicked, value, sources

    def _parts(self) -> Iterator[NDArray[Any]]:
        """Yield the arrays that the digest is of."""
        yield from super()._parts()
        yield self.clicked

    def facts(self) -> dict[str, Any]:
        """Return the origin of the log as well."""
        return {**super().facts(), **self.sources}

    def offered(self, rows: IntArray) -> FloatArray:
        """Return the arms that some decisions offered."""
        arms = super().offered(rows).copy()
        arms[..., -2] = self.clicked[rows] * self.value
        return arms


def open_bandit(
    folder: str | Path,
    problem: Problem | None = None,
    *,
    behaviour: Behaviour = "random",
    campaign: Campaign = "all",
    clients: int | str = 10,
    method: ReplayMethod = "rejection",
) -> OpenBandit:
    r"""Return the Open Bandit Dataset as an environment: recommendations of a fashion shop.

    A decision is one row: an item shown to a user, in one of three places, with its propensity; the
    reward is 1 for a click. Decisions are in the order of their timestamps. The arms are the items
    of the campaign: 80 of "all", 34 of "men", 46 of "women". An arm's features: item_feature_0,
    standardised; one feature of 0 or 1 for each level of item_feature_1, 2 and 3; 1 if the user has
    clicked on this item before (user-item_affinity > 0), else 0; and 1. All are divided by the
    largest norm. The dim is that of ``env.problem``: 43, 30 and 35 in the full data.

    The place and the user's own features are no features of an arm, as they are alike for all arms
    of a decision. Three rows with items in the three places are three decisions, whose clicks may
    depend on each other; the propensities of "bts" depend on the place.

    Parameters
    ----------
    folder
        The folder with random/all/all.csv, random/all/item_context.csv and so on, or the zip
        archive.
    problem
        The problem; its dim must be the number of features. None: logistic.
    behaviour
        The policy that made the log: "random", which is evenly random, or "bts", Bernoulli Thompson
        sampling. Its smallest propensities are about 1e-6, so that method="rejection" would leave
        nearly nothing of it: take method="weights".
    campaign
        "all", "men" or "women".
    clients
        N, to which decisions are dealt in turn; or "user_feature_0" … "user_feature_3": one client
        for each level of this column.
    method
        As in `fg.Replay`.

    Returns
    -------
    OpenBandit
        An `fg.Replay`.

    Raises
    ------
    InvalidInput
        If an argument is invalid, or a file or column is missing.

    References
    ----------
    Saito, Aihara, Matsutani and Narita (2020), *Open Bandit Dataset and Pipeline: Towards Realistic
    and Reproducible Off-Policy Evaluation*.

    Examples
    --------
    >>> import fedglb as fg
    >>> folder = getfixture("tmp_path") / "random" / "men"
    >>> folder.mkdir(parents=True)
    >>> _ = (folder / "item_context.csv").write_text(
    ...     ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3\n"
    ...     "0,0,-0.5,a,b,c\n1,1,0.5,a,d,c\n"
    ... )
    >>> _ = (folder / "men.csv").write_text(
    ...     ",timestamp,item_id,position,click,propensity_score,"
    ...     "user_feature_0,user_feature_1,user_feature_2,user_feature_3,"
    ...     "user-item_affinity_0,user-item_affinity_1\n"
    ...     "0,2019-11-24 00:00:01,1,3,1,0.5,e,f,g,h,0.0,2.0\n"
    ...     "1,2019-11-24 00:00:02,0,1,0,0.5,e,f,g,h,0.0,0.0\n"
    ... )
    >>> env = fg.open_bandit(folder.parents[1], campaign="men", clients=1)
    >>> env.arms, env.problem.dim, env.horizon
    (2, 7, 2)
    """
    one_of("behaviour", behaviour, get_args(Behaviour))
    one_of("campaign", campaign, get_args(Campaign))
    if isinstance(clients, str):
        one_of("clients", clients, _USER)
    place = f"{behaviour}/{campaign}"
    items, of_items = read_csv(
        folder, f"{place}/item_context.csv", {"item_id": int, **_ITEM}, _ORIGIN
    )
    items = items.sort("item_id")
    K = items.height
    if items["item_id"].to_list() != list(range(K)):
        allowed = f"{place}/item_context.csv with the item_ids 0 to {K - 1}, each once"
        raise InvalidInput("folder", str(folder), allowed)
    affinities = [f"user-item_affinity_{k}" for k in range(K)]
    log, of_log = read_csv(
        folder,
        f"{place}/{campaign}.csv",
        {
            "timestamp": str, "item_id": int, "click": float, "propensity_score": float,
            **dict.fromkeys(_USER, str), **dict.fromkeys(affinities, float),
        },
        _ORIGIN,
    )  # fmt: skip
    log = log.sort("timestamp", maintain_order=True)

    table = Table({name: items[name].to_numpy() for name in _ITEM}, np.zeros(K))
    fitted = Conversion.fit(table, constant=True)
    encoded = fitted.encode(table)
    fitted = fitted.scaled(np.hstack([encoded, np.ones((K, 1))]), "largest")
    arms = fitted.place(np.hstack([encoded, np.zeros((K, 1))]))
    problem = Problem(arms.shape[1]) if problem is None else problem
    instance("problem", problem, Problem, "fg.Problem(dim=43)")
    if problem.dim != arms.shape[1]:
        raise InvalidInput("problem.dim", problem.dim, f"{arms.shape[1]}, the number of features")
    assert fitted.largest is not None
    clicked = np.empty((log.height, K), dtype=np.bool_)
    for k, name in enumerate(affinities):
        clicked[:, k] = log[name].to_numpy() > 0.0
    played = log["item_id"].to_numpy(), log["click"].to_numpy(), log["propensity_score"].to_numpy()
    return OpenBandit(
        problem, arms, clicked, 1.0 / fitted.largest, played,
        log[clients].to_numpy().astype(np.str_) if isinstance(clients, str) else clients,
        method,
        {
            "dataset": "Open Bandit", "behaviour": behaviour, "campaign": campaign,
            "sha256": {"items": of_items, "log": of_log},
        },
    )  # fmt: skip

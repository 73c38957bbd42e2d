"""Links, one GLM family per file. Custom links are subclasses of `Link`."""

from fedglb.links.base import Link
from fedglb.links.identity import Identity
from fedglb.links.logistic import Logistic
from fedglb.links.poisson import Poisson
from fedglb.links.probit import Probit

LINKS: dict[str, type[Link]] = {k.name: k for k in (Logistic, Poisson, Identity, Probit)}

__all__ = ["LINKS", "Identity", "Link", "Logistic", "Poisson", "Probit"]

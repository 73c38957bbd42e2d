"""When the certificates at hand end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from fedglb.errors import InvalidInput
from fedglb.federation.bundle import CA, CERTIFICATE
from fedglb.federation.certificates import Certificate
from fedglb.federation.operator.listing import members


def certificate_ends(bundle: Path) -> dict[str, float]:
    """Return whose certificate ends when (Unix times), as far as the files can be read here.

    Parameters
    ----------
    bundle
        The coordinator's folder. Where it lies in the operator's, the server's certificate and
        those of all clients are known, too.
    """
    ends = {}
    for name, file in (("the authority", CA), ("the coordinator", CERTIFICATE)):
        with contextlib.suppress(OSError, ValueError):  # not there, or no certificate
            ends[name] = Certificate((bundle / file).read_bytes()).ends.timestamp()
    with contextlib.suppress(OSError, InvalidInput):  # it lies elsewhere, or is not ours to read
        for member in members(bundle.parent):
            if member.ends is not None and member.revoked is None:
                name = member.name if member.kind == "client" else f"the {member.kind}"
                ends[name] = member.ends.timestamp()
    return ends

"""When the certificates at hand end."""

from __future__ import annotations

from pathlib import Path

from fedglb.federation.bundle import CA, CERTIFICATE
from fedglb.federation.certificates import expiry
from fedglb.federation.operator.operator import CLIENTS, SERVER


def certificate_ends(bundle: Path) -> dict[str, float]:
    """Return whose certificate ends when (Unix times), as far as the files can be read here.

    Parameters
    ----------
    bundle
        The coordinator's folder. Where it lies in the operator's, the server's certificate and
        those of the clients whose folders are still there are read, too.
    """
    folder = bundle.parent
    places = {
        "the authority": bundle / CA,
        "the coordinator": bundle / CERTIFICATE,
        "the server": folder / SERVER / "server.pem",
    }
    places |= {path.parent.name: path for path in (folder / CLIENTS).glob(f"*/{CERTIFICATE}")}
    ends = {}
    for name, path in places.items():
        try:
            ends[name] = expiry(path.read_bytes()).timestamp()
        except (OSError, ValueError):  # not there, not ours to read, or no certificate
            continue
    return ends

"""Session keys: only what a member of the roster has signed is used."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedglb.errors import InvalidInput
from fedglb.federation.certificates import Certificate
from fedglb.federation.operator.authority import Authority
from fedglb.federation.secure_sums.session_keys import (
    KeyRing,
    MissingKeys,
    SignedKey,
    verify,
    verify_parts,
)
from fedglb.federation.secure_sums.transcript import encoded
from tests.federation.helpers.sum_members import FEDERATION, issued, roster_of, session_keys

ROSTER = roster_of(["a", "b", "c"])


def test_two_members_have_one_secret():
    a, b, c = (session_keys(ROSTER, name) for name in "abc")
    for one in (a, b, c):
        for other in (a, b, c):
            one.add(other.own)
    assert a.secret("b") == b.secret("a")
    assert len({a.secret("b"), a.secret("c"), b.secret("c")}) == 3
    assert a.digests(["a", "b", "c"]) == c.digests(["a", "b", "c"])
    assert a.digests("a")[0] == a.own.digest


def test_every_process_has_a_key_of_its_own():
    first, second = session_keys(ROSTER, "a"), session_keys(ROSTER, "a")
    assert first.own.key != second.own.key
    b = session_keys(ROSTER, "b")
    b.add(first.own)
    before = b.secret("a")
    b.add(second.own)
    assert b.secret("a") != before
    assert b.digests("a") == [second.own.digest]


def forged() -> dict[str, SignedKey]:
    """Keys that are not b's own."""
    real = session_keys(ROSTER, "b").own
    other = X25519PrivateKey.generate().public_key().public_bytes_raw()
    fake = Authority.new(FEDERATION).issue(f"fedglb://{FEDERATION}/b/1")
    fake_roster = replace(ROSTER, keys={**ROSTER.keys, "b": _public(fake)})
    elsewhere = KeyRing("other", ROSTER, "b", 1, "s1", issued("b").key).own
    smaller = KeyRing(FEDERATION, roster_of("ab"), "b", 1, "s1", issued("b").key).own
    return {
        "another key": replace(real, key=other),
        "another session": replace(real, session="s2"),
        "another generation": replace(real, generation=2),
        "another's name": replace(real, name="c"),
        "a stranger": replace(real, name="d"),
        "no signature": replace(real, signature=b""),
        "a broken signature": replace(real, signature=real.signature[:-1]),
        "signed by another certificate of this name": KeyRing(
            FEDERATION, fake_roster, "b", 1, "s1", fake.key
        ).own,
        "signed for another federation": elsewhere,
        "signed under another roster": smaller,
        "short": replace(real, key=real.key[:-1]),
        "the point of order one": _low_order(),
    }


def _public(fake):
    return Certificate(fake.certificate).public_key


def _low_order() -> SignedKey:
    """A key that b itself has signed, with which everybody has the secret zero."""
    key = bytes(32)
    signed = encoded("signed key", FEDERATION, ROSTER.digest, "b", 1, "s1", key)
    signer = load_pem_private_key(issued("b").key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    return SignedKey("b", 1, "s1", key, signer.sign(signed, ec.ECDSA(hashes.SHA256())))


@pytest.mark.parametrize("how", list(forged()))
def test_a_forged_key_is_refused_and_the_one_before_stays(how):
    a, b = session_keys(ROSTER, "a"), session_keys(ROSTER, "b")
    a.add(b.own)
    before = a.secret("b")
    with pytest.raises(InvalidInput):
        a.add(forged()[how])
    assert a.secret("b") == before
    assert a.digests("b") == [b.own.digest]
    with pytest.raises(InvalidInput):
        verify(FEDERATION, ROSTER, forged()[how])


def test_ones_own_key_is_not_taken_from_others():
    a, again = session_keys(ROSTER, "a"), session_keys(ROSTER, "a", "s2")
    a.add(again.own)
    assert a.digests("a") == [a.own.digest]


def test_without_a_key_there_is_no_secret():
    a = session_keys(ROSTER, "a")
    with pytest.raises(MissingKeys, match="b"):
        a.secret("b")
    with pytest.raises(MissingKeys, match="b, c"):
        a.digests(["a", "b", "c"])


def test_an_attempt_is_signed_by_each_member_by_name():
    keys = {name: session_keys(ROSTER, name) for name in "abc"}
    one, other = b"t" * 32, b"T" * 32
    signed = [keys[name].sign(one) for name in "abc"]
    verify_parts(ROSTER, "abc", signed, one)
    verify_parts(ROSTER, "abc", [*signed[:2], session_keys(ROSTER, "c").sign(one)], one)
    forged = [
        signed[:2], [*signed, signed[0]], [signed[1], signed[0], signed[2]], [*signed[:2], b""],
        [*signed[:2], signed[1]], [*signed[:2], keys["c"].sign(other)],
        [*signed[:2], keys["c"].own.signature],
    ]  # fmt: skip
    for each in forged:
        with pytest.raises(InvalidInput, match="signature"):
            verify_parts(ROSTER, "abc", each, one)


def test_a_member_whose_key_the_roster_has_not_does_not_start():
    with pytest.raises(InvalidInput, match="roster"):
        KeyRing(FEDERATION, ROSTER, "a", 1, "s1", issued("b").key)
    with pytest.raises(InvalidInput, match="roster"):
        KeyRing(FEDERATION, ROSTER, "d", 1, "s1", issued("d").key)

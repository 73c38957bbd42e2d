"""The roster: one digest for one list of members, and sets over it."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from fedglb.errors import InvalidInput
from fedglb.federation.secure_sums.roster import Roster
from fedglb.federation.secure_sums.transcript import digest, encoded
from tests.federation.helpers.sum_members import names, roster_of


def test_the_digest_is_of_all_names_and_keys():
    roster = roster_of(["a", "b", "c"])
    assert roster_of(["c", "b", "a"]).digest == roster.digest
    keys = dict(roster.keys)
    assert Roster({"a": keys["b"], "b": keys["a"], "c": keys["c"]}).digest != roster.digest
    assert roster_of(["a", "b"]).digest != roster.digest
    assert Roster({"ab": keys["a"], "b": keys["b"], "c": keys["c"]}).digest != roster.digest


def test_no_part_can_be_read_as_belonging_to_another():
    assert encoded("x", b"ab", b"") != encoded("x", b"a", b"b")
    assert encoded("x", b"") != encoded("x")
    assert digest("x", 1) != digest("y", 1)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 65])
def test_every_set_comes_back(count):
    roster = roster_of(names(count))
    assert roster.members_of(roster.bitmap(roster.names)) == roster.names
    assert roster.members_of(roster.bitmap([])) == ()
    for name in roster.names:
        assert roster.members_of(roster.bitmap([name])) == (name,)
    assert len(roster.bitmap([])) == -(-count // 8)


def test_a_set_with_a_stranger_is_refused():
    roster = roster_of(names(9))
    with pytest.raises(InvalidInput, match="stranger"):
        roster.bitmap(["stranger"])
    with pytest.raises(InvalidInput, match="beyond the roster"):
        roster.members_of(b"\xff\x03")
    for wrong in (b"", b"\x01", b"\x01\x00\x00"):
        with pytest.raises(InvalidInput, match="bytes"):
            roster.members_of(wrong)
    with pytest.raises(InvalidInput, match="stranger"):
        roster.public_key("stranger")


def compressed(key):
    """The same P-256 key in the other encoding: it could hide that a key is there twice."""
    point = load_der_public_key(key).public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    found = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + point
    assert load_der_public_key(found) == load_der_public_key(key)
    return found


def test_keys_are_of_one_kind_and_each_has_one_holder():
    keys = roster_of(["a", "b"]).keys
    with pytest.raises(InvalidInput, match="a different key for each member"):
        Roster({"a": keys["a"], "b": keys["a"]})
    as_der = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    others = [
        ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(*as_der),
        ec.generate_private_key(ec.SECP384R1()).public_key().public_bytes(*as_der),
        b"", b"no key", compressed(keys["b"]),
    ]  # fmt: skip
    for other in others:
        with pytest.raises(InvalidInput, match="P-256"):
            Roster({"a": other})
    with pytest.raises(InvalidInput, match="coordinator"):
        Roster({"coordinator": keys["a"]})

"""From a message to its packet and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fedglb.errors import InvalidInput
from fedglb.federation.wire import messages as said
from fedglb.federation.wire import packets as wire
from fedglb.federation.wire.arrays import (
    pack_matrix,
    pack_numbers,
    pack_vector,
    unpack_matrix,
    unpack_numbers,
    unpack_vector,
)
from fedglb.federation.wire.messages import Downward, Upward
from fedglb.federation.wire.packets import DownPacket, UpPacket
from fedglb.model import SharedModel
from fedglb.protocol import messages as protocol

A = TypeVar("A")
B = TypeVar("B")


def pack(m: Upward | Downward, session: str) -> UpPacket | DownPacket:
    """Return the packet of a message."""
    match m:
        case protocol.Derivatives():
            d = len(m.gradient)
            gradient = pack_vector("gradient", m.gradient, d)
            hessian = _if_given(pack_matrix, "hessian", m.hessian, d)
            return wire.Derivatives(session, m.update, m.round, gradient, hessian, m.loss)
        case protocol.Evaluate():
            theta = pack_vector("theta", m.theta, len(m.theta))
            return wire.Evaluate(session, m.update, m.round, m.since, theta, m.hessian, m.loss)
        case said.Heartbeat():
            return wire.Heartbeat(session, m.update, m.wants)
        case protocol.Covariance():
            d = len(m.matrix)
            matrix, b = pack_matrix("matrix", m.matrix, d), _if_given(pack_vector, "b", m.b, d)
            return wire.Covariance(session, m.update, m.samples, matrix, b)
        case protocol.CovarianceRequest():
            return wire.CovarianceRequest(session, m.update)
        case protocol.NewModel():
            return _pack_model(m, session)
        case protocol.SyncRequest():
            return wire.SyncRequest(session, m.t, m.update)
        case said.Hello():
            return wire.Hello(session, m.instance, m.update, m.software, m.agreement)
        case said.Welcome():
            return wire.Welcome(session, m.update)
        case said.Rejected():
            return wire.Rejected(session, m.reason, m.member)
        case said.HelloRequest():
            return wire.HelloRequest(session)
        case said.Withdrawal():
            return wire.Withdrawal(session, m.update)
        case said.Goodbye():
            return wire.Goodbye(session)
    raise InvalidInput("message", type(m).__name__, "a message of a federation")


def unpack_up(p: UpPacket, client: str, dim: int) -> Upward:
    """Return the message of a packet from `client`."""
    match p:
        case wire.Derivatives():
            gradient = unpack_vector("gradient", p.gradient, dim)
            hessian = _if_given(unpack_matrix, "hessian", p.hessian, dim)
            return protocol.Derivatives(client, p.update, p.round, gradient, hessian, p.loss)
        case wire.Heartbeat():
            return said.Heartbeat(p.update, p.wants)
        case wire.Covariance():
            matrix = unpack_matrix("matrix", p.matrix, dim)
            b = _if_given(unpack_vector, "b", p.b, dim)
            return protocol.Covariance(client, p.update, p.samples, matrix, b)
        case wire.SyncRequest():
            return protocol.SyncRequest(client, p.t, p.update)
        case wire.Hello():
            return said.Hello(p.instance, p.update, p.software, p.agreement)
        case wire.Withdrawal():
            return said.Withdrawal(p.update)
        case wire.Goodbye():
            return said.Goodbye()


def unpack_down(p: DownPacket, client: str, dim: int) -> Downward:
    """Return the message of a packet to `client`."""
    match p:
        case wire.Evaluate():
            theta = unpack_vector("theta", p.theta, dim)
            return protocol.Evaluate(
                client, p.update, p.round, p.since, theta, p.hessian, p.loss
            )  # fmt: skip
        case wire.CovarianceRequest():
            return protocol.CovarianceRequest(client, p.update)
        case wire.NewModel():
            return _unpack_model(p, client, dim)
        case wire.Welcome():
            return said.Welcome(p.update)
        case wire.Rejected():
            return said.Rejected(p.reason, p.member)
        case wire.HelloRequest():
            return said.HelloRequest()


def _pack_model(m: protocol.NewModel, session: str) -> wire.NewModel:
    model, d = m.model, len(m.model.matrix)
    return wire.NewModel(
        session,
        m.update,
        m.covered,
        model.t,
        pack_matrix("matrix", model.matrix, d),
        pack_numbers("numbers", model.numbers),
        _if_given(pack_vector, "theta", model.theta, d),
        _if_given(pack_vector, "b", model.b, d),
        _if_given(pack_matrix, "gradient_matrix", model.gradient_matrix, d),
    )


def _unpack_model(p: wire.NewModel, client: str, dim: int) -> protocol.NewModel:
    model = SharedModel(
        p.t,
        unpack_matrix("matrix", p.matrix, dim),
        unpack_numbers("numbers", p.numbers),
        _if_given(unpack_vector, "theta", p.theta, dim),
        _if_given(unpack_vector, "b", p.b, dim),
        _if_given(unpack_matrix, "gradient_matrix", p.gradient_matrix, dim),
    )
    return protocol.NewModel(client, p.update, p.covered, model)


def _if_given(convert: Callable[[str, A, int], B], name: str, value: A | None, d: int) -> B | None:
    return None if value is None else convert(name, value, d)

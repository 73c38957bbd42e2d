"""The names that applications in other languages rest on: none may change or go."""

from __future__ import annotations

import dataclasses

import msgspec

from fedglb.federation import AgentStatus, Decision
from fedglb.service import messages
from fedglb.service.agent import PATHS
from fedglb.service.problem import TITLES

FIELDS = {
    "Choose": ["arms", "ids", "t", "key"],
    "Observe": ["id", "reward"],
    "BatchBody": ["batch"],
    "Observed": ["id"],
    "ChooseResult": ["status", "decision", "problem"],
    "ObserveResult": ["status", "problem"],
    "ChooseResults": ["results"],
    "ObserveResults": ["results"],
    "ProblemDetails": [
        "type", "title", "status", "detail", "argument", "value", "allowed", "same",
    ],
}  # fmt: skip
OF_DECISION = {
    "id", "arm", "arm_id", "score", "width", "propensity", "model", "propensity_error",
}  # fmt: skip
OF_STATUS = {"connected", "admitted", "refused", "model", "samples", "requested_at"}
WANTED_PATHS = {
    ("POST", "/v1/choose"), ("POST", "/v1/choose/batch"), ("POST", "/v1/observe"),
    ("POST", "/v1/observe/batch"), ("GET", "/v1/status"), ("GET", "/v1/export"),
    ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"),
}  # fmt: skip
PROBLEMS = {
    "invalid-input", "malformed", "too-large", "too-slow", "not-json", "unauthorized", "forbidden",
    "not-found", "method-not-allowed", "unknown-decision", "already-observed",
    "decision-expired", "busy", "unavailable", "storage", "internal",
}  # fmt: skip


def test_paths_and_problems():
    assert {(path.method, path.path) for path in PATHS} >= WANTED_PATHS
    assert set(TITLES) >= PROBLEMS


def test_fields_of_messages():
    for name, fields in FIELDS.items():
        found = msgspec.structs.fields(getattr(messages, name))
        assert [field.encode_name for field in found] == fields


def test_fields_of_what_the_agent_answers():
    assert {field.name for field in dataclasses.fields(Decision)} >= OF_DECISION
    assert {field.name for field in dataclasses.fields(AgentStatus)} >= OF_STATUS

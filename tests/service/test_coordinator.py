"""The coordinator's page over HTTP: who may see it, what it says, and what it must not."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
from contextlib import closing

import msgspec
import numpy as np
import pytest

import fedglb as fg
from fedglb.features.weights import Weight
from fedglb.federation.agreement import Agreement
from fedglb.federation.alarms import Alarm
from fedglb.federation.coordinator.alarms import KINDS
from fedglb.federation.coordinator.board import Board
from fedglb.federation.coordinator.differences import SpreadStatus
from fedglb.federation.coordinator.events import EventStatus, UpdateStatus
from fedglb.federation.coordinator.rewards import RewardStatus
from fedglb.federation.coordinator.session import strongest_weights
from fedglb.federation.coordinator.status import (
    CertificateStatus,
    CoordinatorStatus,
    MemberStatus,
    MemoryStatus,
    PrivacyStatus,
    ScheduleStatus,
    Totals,
)
from fedglb.federation.operator.authority import Authority
from fedglb.model import SharedModel
from fedglb.service.coordinator import sections, serving
from fedglb.service.listening import Listen
from fedglb.service.metrics import coordinator_metrics
from tests.federation.helpers.nats_federation import PATIENCE

EVIL = "<script>alert(1)</script>"


def picture(clients: int = 3, **more: object) -> CoordinatorStatus:
    """A status with something of everything in it."""
    now = time.time()
    members = tuple(
        MemberStatus(
            f"shop-{k}", k != 1, now - 900.0, now - 1.0, EVIL, 2, 10 * k, 0.1 * k, k % 2,
            RewardStatus(10, 4.0, 10, 4.0) if k == 0 else None,
        )
        for k in range(clients)
    )  # fmt: skip
    updates = tuple(
        UpdateStatus(k, now - 60.0 + k, k, None, 3, 10 * k, 2, 0.25, 4000, {"shop-1": EVIL})
        for k in (1, 2)
    )
    given = CoordinatorStatus(
        "demo", "tls://localhost:4222", "fedglb", True, True, now, now - 60.0, 2, None, (), 1, 10,
        Totals(2, 4, 30, 20, 10, 300, 44, 58_512), members, updates,
        (EventStatus(now, "rejected", EVIL, "shop-1"),), {"rejected": 1},
        (Alarm("rejected", EVIL, now, "shop-1"),), (CertificateStatus("shop-1", now + 1e6),),
        caveats=("proven for some",), algorithm="FedGLB-Auto", choice="thompson scale=2.0",
    )  # fmt: skip
    return msgspec.structs.replace(given, **more)


@pytest.fixture(scope="module")
def page():
    """A board and the port of the page that shows it, for all tests."""
    board = Board()
    with serving(board, Listen.parse("127.0.0.1:0")) as url:
        yield board, int(url.rstrip("/").rpartition(":")[2])


@pytest.fixture
def board(page):
    page[0].latest = picture()
    return page[0]


@pytest.fixture
def served(board, page):
    return page[1]


def asked(port: int, path: str = "/", method: str = "GET", **headers: str):
    """Return status, headers and text of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as line:
        line.request(method, path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.headers, answer.read().decode()


# -- what it says ----------------------------------------------------------------------------------


def test_the_page_is_whole_without_a_script_and_loads_nothing_from_elsewhere(served):
    status, headers, text = asked(served)
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert "shop-2" in text
    assert "58.5 kB" in text
    assert "<li>proven for some</li>" in text
    assert "FedGLB-Auto, choice: thompson scale=2.0" in text
    assert "<svg" in text
    loaded = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert all(re.fullmatch(r"/[\w.]+", each) for each in loaded), loaded
    for each in loaded:
        assert asked(served, each)[0] == 200
    for name in ("/page.css", "/page.js", "/icon.svg"):
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", asked(served, name)[2])


def test_what_clients_say_is_text_and_never_markup(served):
    text = asked(served)[2]
    assert EVIL not in text
    assert "&lt;script&gt;" in text
    assert " style=" not in text  # the policy forbids it


def test_every_answer_has_a_strict_policy(served):
    for path in ("/", "/status.json", "/metrics", "/healthz", "/page.js", "/no"):
        _, headers, _ = asked(served, path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["cache-control"] == "no-store", path


def test_the_status_is_the_picture(served, board):
    status, headers, text = asked(served, "/status.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert CoordinatorStatus.from_json(text.encode()) == board.latest


def test_the_strongest_weights_are_a_table(served, board):
    assert "features have names where the federation has a schema" in asked(served)[2]
    names = ("context.country=DE * arm.category=shoes", EVIL)
    weights = tuple(Weight(name, 1.25, 0.5) for name in names)
    board.latest = picture(weights=weights)
    text = asked(served)[2]
    assert EVIL not in text
    assert f'<td class="name">{names[0]}</td><td class="n">+1.250</td>' in text
    assert '<td class="n soft">0.500</td>' in text


def test_how_far_clients_differ(board, served):
    assert "distance" not in asked(served)[2]  # of an algorithm with one model for all
    assert "fedglb_spread" not in asked(served, "/metrics")[2]
    given = [{"distance": 3.14159, "far": True}, {"distance": 0.5}, {}]
    members = tuple(
        msgspec.structs.replace(m, **more) for m, more in zip(picture().members, given, strict=True)
    )
    board.latest = picture(members=members, spread=SpreadStatus(0.47, 0.0, 1))
    text = asked(served)[2]
    assert '<td class="n distance">3.1 × far</td>' in text
    assert '<td class="n distance">0.5 ×</td>' in text
    assert '<b id="total-spread">± 0.47</b>' in text
    metrics = asked(served, "/metrics")[2]
    assert 'fedglb_spread{of="theta"} 0.47\n' in metrics
    assert "fedglb_coordinator_clients_far 1.0\n" in metrics
    assert 'client_distance{client="shop-1"} 0.5\n' in metrics
    assert 'client_distance{client="shop-2"}' not in metrics
    assert json.loads(asked(served, "/status.json")[2])["members"][0]["far"] is True


def test_the_memory_in_force(board, served):
    assert "total-memory" not in asked(served)[2]
    assert "half_life" not in asked(served, "/metrics")[2]
    for memory, tile, since, metric in (
        (MemoryStatus(None, None), "∞", "", "+Inf"),
        (MemoryStatus(7 * 86400.0, 1e9), "7 d", "; those before", "604800.0"),
    ):
        board.latest = picture(memory=memory)
        text = asked(served)[2]
        assert f'<b id="total-memory">{tile}</b>' in text
        assert f"until a sample counts half{since}" in text
        name = "fedglb_coordinator_half_life_seconds"
        assert f"{name} {metric}\n" in asked(served, "/metrics")[2]


def test_weights_are_those_of_the_model():
    features = fg.Features(arm={"price": fg.Number([5, 50], weight=2.0)})
    d, rng = features.dim, np.random.default_rng(0)
    root = rng.normal(size=(d, d))
    matrix, theta = root @ root.T + np.eye(d), rng.normal(size=d)
    model = SharedModel(1, matrix, np.zeros(1), theta)
    agreement = Agreement(features.problem(), fg.fedglb_auto(), 1, features=features)
    found = {w.feature: w for w in strongest_weights(agreement, model)}
    scale = np.array([1.0, 2.0, 2.0, 2.0]) / np.sqrt(5.0)
    sd = np.sqrt(np.linalg.solve(matrix, np.eye(d)).diagonal())
    for k, name in enumerate(features.names):
        assert found[name].weight == pytest.approx(theta[k] * scale[k])
        assert found[name].sd == pytest.approx(sd[k] * scale[k])
    order = [abs(w.weight) / w.sd for w in found.values()]
    assert order == sorted(order, reverse=True)
    other = SharedModel(1, matrix, np.zeros(1), 2.0 * theta)  # kept weights are of one model
    assert strongest_weights(agreement, other)[0].weight == 2.0 * next(iter(found.values())).weight
    derived = SharedModel(1, matrix, np.zeros(1), b=matrix @ theta)
    again = {w.feature: w.weight for w in strongest_weights(agreement, derived)}
    assert again == pytest.approx({name: w.weight for name, w in found.items()})
    assert strongest_weights(agreement, None) == ()
    assert strongest_weights(agreement, SharedModel(1, np.eye(2), np.zeros(1), np.ones(2))) == ()
    plain = Agreement(fg.Problem(dim=d), fg.fedglb_auto(), 1)
    assert strongest_weights(plain, model) == ()


def test_no_sample_is_in_the_picture():
    """Its fields are names, times, counts and texts: there is no array, and no list of numbers."""
    shown = json.loads(picture().to_json())
    assert not re.search(r"theta|matrix|gradient|hessian|\bx\b", picture().to_json().decode())
    lists = [v for v in shown.values() if isinstance(v, list)]
    assert all(isinstance(each, dict | str) for v in lists for each in v)


def test_metrics_can_be_read_by_prometheus(served):
    from prometheus_client.parser import text_string_to_metric_families

    status, headers, text = asked(served, "/metrics")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    found = {
        (s.name, *s.labels.values()): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    prefix = "fedglb_coordinator_"
    assert found[f"{prefix}updates_total",] == 2
    assert found[f"{prefix}bytes_total",] == 58_512
    assert found[f"{prefix}members_present",] == 2
    assert found[f"{prefix}client_samples", "shop-2"] == 20
    assert found[f"{prefix}events_total", "rejected"] == 1
    assert found["fedglb_alarm", "rejected"] == 1
    alarms = {key[1] for key in found if key[0] == "fedglb_alarm"}
    assert alarms == set(KINDS)
    assert sum(found["fedglb_alarm", name] for name in alarms) == 1


def test_health_is_that_of_the_coordinator(served, board):
    assert asked(served, "/healthz")[::2] == (200, "ok\n")
    board.latest = picture(time=time.time() - 3600.0)
    status, _, text = asked(served, "/healthz")
    assert (status, "no new status for 3600 s" in text) == (503, True)


def test_before_the_coordinator_has_said_anything(served, board):
    board.latest = None
    for path in ("/", "/status.json", "/metrics", "/healthz", "/events"):
        assert asked(served, path)[0] == 503


def test_only_the_parts_that_change_are_sent(served, board):
    with closing(http.client.HTTPConnection("127.0.0.1", served, timeout=PATIENCE)) as line:
        line.request("GET", "/events")
        answer = line.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        first = _parts(answer)
        assert first == sections(board.latest)
        members = board.latest.members
        fewer = msgspec.structs.replace(board.latest, members=members[:2])
        board.latest = fewer
        second = _parts(answer)
        assert {"totals", "members"} <= set(second)
        assert not {"updates", "events", "certificates"} & set(second)
        assert {**first, **second} == sections(fewer)


def _parts(answer: http.client.HTTPResponse) -> dict[str, str]:
    """The next message of a stream."""
    while not (line := answer.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line[6:])


def test_streams_end_when_the_server_does(board):
    with serving(board, Listen.parse("127.0.0.1:0")) as url:
        port = int(url.rstrip("/").rpartition(":")[2])
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        line.request("GET", "/events")
        answer = line.getresponse()
        _parts(answer)
    answer.read()  # to its end
    line.close()
    with pytest.raises(ConnectionRefusedError):
        asked(port)


def test_many_clients_make_a_page_of_a_bounded_size():
    text = sections(picture(clients=5000))
    assert text["members"].count("<tr") == 1001  # with the head
    assert "the first 1,000" in text["members-count"]
    assert text["samples-figure"].count("<g>") == 15
    assert len(list(coordinator_metrics(picture(clients=5000)))) > 10


def test_on_a_schedule_sample_counts_are_hidden():
    plain, replaced = picture(clients=5), msgspec.structs.replace
    timed = replaced(
        plain,
        schedule=ScheduleStatus(20, 3, 0.0, 60.0, None),
        totals=replaced(plain.totals, samples=None),
        members=tuple(replaced(m, samples=None, share=None) for m in plain.members),
        updates=tuple(replaced(u, samples=None) for u in plain.updates),
    )
    for figure in ("updates-figure", "samples-figure"):
        assert "<svg" in sections(plain)[figure]
        assert "Sample counts are hidden" in sections(timed)[figure]
    assert "of 20 updates done" in sections(timed)["totals"]
    assert sections(timed)["members"].count('samples">unknown<') == 5
    assert sections(timed)["updates"].count('samples">unknown<') == 2
    assert ": 3 clients, 2 rounds" in sections(timed)["duration-figure"]
    assert "%" not in sections(timed)["members"]
    names = [metric.name for metric in coordinator_metrics(timed) if metric.samples]
    assert not [name for name in names if "samples" in name]


def test_a_budget_is_spent_only_when_nothing_is_left_of_it():
    private = PrivacyStatus(
        1.0, 1e-6, "zero-out", 1, "silo", 1.1, 0.9999997, 25, 30, 1, (), ()
    )  # fmt: skip
    spent = sections(picture(privacy=private))["totals"]
    assert '<b id="total-epsilon">0.9999997</b><span>of ε = 1 spent</span>' in spent
    private = msgspec.structs.replace(private, spent=1.0 - 1e-13, releases=30)
    assert '<b id="total-epsilon">1</b>' in sections(picture(privacy=private))["totals"]


# -- who may see it --------------------------------------------------------------------------------


def test_every_request_passes_the_guard(served):
    """`test_refusals.py` has the guard's cases: both services have the same."""
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        for path in ("/", "/status.json", "/events", "/metrics", "/healthz"):
            status, found, text = asked(served, path, **headers)
            assert status == 403, (headers, path)
            assert found["content-type"] == "application/problem+json"
            assert "shop-" not in text
    assert asked(served, Host=f"[::1]:{served}")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert asked(served, "/", method)[0] == 405, method


def test_with_a_token_and_tls(board, tmp_path):
    token = "a-secret-of-many-letters"
    (tmp_path / "token").write_text(f"{token}\n")
    (tmp_path / "token").chmod(0o600)
    authority = Authority.new("demo")
    pair = tmp_path / "cert.pem", tmp_path / "key.pem"
    authority.issue("demo/page", ["127.0.0.1"], 5).write(*pair)
    context = ssl.create_default_context(cadata=authority.pem.decode())
    with serving(board, Listen.parse("127.0.0.1:0", tmp_path / "token", *pair)) as url:
        assert url.startswith("https://")

        def status(path: str = "/status.json", **headers: str) -> int:
            port = int(url.rstrip("/").rpartition(":")[2])
            made = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context)
            with closing(made) as line:
                line.request("GET", path, headers=headers)
                answer = line.getresponse()
                asks = answer.headers.get("www-authenticate", "")
                assert asks.startswith("Basic ") == (answer.status == 401)
                return answer.status

        basic = base64.b64encode(f"anybody:{token}".encode()).decode()
        for given in (f"Bearer {token}", f"Basic {basic}"):
            assert status(Authorization=given) == 200
        for given in ("Bearer wrong", "Basic !!", f"Basic {token}", token, "Bearer "):
            assert status(Authorization=given) == 401
        assert status("/") == 401
        assert status("/healthz") == 200  # it tells nothing else
        assert status("/healthz", Host="evil.example") == 403

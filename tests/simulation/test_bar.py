"""The bar: on a terminal, in a notebook, in a log; and callbacks, which stay what they were."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from rich.console import Console

import fedglb as fg
from fedglb.simulation import bar as bars

ENV = fg.Synthetic(fg.Problem(dim=3), clients=2, arms=3)
TABLES = {
    "name": "example", "horizon": 20, "seeds": 2,
    "problem": {"dim": 3}, "environment": {"clients": 2, "arms": 4},
    "algorithm": [{"name": "n-ons-glm"}],
}  # fmt: skip


class Notebook:
    """What IPython shows: one display, written anew again and again."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, data, raw, display_id):
        assert (raw, display_id) == (True, True)
        self.shown.append(data)
        return self

    def update(self, data, raw):
        assert raw
        self.shown.append(data)


@pytest.fixture
def notebook(monkeypatch):
    made = Notebook()
    module = ModuleType("IPython.display")
    module.display = made.display
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(Console, "is_jupyter", True, raising=False)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(bars, "_DRAW_EVERY", 0.0)
    return made


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_simulation_draws_a_bar_in_a_notebook(engine, notebook):
    fg.simulate(fg.n_ons_glm(), ENV, 20, engine=engine, progress=True)
    first, *_, last = notebook.shown
    assert first["text/plain"] == "N-ONS-GLM: begins"
    assert last["text/plain"] == "N-ONS-GLM: step 20/20"
    assert '<progress value="20" max="20"' in last["text/html"]
    assert "took 0:00:0" in last["text/html"]


@pytest.mark.slow
def test_a_sweep_draws_one_too(notebook, tmp_path):
    fg.sweep(TABLES, tmp_path / "results", jobs=1, progress=True)
    assert notebook.shown[-1]["text/plain"] == "example: 2/2 runs"
    assert '<progress value="80" max="80"' in notebook.shown[-1]["text/html"]


def test_algorithms_side_by_side_share_a_bar(notebook):
    fg.compare([fg.n_ons_glm(), fg.fedglb_auto()], ENV, 20, progress=True)
    assert notebook.shown[-1]["text/plain"] == "2 algorithms: step 20/20"


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(Console, "is_terminal", True)
    fg.simulate(fg.n_ons_glm(), ENV, 20, progress=True)
    assert "N-ONS-GLM" in capsys.readouterr().err


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    fg.simulate(fg.n_ons_glm(), ENV, 20, engine="reference", progress=True)
    assert capsys.readouterr().err == ""  # 30 seconds have not passed
    monkeypatch.setattr(bars, "LINE_EVERY", 0.0)
    fg.simulate(fg.n_ons_glm(), ENV, 3, engine="reference", progress=True)
    assert capsys.readouterr().err.splitlines() == [f"N-ONS-GLM: step {t}/3" for t in (1, 2, 3)]


def test_callbacks_and_none(tmp_path, capsys):
    for engine, expected in (("compiled", [20]), ("reference", list(range(1, 21)))):
        told: list[int] = []
        fg.simulate(fg.n_ons_glm(), ENV, 20, engine=engine, progress=told.append)
        assert told == expected
    statuses: list[object] = []
    fg.sweep(TABLES, tmp_path / "results", jobs=1, progress=statuses.append)
    assert statuses
    fg.simulate(fg.n_ons_glm(), ENV, 20, progress=False)
    fg.sweep(TABLES, tmp_path / "again", jobs=1, progress=False)
    assert capsys.readouterr() == ("", "")


def test_texts_are_no_markup():
    assert "<b>" not in bars.as_html("<b>", 1, 2, "<b>", 1.0)

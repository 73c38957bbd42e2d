"""What `import fedglb` loads, and what it leaves for later."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fedglb as fg


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def test_the_federation_is_loaded_with_the_first_agent():
    script = """
import sys
from pathlib import Path
import fedglb as fg

loaded = lambda: any(name.startswith("fedglb.federation") for name in sys.modules)
assert "Agent" in fg.__all__ and "Agent" in dir(fg)
assert not loaded()
fg.Agent
assert loaded()
"""
    done = python(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("script", "not_loaded"),
    [
        ("import fedglb", {"numpy", "numba", "polars", "sklearn", "scipy", "matplotlib", "joblib"}),
        (
            "import fedglb as fg; fg.Problem, fg.Synthetic, fg.Agent, fg.Client, fg.fedglb_auto",
            {"numba", "polars", "sklearn", "scipy", "matplotlib", "joblib", "nats"},
        ),
        ("import fedglb.studies.report", {"matplotlib"}),
        (
            "import fedglb.cli",
            {"numba", "polars", "rich", "sklearn", "scipy", "matplotlib", "joblib", "nats"},
        ),
    ],
)
def test_packages_are_imported_where_they_are_used(script, not_loaded):
    done = python(f"{script}\nimport sys\nprint(*{not_loaded!r} & sys.modules.keys())")
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def test_without_the_packages_of_the_federation_only_a_bundle_fails(tmp_path):
    script = f"""
import sys
sys.modules["nats"] = sys.modules["cryptography"] = None  # an import of these fails
import fedglb as fg

path, problem = {str(tmp_path / "shop.db")!r}, fg.Problem(dim=2)
with fg.Agent.open(path, problem) as agent:
    decision = agent.choose([[1.0, 0.0], [0.0, 1.0]])
    agent.observe(decision.id, 1.0)
    print(agent.export()["reward"].to_list())
try:
    fg.Agent.open(path, problem, bundle="shop")
except fg.InvalidInput as error:
    print(error)
"""
    done = python(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[1.0]\n")
    assert "install fedglb[federation]" in done.stdout


def test_every_public_name_is_there():
    assert len(set(fg.__all__)) == len(fg.__all__)
    for name in fg.__all__:
        assert getattr(fg, name) is not None
    assert set(fg.__all__) <= set(dir(fg))


def test_an_unknown_name_is_named():
    with pytest.raises(AttributeError, match="'fedglb' has no attribute 'Agnt'"):
        fg.Agnt  # noqa: B018


def test_no_public_name_hides_a_module():
    import fedglb.simulation.compiled
    import fedglb.studies.results.tables

    assert fedglb.simulation.compiled.CompiledEngine.name == "compiled"
    assert fedglb.simulation.simulate is fg.simulate
    assert fedglb.studies.sweep is fg.sweep


def test_every_folder_of_sources_is_a_package():
    """One without `__init__.py` works from a checkout, and may be missing from a wheel."""
    sources = Path(fg.__file__).parent
    folders = {path.parent for path in sources.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


def test_type_checkers_and_the_table_know_the_same_names():
    seen = {
        each.asname or each.name: (node.module, each.name)
        for node in ast.walk(ast.parse(Path(fg.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module.startswith("fedglb.")
        for each in node.names
    }
    assert set(seen) == set(fg.__all__)
    assert seen == {
        name: (module, fg._NAME_THERE.get(name, name)) for name, module in fg._HOMES.items()
    }

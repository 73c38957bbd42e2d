"""A sweep's identity: what can change a number changes it, and nothing else."""

from __future__ import annotations

import ast
import shutil

from fedglb.provenance import KERNELS, LEFT_OUT, NUMBERS, PACKAGE, counted, meaning_digest

MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


PARTS, PROGRESS = "studies/results/tables.py", "studies/run/progress.py"
EDITED = [PARTS, PROGRESS, "errors.py", "kernels/scoring.py", "parts/trigger.py"]


def copied(folder):
    """A copy of some of the package's sources, to be edited."""
    for module in EDITED:
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / module, folder / module)
    return folder


def edited(package, module: str, old: str, new: str) -> str:
    """Return the digest after an edit, which is taken back."""
    path = package / module
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new, 1))
    meaning_digest.cache_clear()
    try:
        return meaning_digest(package)
    finally:
        path.write_text(before)


def test_what_a_reader_alone_sees_and_where_sources_are_is_no_other_sweep(tmp_path):
    copy = copied(tmp_path / "one")
    ours = meaning_digest(copy)
    assert ours == meaning_digest(copied(tmp_path / "two"))
    docstring = ast.get_docstring(ast.parse((copy / PARTS).read_text()), clean=False)
    assert docstring is not None
    assert edited(copy, PARTS, docstring, "Other words.") == ours
    assert edited(copy, PARTS, "import io\n", "import io  # for Parquet\n\n") == ours
    assert edited(copy, PARTS, '    """Return the frame as a Parquet file."""\n', "") == ours
    assert edited(copy, "errors.py", "expected", "not") == ours
    assert edited(copy, PROGRESS, "import", "import json\nimport") == ours


def test_what_changes_a_number_is_another_sweep(tmp_path):
    copy = copied(tmp_path)
    ours = meaning_digest(copy)
    assert edited(copy, PARTS, "TRACE_POINTS = 500", "TRACE_POINTS = 501") != ours
    assert edited(copy, "kernels/scoring.py", "TIE = 1e-12", "TIE = 1e-11") != ours
    assert edited(copy, "parts/trigger.py", "class Never", "class NeverEver") != ours
    (copy / "kernels" / "another.py").write_text("X = 1\n")
    meaning_digest.cache_clear()
    assert meaning_digest(copy) != ours


def test_every_module_is_in_or_out_by_decision():
    for module in MODULES:
        places = [p for p in (*NUMBERS, *LEFT_OUT) if module == p or module.startswith(f"{p}/")]
        assert len(places) == 1, module


def test_what_counts_uses_nothing_that_does_not_but_checks_files_and_types():
    """A number cannot depend on a module that nothing which counts imports."""
    used = set()
    for source in counted():
        for node in ast.walk(ast.parse(source.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            used |= {name for name in names if name.split(".")[0] == "fedglb"}
    modules = {name.removeprefix("fedglb").lstrip(".").replace(".", "/") for name in used}
    left_out = {place.removesuffix(".py") for place in LEFT_OUT}
    found = {m for m in modules for place in left_out if m == place or m.startswith(f"{place}/")}
    assert found <= {"errors", "typing", "provenance", "io/atomic", "io/toml", "studies/run/sweep"}


def kernels_of(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the functions of a module that numba compiles: kernels, and a link's scalar ones."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    marks = [{ast.unparse(each) for each in node.decorator_list} for node in functions]
    return [
        node
        for node, found in zip(functions, marks, strict=True)
        if found & {"kernel", "inlined_kernel"}
        or (node.name.startswith("scalar_") and "staticmethod" in found)
    ]


def names_from_outside(function: ast.FunctionDef) -> set[str]:
    nodes = [node for line in function.body for node in ast.walk(line)]
    return {node.id for node in nodes if isinstance(node, ast.Name)} - {
        argument.arg for argument in function.args.args
    }


def test_what_kernels_are_made_of_is_in_the_digest_of_their_folder():
    """Else an edit would leave machine code of older sources in use."""
    for module in MODULES:
        tree = ast.parse((PACKAGE / module).read_text())
        kernels = kernels_of(tree)
        if not kernels:
            continue
        assert module in KERNELS or module.partition("/")[0] in KERNELS, module
        rooms = {
            alias.asname or alias.name: node.module.split(".")[1]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fedglb.")
            for alias in node.names
        }
        for kernel in kernels:
            used = names_from_outside(kernel) & rooms.keys()
            assert {rooms[name] for name in used} <= {*KERNELS}, (module, kernel.name)

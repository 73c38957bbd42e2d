"""`fedglb agent` with a schema: records in a file become samples, all of them or none."""

from __future__ import annotations

import json
import time

import polars as pl
import pytest

import fedglb as fg
from fedglb.cli import progress
from tests.cli import in_process
from tests.federation.helpers.agent_driver import state
from tests.federation.helpers.json_processes import Service

FEATURES = fg.Features(
    context={"country": fg.Category(["DE", "FR"])},
    arm={"category": fg.Category(["shoes", "books"]), "price": fg.Number([5, 50])},
    crosses=[("context.country", "arm.category")],
)
ROWS = [
    {"context": {"country": "DE"}, "arm": {"category": "shoes", "price": 9.5}, "reward": 1},
    {"context": {"country": "FR"}, "arm": {"category": "books", "price": None}, "reward": 0},
    {"context": {"country": None}, "arm": {"category": "books", "price": 7.0}, "reward": None},
    {"context": {"country": "FR"}, "arm": {"category": "toys", "price": 70.0}, "reward": 1.0},
]
KEPT = [row for row in ROWS if row["reward"] is not None]


def agent(*arguments) -> tuple[int, str, str]:
    out = in_process.agent(*arguments)
    return out.returncode, out.stdout, out.stderr


@pytest.fixture
def schema(tmp_path):
    (tmp_path / "features.toml").write_text(FEATURES.to_toml())
    return tmp_path / "features.toml"


def lines(path, rows):
    path.write_text(
        "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows)
    )
    return path


def in_structs(path, rows):
    pl.DataFrame(rows).write_parquet(path)
    return path


def in_columns(path, rows):
    flat = [
        {
            f"{side}.{name}": value
            for side in ("context", "arm")
            for name, value in row[side].items()
        }
        | {name: row[name] for name in ("reward", "id") if name in row}
        for row in rows
    ]
    pl.DataFrame(flat).write_parquet(path)
    return path


def absorbed(tmp_path, rows=KEPT, ids=None):
    """The state of an agent that absorbed these rows."""
    with fg.Agent.open(tmp_path / "twin.db", features=FEATURES) as twin:
        arms, contexts = [row["arm"] for row in rows], [row["context"] for row in rows]
        twin.absorb(arms, [row["reward"] for row in rows], contexts=contexts, ids=ids)
        return state(twin)


@pytest.mark.parametrize("write", [lines, in_structs, in_columns])
@pytest.mark.parametrize("ids", [None, ["a", "b", "-", "a"]])
def test_records_become_samples(tmp_path, schema, write, ids):
    rows = ROWS if ids is None else [{**r, "id": i} for r, i in zip(ROWS, ids, strict=True)]
    file = write(tmp_path / "past", rows)
    command = ("import", file, "--into", tmp_path / "a.db", "--features", schema)
    code, out, errors = agent(*command, "--json")
    assert (code, errors) == (0, ""), errors
    answer = json.loads(out)
    assert (answer["absorbed"], answer["left_out"], answer["samples"]) == (3, 1, 3)
    assert answer["ignored"] == 0
    code, out, _ = agent(*command)
    assert (code, "was imported before" in out) == (0, True)
    wanted = absorbed(tmp_path, ids=None if ids is None else ["a", "b", "a"])
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as warm:
        assert state(warm) == wanted
        kept = [json.loads(each) for each in warm.export()["record"]]
        assert [each["arm"] for each in kept] == [row["arm"] for row in KEPT]


@pytest.mark.parametrize("write", [lines, in_structs])
def test_subjects_are_imported(tmp_path, schema, write):
    rows = [
        {**row, "subject": who} for row, who in zip(ROWS, ["ann", "bob", "ann", None], strict=True)
    ]
    file = write(tmp_path / "past", rows)
    assert agent("import", file, "--into", tmp_path / "a.db", "--features", schema)[0] == 0
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as warm:
        assert warm.forget(subject="bob") == 1
        assert warm.forget(subject="ann") == 1
        assert warm.status.samples == 1


def test_lines_with_less_and_with_more(tmp_path, schema):
    rows = [{"arm": {"price": 3, "colour": "red"}, "click": 1, "at": "noon"}, "\n", {"arm": {}}]
    file = lines(tmp_path / "past.ndjson", rows)
    code, out, _ = agent(
        "import", file, "--into", tmp_path / "a.db", "--features", schema, "--reward", "click"
    )
    assert code == 0
    assert "1 samples imported (1 rows without" in out
    assert "1 fields that the schema does not have were ignored" in out


def test_what_an_agent_with_a_schema_exports_another_one_imports(tmp_path, schema):
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as one:
        for row in KEPT:
            made = one.choose([row["arm"]], ["it"], context=row["context"])
            one.observe(made.id, row["reward"])
        one.choose([{}])
        one.export().write_parquet(tmp_path / "log.parquet")
    code, out, errors = agent(
        "import", tmp_path / "log.parquet", "--into", tmp_path / "b.db", "--features", schema
    )
    assert (code, errors) == (0, "")
    assert "3 samples imported (1 rows without" in out
    wanted = absorbed(tmp_path, ids=["it"] * 3)
    with fg.Agent.open(tmp_path / "b.db", features=FEATURES) as two:
        assert state(two) == wanted
        two.export().write_parquet(tmp_path / "again.parquet")  # of imported samples
    code, _, errors = agent(
        "import", tmp_path / "again.parquet", "--into", tmp_path / "c.db", "--features", schema
    )
    assert (code, errors) == (0, "")
    with fg.Agent.open(tmp_path / "c.db", features=FEATURES) as three:
        assert state(three) == wanted


def test_vectors_are_still_vectors_where_there_is_a_schema(tmp_path, schema):
    X = FEATURES.encode_rows([r["arm"] for r in KEPT], [r["context"] for r in KEPT])
    pl.DataFrame({"v": X.tolist(), "reward": [1.0, 0.0, 1.0]}).write_parquet(tmp_path / "v")
    command = ("import", tmp_path / "v", "--into", tmp_path / "a.db", "--features", schema)
    assert agent(*command, "--columns", "v")[0] == 0
    code, _, errors = agent(*command)
    assert (code, "a column arm of structs, or columns arm.NAME; it has v" in errors) == (2, True)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"arm": {"price": "cheap"}, "reward": 1},
            "line 5: arm.price = 'cheap': expected a number",
        ),
        ({"context": {"country": 3}, "arm": {}, "reward": 1}, "line 5: context.country = 3"),
        ({"context": [], "arm": {}, "reward": 1}, "line 5: context = []"),
        ({"arm": [1.0, 2.0], "reward": 1}, "line 5: arm = [1.0, 2.0]"),
        ({"reward": 1}, "line 5: arm = None: expected a record"),
        ({"arm": {}, "reward": 2}, "line 5: reward = 2.0: expected"),
        ({"arm": {}, "reward": "1"}, "line 5: reward = '1': expected a finite number"),
        ({"arm": {}, "reward": True}, "line 5: reward = True"),
        ({"arm": {}, "reward": 1, "id": 1.5}, "line 5: id = 1.5: expected a string"),
        ({"arm": {}, "reward": 1, "subject": 7}, "line 5: subject = 7: expected a string"),
        ({"arm": {}, "reward": 1, "id": "x" * 201}, f"line 5: id = '{'x' * 60} …': expected"),
        ({"arm": {}, "reward": 1, "id": "x"}, "line 1: id = None: expected the arm's id"),
        ('{"arm": {"price": NaN}, "reward": 1}\n', "line 5 = "),
        ('{"arm": {}, "reward": 1, "reward": 0}\n', "line 5 = '{"),
        ('{"arm": {"price": 1, "price": 2}, "reward": 1, "at": "12:00"}\n', "line 5 = '{"),
        ('{"arm": \n', "line 5 = '{\"arm\":': expected a JSON object"),
        ("[1, 2]\n", "line 5 = [1, 2]: expected a JSON object"),
        ('{"arm": ' + "[" * 5000 + "\n", "line 5 = "),
    ],
)
def test_one_wrong_line_and_nothing_is_imported(tmp_path, schema, row, said):
    file = lines(tmp_path / "past.ndjson", [*ROWS, row, *ROWS])
    code, _, errors = agent("import", file, "--into", tmp_path / "a.db", "--features", schema)
    assert code == 2
    assert f"past.ndjson: {said}" in errors
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as found:
        assert found.status.samples == 0


def test_one_wrong_row_of_a_table_is_named(tmp_path, schema):
    rows = [*ROWS, {"context": {"country": "DE"}, "arm": {"category": "x", "price": float("nan")},
                    "reward": 1.0}]  # fmt: skip
    for write in (in_structs, in_columns):
        code, _, errors = agent(
            "import", write(tmp_path / "past", rows), "--into", tmp_path / "a.db",
            "--features", schema,
        )  # fmt: skip
        assert (code, "past: row 5: arm.price = nan" in errors) == (2, True), errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--dim", 3), "--dim and --features exclude each other"),
        (("--bundle", "shop"), "--features and --bundle exclude each other"),
        (("--reward", "rewrad"), "at least one reward"),
    ],
)
def test_options_that_do_not_go_together(tmp_path, schema, options, said):
    file = lines(tmp_path / "past.ndjson", ROWS)
    command = ("import", file, "--into", tmp_path / "a.db", "--features", schema)
    code, _, errors = agent(*command, *options)
    assert (code, said in errors) == (2, True), errors
    assert not (tmp_path / "a.db").exists()


def test_files_that_are_none(tmp_path, schema):
    into = ("--into", tmp_path / "a.db")
    code, _, errors = agent("import", tmp_path / "no", *into, "--features", schema)
    assert (code, "a readable file" in errors) == (2, True)
    file = lines(tmp_path / "past.ndjson", ROWS)
    code, _, errors = agent("import", file, *into, "--features", tmp_path / "no.toml")
    assert (code, "--features = " in errors) == (2, True), errors
    (tmp_path / "bad.toml").write_text(FEATURES.to_toml().replace('"number"', '"numbr"'))
    code, _, errors = agent("import", file, *into, "--features", tmp_path / "bad.toml")
    assert (code, "bad.toml: arm.price.kind = 'numbr'" in errors) == (2, True), errors


def test_work_that_takes_long_says_how_far_it_is(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SLOW", 0.01)
    monkeypatch.setattr(progress, "_SAY_EVERY", 0.01)
    said = []
    monkeypatch.setattr(progress, "say", said.append)
    with progress.explain_delay(lambda: f"line {len(said)}"):
        while len(said) < 3:
            time.sleep(0.01)
    assert said[:3] == ["line 0", "line 1", "line 2"]


# -- serve -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--dim or --features is required without --bundle"),
        (("--features", "F", "--dim", 3), "--dim and --features exclude each other"),
        (("--features", "F", "--bundle", "shop"), "--features and --bundle exclude each other"),
        (("--dim", 3, "--bundle", "shop"), "--dim and --bundle exclude each other"),
        (("--features", "F", "--without-records", "keep"), "--without-records = 'keep'"),
        (("--features", "no.toml"), "--features = 'no.toml'"),
    ],
)
def test_a_service_that_does_not_start(tmp_path, schema, options, said):
    given = [schema if each == "F" else each for each in options]
    code, _, errors = agent("serve", tmp_path / "a.db", *given)
    assert (code, said in errors) == (2, True), errors
    assert not (tmp_path / "a.db").exists()


def test_a_service_with_a_schema(tmp_path, schema):
    options = (tmp_path / "a.db", "--features", schema, "--http", "127.0.0.1:0")
    asked = {"arms": [{"price": 3}, {"price": 30}], "ids": ["a", "b"], "context": {"country": "DE"}}
    strict = Service(*options, "--strict")
    with strict as running, fg.AgentClient(running.url) as client:
        decision = client.choose(**asked, exclude=["a"])
        assert decision.arm_id == "b"
        client.observe(decision.id, 1.0)
        assert client.explain(decision.id).played.arm_id == "b"
        assert [w.feature for w in client.model().weights] == list(FEATURES.names)
        assert [arm.arm_id for arm in client.preview(**asked)] == ["a", "b"]
        with pytest.raises(fg.InvalidInput, match=r"arms\[0\].price = 'x'"):
            client.choose([{"price": "x"}])
        with pytest.raises(fg.InvalidInput, match=r"arms\[0\].colour = 'red'"):
            client.choose([{"colour": "red"}])
        assert running.stop() == 0
    other = fg.Features(arm={"price": fg.Number([5, 50])})
    schema.write_text(other.to_toml())
    with Service(*options) as running, fg.AgentClient(running.url) as client:  # encoded again
        assert client.status.samples == 1
        assert len(client.model().weights) == other.dim
        assert running.stop() == 0


def test_vectors_are_dropped_by_another_schema_if_the_owner_says_so(tmp_path, schema):
    with fg.Agent.open(tmp_path / "a.db", features=FEATURES) as one:
        one.absorb(FEATURES.encode([{}, {}]), [1.0, 0.0])
    schema.write_text(fg.Features(arm={"price": fg.Number([5, 50])}).to_toml())
    options = (tmp_path / "a.db", "--features", schema, "--http", "127.0.0.1:0")
    assert in_process.agent("serve", *options).returncode != 0
    dropped = Service(*options, "--without-records", "drop")
    with dropped as running, fg.AgentClient(running.url) as client:
        assert client.status.samples == 0
        assert running.stop() == 0


def test_a_federation_brings_its_schema(tmp_path, schema):
    made = in_process.federation(
        "init", tmp_path / "f", "--name", "demo", "--features", schema, "--clients", "shop-1"
    )
    assert made.returncode == 0, made.stderr
    bundle = tmp_path / "f" / "clients" / "shop-1"
    file = lines(tmp_path / "past.ndjson", ROWS)
    code, _, errors = agent("import", file, "--into", tmp_path / "a.db", "--bundle", bundle)
    assert (code, errors) == (0, "")
    options = (tmp_path / "a.db", "--bundle", bundle, "--http", "127.0.0.1:0")
    with Service(*options) as running, fg.AgentClient(running.url) as client:
        assert client.status.samples == 3
        client.choose([{"price": 3}], context={"country": "DE"})
        assert client.export()["record"][-1] == '{"arm":{"price":3},"context":{"country":"DE"}}'
        assert running.stop() == 0

"""`fedglb features` as a user meets it."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest

import fedglb as fg
from fedglb.cli import features as command
from tests.cli.in_process import fedglb

SCHEMA = fg.Features(
    context={"country": fg.Category(["de", "fr"]), "age": fg.Number([18, 65])},
    arm={"kind": fg.Category(buckets=4), "tags": fg.Tags(["new"], weight=2.0)},
    crosses=[("context.country", "arm.kind"), ("arm.kind", "arm.tags")],
    budget=16,
)


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "features.toml"
    path.write_text(SCHEMA.to_toml())
    return path


def show(*arguments):
    return fedglb("features", "show", *arguments)


def infer(*arguments):
    return fedglb("features", "infer", *arguments)


def written(path, records):
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def cells(text):
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]


# -- show --------------------------------------------------------------------------------------


def test_a_schema_as_a_table(schema):
    out = show(schema)
    assert (out.returncode, out.stderr) == (0, "")
    rows = [row for row in cells(out.stdout) if row]
    assert rows == [
        ["context.country", "category", "4", "1"],
        ["context.age", "number", "3", "1"],
        ["arm.kind", "category", "5", "1"],
        ["arm.tags", "set", "3", "2"],
        ["context.country * arm.kind", "hashed cross", "16", "1"],
        ["arm.kind * arm.tags", "direct cross", "15", "1"],
    ]
    assert SCHEMA.dim == 1 + 5 + 3 + 16 + 15
    assert "d = 40 features" in out.stdout
    assert "Without effect, because in no cross: context.age\n" in out.stdout
    assert "1,400" not in out.stdout


def test_a_schema_as_json(schema):
    answer = json.loads(show(schema, "--json").stdout)
    assert (answer["dim"], answer["digest"]) == (40, SCHEMA.digest)
    assert answer["without_effect"] == ["context.age"]
    assert answer["fields"][3] == {"name": "arm.tags", "kind": "set", "places": 3, "weight": 2.0}
    assert [cross["kind"] for cross in answer["crosses"]] == ["hashed cross", "direct cross"]
    assert "names" not in answer
    with_names = json.loads(show(schema, "--names", "--json").stdout)
    assert with_names == {**answer, "names": list(SCHEMA.names)}


def test_the_names_of_features(schema):
    out = show(schema, "--names")
    rows = [line.split(maxsplit=1) for line in out.stdout.splitlines()]
    assert [(int(place), name) for place, name in rows] == list(enumerate(SCHEMA.names))


@pytest.mark.parametrize(("buckets", "said"), [(298, False), (299, True)])
def test_what_many_features_cost(tmp_path, buckets, said):
    path = tmp_path / "large.toml"
    schema = fg.Features(arm={"kind": fg.Category(buckets=buckets)})
    path.write_text(schema.to_toml())
    out = show(path).stdout
    assert f"d = {buckets + 2} features" in out
    assert ("d is above 300" in out) == said
    if said:
        for part in ("K·90,601", "45,300 numbers", "1,400", "745 with 1,024 effects"):
            assert part in out


def test_a_file_that_is_no_schema(tmp_path):
    out = show(tmp_path / "none.toml")
    assert out.returncode == 2
    assert out.stderr.startswith("fedglb: FILE = ")
    path = tmp_path / "x.toml"
    path.write_text('version = 1\n[arm.kind]\nkind = "categry"\n')
    out = show(path)
    assert out.returncode == 2
    assert out.stderr.startswith(f"fedglb: {path}: arm.kind.kind = 'categry'")
    assert "did you mean category" in out.stderr
    assert out.stdout == ""


# -- infer -------------------------------------------------------------------------------------

LOG = [
    {
        "context": {"country": ["de", "fr"][k % 2], "age": 20 + k % 3, "user": f"u{k}", "shop": 7},
        "arms": [{"kind": "shoes", "price": 1.5 * k}, {"kind": "books\n", "price": None}],
        "reward": 1,
    }
    for k in range(40)
]


def test_a_proposal_is_a_schema_with_comments(tmp_path):
    path = written(tmp_path / "log.ndjson", LOG)
    out = infer(path, "--cross", "context.country,arm.kind", "--cross", "arm.price,arm.kind")
    assert out.returncode == 0, out.stderr
    crosses = [("context.country", "arm.kind"), ("arm.price", "arm.kind")]
    proposed = fg.Features.from_toml(out.stdout)
    assert proposed == fg.Features.infer(LOG, crosses=crosses)
    assert (list(proposed.context), list(proposed.arm)) == (["country", "age"], ["kind", "price"])
    for part in (
        '[context.country]\n# 2 texts: "de" 20, "fr" 20\nkind = "category"\n',
        "[context.age]\n# 3 values, each a knot\n",
        '[arm.kind]\n# 2 texts: "books\\n" 40, "shoes" 40\n',
        "[arm.price]\n# 40 values from 0 to 58.5; missing in 40 of 80\n",
        "# context.user: 40 different texts in 40, none of them frequent\n",
        "# context.shop: it is always 7\n",
    ):
        assert part in out.stdout
    for part in (
        "left out: context.user: 40 different texts",
        "left out: context.shop: it is always 7",
        "without effect until crossed with a field of the arm: context.age\n",
        f"d = {proposed.dim}",
    ):
        assert part in out.stderr
    path = tmp_path / "features.toml"
    path.write_text(out.stdout)
    assert json.loads(show(path, "--json").stdout)["digest"] == proposed.digest


def test_fields_with_odd_names_keep_their_comments(tmp_path):
    odd = ["[arm.z]\x7f", "\n[arm.z]"]
    arms = [{"ein Preis": k, "a.b": "xy"[k % 2], "é\x7f": odd[k % 2], "u\nv": 1} for k in range(9)]
    out = infer(written(tmp_path / "log.ndjson", [{"arm": arm} for arm in arms]))
    assert out.returncode == 0, out.stderr
    assert list(fg.Features.from_toml(out.stdout).arm) == ["ein Preis", "a.b", "é\x7f"]
    assert '[arm."ein Preis"]\n# 9 values from 0 to 8; whole numbers' in out.stdout
    assert "# arm.u?v: it is always 1\n" in out.stdout
    assert '[arm."a.b"]\n# 2 texts: "x" 5, "y" 4\n' in out.stdout


def test_parquet_with_records_or_with_columns(tmp_path):
    expected = fg.Features.infer(LOG)
    nested = tmp_path / "nested.parquet"
    pl.DataFrame(LOG).write_parquet(nested)
    assert fg.Features.from_toml(infer(nested).stdout) == expected
    rows = [
        {f"context.{n}": v for n, v in each["context"].items()}
        | {f"arm.{n}": v for n, v in arm.items()}
        | {"reward": each["reward"]}
        for each in LOG
        for arm in each["arms"]
    ]
    flat = tmp_path / "flat.PARQUET"
    pl.DataFrame(rows).write_parquet(flat)
    found = fg.Features.from_toml(infer(flat).stdout)
    assert (found.context, found.arm) == (expected.context, expected.arm)


GOOD = '{"arm": {"kind": "a"}}\n\n{"arm": {"kind": "b"}}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD + '{"arm": {"kind": \n', 'line 4 = \'{"arm": {"kind":\': expected a JSON object'),
        (GOOD + "\xff\xfe\n", "line 4 = "),
        (GOOD + '{"arm": {"kind": NaN}}\n', "line 4 = "),
        (GOOD + '{"arm": ' + "[" * 5000 + "\n", "line 4 = "),
        (GOOD + "3\n", 'line 4 = 3: expected a record with "arm" or "arms"'),
        (GOOD + '{"context": {}}\n', "line 4 = {'context': {}}: expected a record with"),
        (GOOD + '{"arm": [0.5, 1]}\n', "line 4.arm = [0.5, 1]: expected a record: fields by name"),
        (GOOD + '{"arm": {"kind": 3}}\n', "arm.kind = [3, 'a']: expected values of one kind"),
        (GOOD + '{"arm": {"kind": {"a": 1}}}\n', "arm.kind = {'a': 1}: expected text, numbers"),
        ("", "records = 'no field of an arm': expected"),
        ('{"arm": {"kind": "a"}}\n', "records = 'arm.kind: it is always \"a\"': expected"),
    ],
)
def test_a_log_that_is_none(tmp_path, content, said):
    path = tmp_path / "log.ndjson"
    path.write_bytes(content.encode("latin-1"))
    out = infer(path)
    assert (out.returncode, out.stdout) == (2, "")
    assert out.stderr.startswith(f"fedglb: {path}: {said}")
    assert len(out.stderr.splitlines()) == 1


def test_files_that_cannot_be_read(tmp_path):
    out = infer(tmp_path / "none.ndjson")
    assert (out.returncode, out.stdout) == (1, "")
    assert out.stderr == f"fedglb: {tmp_path / 'none.ndjson'}: No such file or directory\n"
    path = tmp_path / "x.parquet"
    path.write_text("abc")
    out = infer(path)
    assert (out.returncode, out.stdout) == (2, "")
    assert out.stderr.startswith(f"fedglb: LOG = '{path}': expected a Parquet file")


@pytest.mark.parametrize(
    ("cross", "said"),
    [
        (
            "context.contry,arm.kind",
            "'context.contry': expected one of .*did you mean context.coun",
        ),
        ("context.user,arm.kind", "'context.user': .*it is left out: 40 different texts in 40"),
        ("context.country", "'context.country': expected two fields: context.country,arm.categ"),
        ("a,b,c", "'a,b,c': expected two fields"),
        ("arm.kind,arm.kind", ".*expected two different fields"),
        ("context.age,context.country", ".*at least one field of the arm"),
    ],
)
def test_a_cross_that_is_none(tmp_path, cross, said):
    out = infer(written(tmp_path / "log.ndjson", LOG), "--cross", cross)
    assert (out.returncode, out.stdout) == (2, "")
    (line,) = out.stderr.splitlines()
    assert re.match(f"fedglb: --cross = {said}", line), line


def test_progress_where_it_takes_long(tmp_path, monkeypatch):
    path = written(tmp_path / "log.ndjson", [{"arm": {"k": k % 2}} for k in range(20_000)])
    monkeypatch.setattr(command, "_QUIET", 0.0)
    assert "10,000 lines read\n20,000 lines read\n" in infer(path).stderr
    monkeypatch.setattr(command, "_QUIET", 1e9)
    assert "lines read" not in infer(path).stderr

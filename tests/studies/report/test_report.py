"""The files: figures that can be opened, a page that needs nothing else."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from fedglb.errors import InvalidInput
from fedglb.studies.report import write_report
from fedglb.studies.report.figures import over_time
from fedglb.studies.report.figures.tradeoff import ranges
from fedglb.studies.report.numerals import setting
from tests.studies.report.made_study import config, good, numbers, papers, study

VOID = {"source", "meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.loaded, self.text, self.alts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loaded += [v for k, v in attrs if k in ("src", "href", "srcset", "data", "action")]
        self.alts += [dict(attrs).get("alt")] if tag == "img" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def texts(svg: Path) -> list[str]:
    found = ET.fromstring(svg.read_bytes()).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(t.itertext()).strip() for t in found]


def written(folder, *configs, **more):
    report = write_report(study(*configs, **more), folder)
    page = Page(report.page.read_text(encoding="utf-8"))
    for path in report.figures:
        assert path.stat().st_size > 5000
        if path.suffix == ".png":
            image = Image.open(path)
            image.load()
            assert np.asarray(image.convert("L")).std() > 5  # something is drawn
    json.loads(report.summary.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    return report, page


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    baselines = pl.DataFrame(
        {"name": ["random play", "best-fitting probit model"] * 2, "seed": [1, 1, 2, 2],
         "regret": [750.0, 0.5, 770.0, 1.5], "reward": [123.0, 2.0, 125.0, 3.0]}
    )  # fmt: skip
    choice = {
        "rule": "least & <i>best</i>", "seeds": [8, 9], "horizon": 50, "candidates": 12,
        "chosen": {"ridge": 0.25, "alpha": None},
        "algorithms": [{"label": "FedGLB <x>", "regret_at_chosen": 12.5, "regret_at_own_best": 11.5,
                        "own_best": {"ridge": 2.0, "alpha": None}},
                       {"label": "fedglb-ucb D=3"}],
        "not_searched": ["N-ONS <y>", "other", "n-ucb-glm"],
    }  # fmt: skip
    configs = [*good(), config("fedglb-ucb-3", 40, [900.0, 950.0], updates=4, label="x <b>& y",
                               caveats=["a < b & c"])]  # fmt: skip
    folder = tmp_path_factory.mktemp("whole")
    with papers():
        return written(
            folder, *configs, title="A <b>& title", baselines=baselines, choice=choice,
            data={"dataset": "D<&", "sha256": "feed"}, profile="quick",
            full={"command": "fedglb reproduce made --full", "seeds": 30, "horizon": 2000,
                  "clients": 200, "configurations": 46},
        )  # fmt: skip


@pytest.mark.usefixtures("no_figures")
def test_a_look_has_no_interval_and_no_verdict(tmp_path):
    few = [{**c, "regrets": c["regrets"][:2]} for c in good()]
    report = write_report(study(*few, profile="full"), tmp_path)
    text = "".join(Page(report.page.read_text(encoding="utf-8")).text)
    assert "With fewer than 5 seeds there are no intervals and no verdicts." in text
    assert report.headline.startswith("2 seeds, too few to judge: FedGLB-UCB (D=")
    html = report.page.read_text(encoding="utf-8")
    verdicts = re.findall(r'<span class="verdict (\w+)">([^<]*)</span>', html)
    assert len(verdicts) == 6
    assert set(verdicts) == {("open", "– too few seeds to judge")}
    for word in ("95 % interval", "±", "A run is stuck"):
        assert word not in text, word
    more = write_report(study(*good(), profile="full"), tmp_path / "more")
    assert "With fewer than" not in more.page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_claims_of_this_package_are_apart(tmp_path):
    auto = config("fedglb-auto", 50, [90.0, 92.0], threshold=0.1)
    _, page = written(tmp_path, *good(), auto)
    text = "".join(page.text)
    papers, ours = text.index("The paper’s claims"), text.index("Claims of this package")
    assert papers < text.index("less regret than its three variants") < ours
    assert ours < text.index("FedGLB-Auto’s regret is comparable to that of One-UCB-GLM")


@pytest.mark.slow
def test_ones_own_sweep_has_a_figure_of_its_parameters(tmp_path):
    made = [config("fedglb-ucb", 10 * i, [50.0 / i, 60.0 / i], threshold=1.0, exploration=float(i),
                   label=f"FedGLB-UCB D=1 exploration={i}") for i in range(1, 5)]  # fmt: skip
    report, page = written(tmp_path, *made, own=True)
    assert page.tags.count("figure") == 3
    found = texts(tmp_path / "figures" / "parameters.svg")
    assert "exploration" in found
    over = texts(tmp_path / "figures" / "over-time.svg")
    for i in range(1, 5):  # one curve per setting
        assert f"FedGLB-UCB (exploration={i})" in over
    assert "exploration" in report.headline


def test_files_and_what_the_first_line_says(whole):
    report, page = whole
    folder = report.page.parent
    names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    kinds = ("-column.pdf", "-column.svg", "-page.pdf", "-page.svg", ".png", ".svg")
    figures = [f"figures/{name}{kind}" for name in ("over-time", "parameters", "tradeoff")
               for kind in kinds]  # fmt: skip
    assert names == [*figures, "report.html", "summary.json", "table.md", "table.tex"]
    summary = json.loads(report.summary.read_text())
    assert summary["headline"] == report.headline
    assert len(summary["table"]) == 16
    verdicts = [c["verdict"] for c in summary["claims"]]
    assert (verdicts.count("holds"), verdicts.count("not decided")) == (5, 1)
    text = " ".join("".join(page.text).split())
    assert text[text.index("This is") :].startswith(
        "This is a quick look: 6 seeds, 80 steps, 4 clients, 16 configurations. The full study has "
        "30 seeds, 2,000 steps, 200 clients, 46 configurations: fedglb reproduce made --full. "
        "fedglb report · made · quick"
    )


def test_what_the_data_do_not_decide_is_a_tie(tmp_path):
    base = [30.0, 7.0, 100.0, 55.0, 2.0, 80.0]
    gaps = {"a": (0, 0, 0, 0, 0, 0), "b": (1, -1, 2, -2, 1, 0.4), "c": (9, 12, 10, 11, 10, 8)}
    made = [config(name, 10, [x + y for x, y in zip(base, gap, strict=True)], label=name)
            for name, gap in gaps.items()]  # fmt: skip
    report, page = written(tmp_path / "tie", *made, own=True)
    assert report.headline == (
        "Not decided: a has the least mean regret of 3 settings, 45.7 ± 16.2, with 10 transfers, "
        "but 1 other is not told apart from it: b has 45.9 ± 16.4, a paired difference of 0.2 "
        "[−1.9, 2.4] (paired t, 6 seeds, corrected for all 3 pairs)."
    )
    text = " ".join("".join(page.text).split())
    for part in (
        "above best, 95 %", "0.2 [−1.9, 2.4]undecided", "10.0 [8.0, 12.0]higher",
        "Corrected for 3 comparisons", "a was chosen as the best of 3 on these seeds",
    ):  # fmt: skip
        assert part in text, part
    assert report.page.read_text(encoding="utf-8").count('<tr class="best">') == 2
    rows = json.loads(report.summary.read_text())["comparison"]["rows"]
    assert [row["verdict"] for row in rows] == [None, "undecided", "higher"]
    markdown, latex = (path.read_text(encoding="utf-8") for path in report.tables)
    assert "| **b**   |" in markdown
    assert "| c       |" in markdown
    assert r"\textbf{b} & \textbf{6} &" in latex

    report, _ = written(tmp_path / "sure", made[0], made[2], own=True)
    assert report.headline == (
        "a has the least mean regret of 2 settings, 45.7 ± 16.2, with 10 transfers. The next, c, "
        "has 10.0 [8.5, 11.5] more (paired t, 6 seeds)."
    )


def test_page_needs_nothing_else(whole):
    report, page = whole
    assert page.loaded
    assert all(v.startswith("data:image/svg+xml;base64,") for v in page.loaded)
    text = report.page.read_text()
    assert "script" not in page.tags
    assert not re.search(r"url\(|@import", text)
    assert page.tags.count("figure") == page.tags.count("picture") == 3
    assert page.tags.count("source") == 9  # narrow, dark, and both; the img is wide and light
    for media in ("(max-width: 640px) and (prefers-color-scheme: dark)", "(max-width: 640px)",
                  "(prefers-color-scheme: dark)"):  # fmt: skip
        assert text.count(f'<source media="{media}"') == 3
    assert len(set(page.alts)) == 3
    assert all(len(alt or "") > 20 for alt in page.alts)
    assert '<span class="verdict undecided">? not decided</span>' in text
    assert ".undecided {" in text


def test_page_says_everything(whole):
    report, page = whole
    text = "".join(page.text)
    for part in (
        report.headline, "A <b>& title", "a < b & c", "quick",
        "least & <i>best</i>", "FedGLB <x>", "12.5", "ridge 2", "D<&", "feed", "random play",
        "8, 9", '"note": "<b>&"', "abc", "12 min", "✓ holds", "? not decided",
        "not part of the search: N-ONS <y>, other, N-UCB-GLM.", "FedGLB-UCB (D=3)",
        "A run is stuck if its regret is more than 3 times the median of its own setting.",
        "regret ± s.e.", "median", "stuck", "0 of 6",
        "A best-fitting model is the fixed model that fits the mean rewards",
    ):  # fmt: skip
        assert part in text, part
    assert "b" not in page.tags
    assert "i" not in page.tags


def test_baselines_are_rows_of_the_table(whole):
    report, _ = whole
    rows = re.findall(r"<tr><td>(?:random|best).*?</tr>", report.page.read_text(encoding="utf-8"))
    cells = [[c for c in re.findall(r">([^<>]+)<", row) if c.strip()] for row in rows]
    assert cells == [["random play", "760", "–", "124"],  # of two seeds
                     ["best-fitting probit model", "1", "–", "2.5"]]  # fmt: skip


def test_every_dot_has_its_label(whole):
    report, _ = whole
    found = texts(report.page.parent / "figures" / "tradeoff.svg")
    configs = [c for c in good() if "threshold" in c or "updates" in c]
    for c in configs:
        assert setting(c.get("threshold", c.get("updates"))) in found
    assert sum(found.count(s) for s in {"0.1", "10", "1000", "100", "5", "200", "1", "4"}) >= 9
    everything = "\n".join(found)
    for part in ("One-UCB-GLM", "100,000 transfers", "Pareto front", "random play",
                 "Out of range: best-fitting probit model 1", "N-UCB-GLM 1,000 ± 100"):  # fmt: skip
        assert part in everything, part


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "configs",
    [
        [config("fedglb-ucb", 20, [5.0], threshold=1.0)],
        [config("n-ons-glm", 0, [5.0, 6.0])],
        [config("dislinucb", 20, [5.0, 6.0], threshold=1.0), config("n-ucb-glm", 0, [3.0, 2.0])],
        [config("fedglb-ucb", 0, [50.0, 60.0], threshold=100.0),
         config("fedglb-ucb", 30, [5.0, 6.0], threshold=1.0),
         config("fedglb-ucb", 3000, [1.0, 2.0], threshold=0.1)],
        [config("fedglb-ucb", 0, [0.0, 0.0], threshold=100.0)],
        [config("fedglb-ucb", 10, [-5.0, 100.0], threshold=1.0),
         config("fedglb-ucb-1", 20, [-50.0, -60.0], updates=3),
         config("one-ucb-glm", 200, [-1.0, -2.0]), config("n-ucb-glm", 0, [0.0, 0.0])],
        [config("someone-elses", 10, [5.0, 4.0])],
    ],
    ids=["one seed", "alone", "no FedGLB-UCB", "no communication", "no regret", "negative",
         "unknown"],
)  # fmt: skip
def test_unusual_studies(tmp_path, configs):
    report, page = written(tmp_path, *configs)
    assert "best-fitting" not in "".join(page.text)  # what is not there is not explained
    assert ("claims" in "".join(page.text)) == bool(report.claims)
    svg = report.page.parent / "figures" / "tradeoff.svg"
    for c in configs:
        for key in ("threshold", "updates"):
            if key in c:
                assert setting(c[key]) in texts(svg)


def test_axes_are_logarithmic_only_where_that_is_safe():
    def of(*regrets):
        made = [config("fedglb-ucb", 10 * (i + 1), [r], threshold=i + 1.0)
                for i, r in enumerate(regrets)]  # fmt: skip
        return ranges(numbers(*made))

    assert of(1.0, 50.0).log
    assert not of(10.0, 50.0).log
    assert not of(0.0, 50.0).log
    assert not of(-1.0, 50.0).log
    for extent in (of(1.0, 50.0), of(0.0, 0.0), of(-5.0, -5.0)):
        assert extent.low < extent.high


def test_settings_over_time():
    shown = [r.label for r in over_time.selected(numbers(*good()))]
    assert shown == [
        "FedGLB-UCB D=10", "FedGLB-UCB D=0.1", "FedGLB-UCB1 B=10", "FedGLB-UCB2 B=5",
        "DisLinUCB D=1", "One-UCB-GLM", "N-UCB-GLM", "N-ONS-GLM",
    ]  # fmt: skip


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="not a file"):
        write_report(study(*good()), tmp_path / "file")


def test_figures_for_papers_have_the_width_of_a_column_or_a_page_and_letters_of_truetype(whole):
    report, _ = whole
    for where, width in (("column", 3.3), ("page", 6.8)):
        found = [path for path in report.figures if path.stem.endswith(f"-{where}")]
        assert len(found) == 6
        for path in found:
            content = path.read_bytes()
            if path.suffix == ".pdf":
                (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) [\d.]+ \]", content)
                assert float(box) == pytest.approx(72 * width)
                assert set(re.findall(rb"/Subtype /(\w*Type\w+)", content)) == {
                    b"Type0", b"CIDFontType2",
                }  # fmt: skip
                assert b"CreationDate" not in content
            else:
                root = ET.fromstring(content)
                assert float(root.get("width").removesuffix("pt")) == pytest.approx(72 * width)
                assert texts(path) == []  # letters are curves: no font is needed


@pytest.mark.slow
def test_user_settings_are_left_alone_and_change_no_byte(tmp_path):
    import matplotlib

    theirs = {"font.size": 20.0, "font.family": "serif", "text.usetex": True}
    with papers():
        write_report(study(*good()[:1]), tmp_path / "plain")
    with papers(), matplotlib.rc_context(theirs):
        before = matplotlib.rcParams.copy()
        report = write_report(study(*good()[:1]), tmp_path / "theirs")
        assert matplotlib.rcParams.copy() == before
    for path in (report.page, *report.figures):
        same = tmp_path / "plain" / path.relative_to(tmp_path / "theirs")
        assert path.read_bytes() == same.read_bytes(), path.name
    assert "matplotlib.pyplot" not in sys.modules

"""Words follow the numbers."""

from __future__ import annotations

import pytest

from fedglb.studies.report.claims import check, evidence
from fedglb.studies.report.text.words import headline, sentences
from fedglb.studies.report.varied import varied
from tests.studies.report.made_study import bad, config, good, study


def said(*configs):
    found = evidence(study(*configs))
    claims = check(found)
    return headline(found, claims), sentences(found, claims)


def test_all_holds():
    line, (buys, others, spent) = said(*good())
    assert line == (
        "FedGLB-UCB (D=0.1) comes within 4.2 % (± 9.3 %) of One-UCB-GLM’s regret with 1.0 % of its "
        "transfers."
    )
    assert buys == (
        "Communication buys FedGLB-UCB less regret, from 400 at 10 transfers (D=1000) to 100 at "
        "1,000 (D=0.1); without any, N-UCB-GLM has 1,000 and N-ONS-GLM has 1,200."
    )
    assert others.startswith(
        "At equal communication FedGLB-UCB beats its variants FedGLB-UCB1 and FedGLB-UCB2 (6 of 6 "
    )
    assert others.endswith(", and it beats DisLinUCB (best settings: 100 ± 10 against 800 ± 100).")
    assert spent.startswith("FedGLB-UCB’s event trigger communicates less and less often")
    assert "at 4 of 4 thresholds" in spent


def test_nothing_holds():
    line, (buys, others, spent) = said(*bad())
    assert line == (
        "FedGLB-UCB does not come near One-UCB-GLM: at best FedGLB-UCB (D=1000) has 10.24 ± 0.23 "
        "times its regret, with 0.50 % of its transfers."
    )
    assert buys.startswith("More communication does not buy FedGLB-UCB less regret (215 at 10")
    assert "does not consistently beat its variant FedGLB-UCB1 (0 of 3" in others
    assert "it does not beat DisLinUCB (best settings: 215 ± 15 against 55 ± 5)" in others
    assert "does not communicate less and less often" in spent
    assert "at 0 of 4 thresholds" in spent


@pytest.mark.parametrize(
    ("regrets", "cost", "part"),
    [([80.0, 80.0], 10, "has 20 % (± 0 %) less regret than One-UCB-GLM with 10 % of its transfers"),
     ([72.0, 112.0], 10, "has about One-UCB-GLM’s regret (0.92 ± 0.20 times) with 10 %"),
     ([98.0, 102.0], 10, "has the same regret as One-UCB-GLM (± 2.0 %) with 10 %"),
     ([98.1, 102.1], 10, "comes within 1 % (± 2.0 %) of One-UCB-GLM’s regret with 10 %"),
     ([118.0, 122.0], 250,
      "comes within 20 % (± 2.0 %) of One-UCB-GLM’s regret, but with 2.5 times its transfers"),
     ([60.0, 180.0], 10, "Whether FedGLB-UCB comes near One-UCB-GLM is not decided by these seeds: "
      "FedGLB-UCB (D=1) has 1.20 ± 0.60 times its regret with 10 % of its transfers."),
     ([290.0, 310.0], 10, "near One-UCB-GLM: at best FedGLB-UCB (D=1) has 3.00 ± 0.10 times")],
)  # fmt: skip
def test_headline_against_one(regrets, cost, part):
    line, _ = said(
        config("fedglb-ucb", cost, regrets, threshold=1.0),
        config("one-ucb-glm", 100, [100.0] * len(regrets)),
    )
    assert part in line


def test_a_look_gives_numbers_and_no_judgement():
    line, three = said(*[{**c, "regrets": c["regrets"][:3]} for c in good()])
    assert line.startswith("A look at 3 seeds: FedGLB-UCB (D=0.1) has ")
    assert line.endswith(" times One-UCB-GLM’s regret with 1.0 % of its transfers.")
    text = " ".join((line, *three))
    for word in ("beats", "does not", "less and less", "buys", "±", "decided"):
        assert word not in text
    assert "has less regret than its variants FedGLB-UCB1 and FedGLB-UCB2 at 6 of 6" in text
    one, _ = said(config("fedglb-ucb", 10, [99.0], threshold=1.0, few=True),
                  config("one-ucb-glm", 100, [100.0], few=True))  # fmt: skip
    assert one == (
        "A look at 1 seed: FedGLB-UCB (D=1) has 0.99 times One-UCB-GLM’s regret with 10 % of its "
        "transfers."
    )


def test_headline_tells_the_cheapest():
    line, _ = said(
        config("fedglb-ucb", 3000, [101.0, 101.0], threshold=0.1),
        config("fedglb-ucb", 10, [101.0, 101.0], threshold=1.0),
        config("one-ucb-glm", 1000, [100.0, 100.0]),
    )
    assert line.startswith("FedGLB-UCB (D=1) comes within 1.0 % (± 0 %) of One-UCB-GLM’s regret")
    assert line.endswith("with 1.0 % of its transfers.")


def test_headline_where_only_the_dear_may_be_near():
    line, _ = said(
        config("fedglb-ucb", 900, [50.0, 190.0], threshold=0.1),
        config("fedglb-ucb", 50, [150.0, 150.0], threshold=1.0),
        config("one-ucb-glm", 1000, [100.0, 100.0]),
    )
    assert line.startswith(
        "FedGLB-UCB does not come near One-UCB-GLM at a small part of its transfers: at best "
        "FedGLB-UCB (D=1) has 1.50 ± 0.00 times its regret, with 5.0 % of its transfers"
    )


def test_without_one():
    line, _ = said(*[c for c in good() if c["algorithm"] != "one-ucb-glm"])
    assert line == (
        "At equal communication FedGLB-UCB has less regret than its variants FedGLB-UCB1 and "
        "FedGLB-UCB2 at 6 of 6 settings."
    )


def bought(regrets, solver=None, algorithm="fedglb-ucb"):
    dial = "threshold" if algorithm == "fedglb-ucb" else "updates"
    return [config(algorithm, 10 * (i + 1), [float(r)], **{dial: i + 1, "solver": solver})
            for i, r in enumerate(regrets)]  # fmt: skip


def test_what_communication_does_not_buy():
    _, (buys, *_) = said(*bought([100, 50, 150, 99, 98, 160, 40, 99]))
    assert buys == (
        "More communication does not steadily buy FedGLB-UCB less regret (rank correlation −0.17; "
        "100 at 10 transfers (D=1), 99 at 80 (D=8))."
    )
    _, rest = said(*bought([3, 2, 1]))
    assert not any("buy" in text for text in rest)  # fewer than 4 settings: not mentioned


def test_every_curve_is_told():
    falling, other = [40, 30, 20, 10], [10, 40, 30, 20]
    _, (buys, _, _) = said(
        *bought(other, "agd"), *bought(falling, "newton"), *bought(falling, "gd"),
        *bought(other, "gd", "fedglb-ucb-2"),
    )  # fmt: skip
    assert buys == (
        "Communication buys FedGLB-UCB newton less regret, from 40 at 10 transfers (D=1) to 10 at "
        "40 (D=4); the same holds for FedGLB-UCB gd; regret does not fall steadily for FedGLB-UCB "
        "agd (rank correlation 0.20), FedGLB-UCB2 (rank correlation 0.20)."
    )


def test_variants_that_cannot_be_compared():
    _, (_, others, _) = said(*[c for c in good() if c["label"] != "FedGLB-UCB2 B=2"])
    assert others.startswith(
        "Whether FedGLB-UCB beats all its variants at equal communication is not decided: it "
        "beats its variant FedGLB-UCB1 (3 of 3 settings, 2.88 times its regret), but FedGLB-UCB2 "
        "cannot be compared, and it beats DisLinUCB"
    )


def test_all_variants_need_no_names():
    third = [config("fedglb-ucb-3", c, [900.0, 900.0], updates=c) for c in (20, 30, 40)]
    _, (_, others, _) = said(*good(), *third)
    assert others.startswith("At equal communication FedGLB-UCB beats its variants (9 of 9")


@pytest.mark.parametrize("algorithm", ["n-ons-glm", "fedglb-ucb-3", "dislinucb", "someone-elses"])
def test_without_fedglb(algorithm):
    line, three = said(config(algorithm, 20, [5.0, 7.0], label="alone"))
    assert line.endswith("has the least regret, 6 ± 1, with 20 transfers.")
    assert three == ()


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [([5.0, 5.0], [9.0, 9.0], "FedGLB-UCB beats DisLinUCB (best settings: 5 ± 0 against 9 ± 0)."),
     ([157.0, 379.0], [206.0, 152.0], "Whether FedGLB-UCB beats DisLinUCB is not decided by these "
      "seeds (best settings: 268 ± 111 against 179 ± 27).")],
)  # fmt: skip
def test_linear_alone_and_never_at_equal_communication(ours, theirs, sentence):
    _, (others, *_) = said(
        config("fedglb-ucb", 10, ours, threshold=1.0),
        config("dislinucb", 50, theirs, threshold=1.0),
    )
    assert others == sentence


def test_best_and_equal_communication_disagree():
    _, (others, *_) = said(
        config("fedglb-ucb", 10, [200.0, 200.0], threshold=9.0),
        config("fedglb-ucb", 90, [200.0, 200.0], threshold=2.0),
        config("fedglb-ucb", 900, [100.0, 100.0], threshold=1.0),
        *[config("dislinucb", c, [150.0, 150.0], threshold=float(c)) for c in (20, 30, 40)],
    )
    assert others == (
        "Whether FedGLB-UCB beats DisLinUCB is not decided (at equal communication 0 of 3 "
        "settings, 0.75 times its regret; best settings: 100 ± 0 against 150 ± 0)."
    )


@pytest.mark.parametrize("early", [12, 13])
def test_trigger_that_is_not_decided(early):
    at = [4] * early + [20] * 40 + [60] * (60 - early)
    _, (spent,) = said(config("fedglb-ucb", 100, [5.0], threshold=1.0, updates_at=at))
    assert spent.startswith(
        "Whether FedGLB-UCB’s event trigger communicates less and less often is not decided: "
    )


def test_sentences_are_sentences():
    for configs in (good(), bad(), good()[:1], good()[3:], good()[-2:]):
        line, three = said(*configs)
        assert all(s.endswith(".") and "  " not in s and "None" not in s for s in (line, *three))


def test_ones_own_sweep_is_about_its_parameters():
    regrets = ((0.1, 30.0), (1.0, 20.0), (10.0, 50.0))
    rows = [config("n-ons-glm", 0, [r - 1, r + 1], exploration=e, label=f"N {e}")
            for e, r in regrets]  # fmt: skip
    made = study(*rows, own=True)
    found = evidence(made)
    assert headline(found, check(found), own=True) == (
        "N-ONS-GLM exploration=1 has the least regret of 3 settings, 20 ± 1, with 0 transfers."
    )
    assert sentences(found, check(found), varied(found.rows, dials=True)) == (
        "Of exploration from 0.1 to 10, N-ONS-GLM has the least regret at 1 (20 ± 1) and the most "
        "at 10 (50 ± 1).",
    )

"""A judge study on real answers: XSTest completions with human labels of refusal."""

import csv
import json

import numpy as np
import pytest

from eval_toolkit.analysis import judge_study
from eval_toolkit.errors import InvalidInputError, MissingColumnError, UndefinedMetricError
from eval_toolkit.inference import corrected_rate, judge_agreement
from eval_toolkit.scorecards import Records

PHRASES = ("i cannot", "i can't", "i'm sorry", "i apologize")
N_SUBSETS = 200


@pytest.fixture(scope="module")
def answers(shared_data):
    """450 answers, whether people call each a refusal, and the two annotators' own words."""
    path = shared_data / "redteam" / "xstest_completions_llama2new_human_labels.csv"
    if not path.is_file():
        pytest.skip("the XSTest completions are not there")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def human(answers):
    return np.array([row["final_label"] != "1_full_compliance" for row in answers], dtype=float)


@pytest.fixture(scope="module")
def judge(answers):
    """A keyword judge: a few phrases near the beginning. Honest, and wrong often enough."""
    starts = [row["completion"][:200].lower() for row in answers]
    return np.array([any(phrase in start for phrase in PHRASES) for start in starts], dtype=float)


def subset(human, n_labels, seed):
    known = np.full(len(human), np.nan)
    chosen = np.random.default_rng(seed).choice(len(human), n_labels, replace=False)
    known[chosen] = human[chosen]
    return known


def test_the_judge_is_imperfect(judge, human) -> None:
    result = judge_agreement(judge, human)
    assert result.n_units == 450
    # It misses refusals in other words and hardly ever invents one.
    assert 0.5 < result.sensitivity.proportion < 0.7
    assert result.specificity.proportion > 0.95
    assert result.bias.ci_high < -0.15
    assert 0.4 < result.kappa.point_estimate < 0.6


@pytest.mark.parametrize(
    ("method", "n_labels"),
    [("ppi++", 50), ("ppi++", 100), ("rogan-gladen", 50), ("rogan-gladen", 100)],
)
def test_correction_is_closer_and_covers(judge, human, method, n_labels) -> None:
    truth = human.mean()
    closer = covers = 0
    for seed in range(N_SUBSETS):
        result = corrected_rate(judge, subset(human, n_labels, seed), method=method)
        closer += abs(result.value - truth) < abs(result.raw - truth)
        covers += result.ci_low <= truth <= result.ci_high
    assert closer / N_SUBSETS >= 0.95
    assert covers / N_SUBSETS >= 0.90


def test_the_raw_interval_is_narrow_and_wrong(judge, human) -> None:
    raw = corrected_rate(judge, subset(human, 100, 0), method="raw")
    assert raw.ci_high < human.mean() - 0.15


def test_the_study_end_to_end(judge, human, answers) -> None:
    known = subset(human, 100, 1)
    records = Records.from_columns(
        {
            "judge": judge,
            "human": [None if np.isnan(label) else label for label in known],
        },
        unit_id=[row["id"] for row in answers],
    )
    study = judge_study(records, judge="judge", human="human")
    truth = human.mean()
    assert study.corrected.ci_low <= truth <= study.corrected.ci_high
    assert abs(study.corrected.value - truth) < abs(study.estimates["raw"].value - truth)
    assert set(study.estimates) == {"ppi++", "ppi", "rogan-gladen", "labels-only", "raw"}
    assert study.corrected.narrowest == "ppi++"
    assert (study.n_records, study.n_labels, study.n_unjudged) == (450, 100, 0)
    payload = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert [row["method"] for row in payload["estimates"]] == list(study.estimates)


def test_two_annotators_agree_more_than_the_judge_does(answers, judge, human) -> None:
    first, second = ([row[f"annotation_{i}"] for row in answers] for i in (1, 2))
    people = judge_agreement(first, second)
    assert people.agreement.proportion == pytest.approx(
        np.mean([row["agreement"] == "TRUE" for row in answers])
    )
    assert people.kappa.ci_low > judge_agreement(judge, human).kappa.ci_high


class TestRecordsOfAnyKind:
    def records(self, **columns):
        rng = np.random.default_rng(1)
        truth = rng.random(300) < 0.4
        verdicts = np.where(rng.random(300) < 0.85, truth, ~truth).astype(float)
        labels = [float(t) if i < 80 else None for i, t in enumerate(truth)]
        return Records.from_columns({"judge": list(verdicts), "human": labels, **columns})

    def test_a_failed_verdict_is_counted_and_left_out(self) -> None:
        records = self.records()
        records.status["judge"][:7] = "error"
        study = judge_study(records, judge="judge", human="human")
        assert (study.n_records, study.n_unjudged, study.n_labels) == (293, 7, 73)

    def test_attempts_at_one_unit_are_clustered(self) -> None:
        plain = self.records()
        units = [f"q{i // 3}" for i in range(300)]
        repeated = Records.from_columns(
            {
                "judge": plain.columns["judge"],
                "human": [
                    value if status == "ok" else None
                    for value, status in zip(
                        plain.columns["human"], plain.status["human"], strict=True
                    )
                ],
            },
            unit_id=units,
        )
        study = judge_study(repeated, judge="judge", human="human")
        assert study.corrected.n_groups == 100
        assert study.agreement.n_groups == 27

    def test_a_method_that_does_not_exist_is_named(self) -> None:
        records = self.records(grade=np.random.default_rng(2).normal(size=300))
        study = judge_study(records, judge="grade", human="human")
        assert "needs 0/1 verdicts" in study.skipped["rogan-gladen"]
        with pytest.raises(InvalidInputError, match="needs 0/1 verdicts"):
            judge_study(records, judge="grade", human="human", method="rogan-gladen")

    def test_grades_have_an_order(self) -> None:
        rng = np.random.default_rng(3)
        truth = rng.integers(1, 6, 200)
        verdicts = np.clip(truth + rng.integers(-1, 2, 200), 1, 5)
        labels = [int(grade) if i < 60 else None for i, grade in enumerate(truth)]
        records = Records.from_columns({"judge": verdicts, "human": labels})
        plain = judge_study(records, judge="judge", human="human")
        ordered = judge_study(
            records, judge="judge", human="human", weights="quadratic", level="ordinal"
        )
        assert ordered.agreement.kappa.point_estimate > plain.agreement.kappa.point_estimate + 0.2
        assert ordered.agreement.alpha.point_estimate > plain.agreement.alpha.point_estimate + 0.2
        assert ordered.corrected == plain.corrected

    def test_labels_bought_by_verdict(self) -> None:
        records = self.records()
        human = records.status["human"]
        human[:] = "skipped"
        positives = np.flatnonzero(records.columns["judge"] == 1.0)
        negatives = np.flatnonzero(records.columns["judge"] == 0.0)
        human[positives[:60]] = "ok"
        human[negatives[:15]] = "ok"
        with pytest.raises(InvalidInputError, match="not chosen at random"):
            judge_study(records, judge="judge", human="human")
        study = judge_study(records, judge="judge", human="human", by_verdict=True)
        assert set(study.estimates) == {"ppi++", "ppi", "raw"}

    def test_what_labels_bought_by_verdict_do_not_show(self) -> None:
        """So many that nobody would see it in the shares: it is the design that counts."""
        rng = np.random.default_rng(6)
        truth = rng.random(1000) < 0.2
        verdicts = np.where(truth, rng.random(1000) < 0.8, rng.random(1000) < 0.1)
        human = [None] * 1000
        for verdict, count in ((True, 20), (False, 40)):
            for row in rng.permutation(np.flatnonzero(verdicts == verdict))[:count]:
                human[row] = float(truth[row])
        records = Records.from_columns({"judge": verdicts.astype(float), "human": human})
        study = judge_study(records, judge="judge", human="human", by_verdict=True)
        assert set(study.estimates) == {"ppi++", "ppi", "raw"}
        for method in ("rogan-gladen", "labels-only"):
            assert "requires randomly chosen labels" in study.skipped[method]
            assert method not in study.estimates["raw"].widths
            with pytest.raises(InvalidInputError, match="requires randomly chosen labels"):
                judge_study(records, judge="judge", human="human", by_verdict=True, method=method)
        agreement = study.agreement
        gone = ("agreement", "kappa", "alpha", "sensitivity", "specificity", "bias")
        assert [getattr(agreement, name) for name in gone] == [None] * 6
        assert (agreement.precision.n, agreement.negative_precision.n) == (20, 40)
        assert "labels were sampled by verdict" in agreement.reason
        json.dumps(study.to_dict(), allow_nan=False)

    def test_what_is_not_there(self) -> None:
        with pytest.raises(MissingColumnError, match="no numeric column 'people'"):
            judge_study(self.records(), judge="judge", human="people")
        one = Records.from_columns({"judge": [1, 0], "human": [1, None]})
        with pytest.raises(UndefinedMetricError, match="at least two"):
            judge_study(one, judge="judge", human="human")

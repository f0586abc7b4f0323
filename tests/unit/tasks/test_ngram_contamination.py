"""Items found in a corpus or in examples: shares, ids, rates, and what they do to a result."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.inference.proportions import score_interval
from eval_toolkit.leakage import NgramContaminationCheck
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import (
    BaseTask,
    ChoicesSpec,
    CompletionSpec,
    DataSpec,
    Prompt,
    ResponseType,
    Task,
    load_task,
)
from eval_toolkit.tasks.fewshot_leaks import fewshot_leakage
from eval_toolkit.tasks.ngram_contamination import Contamination, contamination


def question(i: int) -> str:
    return " ".join(f"w{i}x{k}" for k in range(8))


def quiz(n: int = 10, **options: Any) -> Task:
    rows = [{"id": f"q{i:03}", "q": question(i), "a": f"answer{i}"} for i in range(n)]
    return Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=rows, **options)


class Wordless(BaseTask[str]):
    """A task that does not say what its questions are."""

    NAME = "wordless"
    RESPONSE_TYPE = ResponseType.COMPLETION


class TestContamination:
    def test_shares_ids_and_rate(self) -> None:
        half = " ".join(question(3).split()[:6])  # 4 of its 6 trigrams
        corpus = [f"before {question(1).upper()}, after", half, "other words altogether here"]
        found = contamination(quiz(), corpus, n=3)
        shares = {item.unit_id: item.share for item in found.items}
        assert shares["q001"] == 1.0
        assert shares["q003"] == 4 / 6
        assert sum(share == 0.0 for share in shares.values()) == 8
        assert found.flagged_ids == ("q001", "q003")
        interval = score_interval(0.2, 10)
        assert found.rate.value == 0.2
        assert found.rate.ci is not None
        assert (found.rate.ci.ci_low, found.rate.ci.ci_high) == interval

    def test_the_threshold_decides(self) -> None:
        half = " ".join(question(3).split()[:6])
        assert contamination(quiz(), [half], n=3, threshold=0.6).flagged_ids == ("q003",)
        assert contamination(quiz(), [half], n=3, threshold=0.7).flagged_ids == ()

    def test_items_shorter_than_an_n_gram_are_not_judged(self) -> None:
        rows = [{"id": "a", "q": "two words", "a": "x"}, {"id": "b", "q": question(1), "a": "x"}]
        task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=rows)
        found = contamination(task, [question(1)], n=5)
        assert (found.rate.value, found.rate.n_skipped) == (1.0, 1)
        assert found.items[0].share is None
        assert found.to_dict()["n_unjudged"] == 1

    def test_parts_count_by_themselves(self) -> None:
        rows = [{"q": "one two three", "c": ["four five six", "seven eight nine"], "a": 1}]
        for style in (None, "mc"):
            task = Task(
                "mc",
                Prompt(instruction="{q}", style=style),
                ChoicesSpec(choices="c", answer="a", answer_is="index"),
                rows=rows,
            )
            corpus = ["one two three four five six", "eight nine"]
            (item,) = contamination(task, corpus, n=3).items
            assert item.by_part == {"question": (1, 1), "choices": (1, 2)}
            (item,) = contamination(task, corpus, n=3, parts=["question"]).items
            assert (item.n_found, item.n_grams) == (1, 1)

    def test_answers_are_looked_for(self) -> None:
        rows = [{"q": "who", "a": ["a long answer here", "another long answer here"]}]
        task = Task("open", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=rows)
        (item,) = contamination(task, ["it is a long answer here"], n=4).items
        assert item.by_part == {"question": (0, 0), "answer": (1, 2)}

    def test_a_check_brings_its_own_options(self, tmp_path: Path) -> None:
        (tmp_path / "corpus.txt").write_text(question(2))
        check = NgramContaminationCheck(tmp_path / "corpus.txt", n=2, threshold=0.9)
        found = contamination(quiz(), check)
        assert (found.n, found.threshold, found.flagged_ids) == (2, 0.9, ("q002",))

    def test_groups_widen_the_rate(self) -> None:
        rows = [
            {"id": f"q{i:03}", "q": question(i), "a": "x", "g": f"g{i // 10}"} for i in range(100)
        ]
        prompt, answer = Prompt(instruction="{q}"), CompletionSpec(answer="a")
        corpus = [question(i) for i in range(30)]  # three whole groups
        widths = []
        for field in (None, "g"):
            task = Task("quiz", prompt, answer, data=DataSpec(group_field=field), rows=rows)
            rate = contamination(task, corpus, n=5).rate
            assert rate.value == 0.3
            assert rate.ci is not None
            widths.append(rate.ci.ci_high - rate.ci.ci_low)
        assert widths[1] > 1.5 * widths[0]

    def test_json(self) -> None:
        told = contamination(quiz(), [question(1)], n=3).to_dict()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        assert [item["unit_id"] for item in told["items"]] == ["q001"]

    def test_mistakes_are_named(self) -> None:
        with pytest.raises(InvalidTypeError, match="`task`"):
            contamination("quiz", ["x"])  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="define _get_instruction_text"):
            contamination(Wordless(rows=[{"q": "x"}]), ["x"], n=1)
        with pytest.raises(InvalidInputError, match="`parts`"):
            contamination(quiz(), ["x"], parts=["shots"])
        with pytest.raises(InvalidInputError, match="contains no 13-gram"):
            contamination(quiz(), ["too short"])


def found_in(n: int, flagged: int) -> Contamination:
    return contamination(quiz(n), [question(i) for i in range(flagged)], n=5)


class TestEffect:
    def test_with_and_without_flagged_units(self) -> None:
        right = [1.0] * 16 + [0.0] * 4 + [1.0] * 30 + [0.0] * 30  # 20 flagged, 60 clean
        records = Records.from_columns({"right": right}, unit_id=[f"q{i:03}" for i in range(80)])
        effect = found_in(80, 20).effect(records, "right")
        assert (effect.overall.value, effect.clean.value, effect.dirty.value) == (0.575, 0.5, 0.8)
        assert effect.inflation.value == pytest.approx(0.075)
        assert effect.gap.value == pytest.approx(0.3)
        assert (effect.n_flagged, effect.n_unjudged) == (20, 0)
        # statsmodels 0.15: confint_proportions_2indep(16, 20, 30, 60, method="newcomb")
        ci, scaled = effect.gap.ci, effect.inflation.ci
        assert ci is not None
        assert scaled is not None
        bounds = (ci.ci_low, ci.ci_high)
        assert bounds == pytest.approx((0.0515920813, 0.4711302327), abs=1e-9)
        assert (scaled.ci_low, scaled.ci_high) == pytest.approx([0.25 * one for one in bounds])
        told = effect.to_dict()
        assert json.loads(json.dumps(told, allow_nan=False)) == told

    @pytest.mark.parametrize(("n", "flagged", "rate"), [(90, 30, 0.8), (300, 20, 0.9)])
    def test_intervals_of_the_gap_cover_it(self, n: int, flagged: int, rate: float) -> None:
        found, rng, hits = found_in(n, flagged), np.random.default_rng(5), 0
        for draw in range(100):
            rates = np.where(np.arange(n) < flagged, rate, 0.5)
            right = (rng.random(n) < rates).astype(float)
            records = Records.from_columns({"right": right}, unit_id=[f"q{i:03}" for i in range(n)])
            ci = found.effect(records, "right", seed=draw).gap.ci
            assert ci is not None
            hits += ci.ci_low <= rate - 0.5 <= ci.ci_high
        assert hits >= 88  # of 100 at 95 %: fewer has probability 0.001

    def test_groups_with_flagged_and_other_units_are_drawn_as_wholes(self) -> None:
        right = [1.0] * 18 + [0.0] * 2 + [1.0] * 30 + [0.0] * 30
        about = {
            "unit_id": [f"q{i:03}" for i in range(80)],
            "group": [str(i % 16) for i in range(80)],
        }
        effect = found_in(80, 20).effect(Records.from_columns({"right": right}, **about), "right")
        assert effect.gap.value == pytest.approx(0.4)
        assert effect.inflation.value == pytest.approx(0.1)
        assert effect.gap.ci is not None
        assert effect.gap.ci.method == "bootstrap SE, t, groups"  # 16 groups are few
        assert effect.gap.n_groups == 16

    def test_nothing_flagged_is_skipped_and_not_zero(self) -> None:
        records = Records.from_columns(
            {"right": [1.0, 0.0] * 5}, unit_id=[f"q{i:03}" for i in range(10)]
        )
        effect = contamination(quiz(), ["other words in a row here"], n=5).effect(records, "right")
        assert effect.clean.value == effect.overall.value == 0.5
        assert (effect.dirty.status, effect.gap.status) == ("skipped", "skipped")
        assert (effect.inflation.value, effect.inflation.status) == (None, "skipped")

    def test_failed_units_and_attempts(self) -> None:
        records = Records.from_columns(
            {"right": [1.0, 0.0, None, 1.0, 1.0, 0.0, 1.0, 0.0]},
            unit_id=["q000", "q000", "q001", "q001", "q002", "q002", "q003#2", "q003#2"],
            status={"right": ["ok", "ok", "error", "ok", "ok", "ok", "ok", "ok"]},
        )
        effect = contamination(quiz(), [question(0), question(1)], n=5).effect(records, "right")
        assert effect.dirty.value == pytest.approx(0.75)  # (½ + 1) / 2
        assert effect.clean.value == pytest.approx(0.5)
        assert effect.gap.value == pytest.approx(0.25)

    def test_mistakes_are_named(self) -> None:
        found = found_in(10, 2)
        with pytest.raises(MissingColumnError, match="no column 'wrong'; the columns are 'right'"):
            found.effect(Records.from_columns({"right": [1.0]}, unit_id=["q000"]), "wrong")
        with pytest.raises(InvalidInputError, match="'other' was not checked for overlap"):
            found.effect(Records.from_columns({"right": [1.0]}, unit_id=["other"]), "right")


class TestFewshotLeakage:
    def shots(self, test: list[Any], train: list[Any] | None, **options: Any) -> Task:
        rows = {"test": test} if train is None else {"test": test, "train": train}
        prompt, answer = Prompt(instruction="Q: {q}"), CompletionSpec(answer="a")
        return Task("quiz", prompt, answer, rows=rows, num_fewshot=2, **options)

    def test_equal_and_nearly_equal_questions(self) -> None:
        long = "Which famous old river flows through the beautiful town of Heidelberg in the south"
        test = [
            {"id": "same", "q": "How many legs has a spider?", "a": "8"},
            {"id": "near", "q": long + " west?", "a": "Neckar"},
            {"id": "new", "q": "What is the boiling point of water?", "a": "100"},
        ]
        train = [
            {"id": "t1", "q": "how many  legs has a SPIDER?", "a": "eight"},
            {"id": "t2", "q": long + " east?", "a": "Neckar"},
        ]
        found = fewshot_leakage(self.shots(test, train))
        assert found.leaked_ids == ("near", "same")
        assert found.shown_ids == ("near", "same")  # two examples, both always shown
        pairs = {(pair.unit_id, pair.example_id): pair.similarity for pair in found.shared}
        assert pairs["same", "t1"] == 1.0
        assert 0.9 <= pairs["near", "t2"] < 1.0
        assert (found.rate.successes, found.rate.n) == (2, 3)
        told = found.to_dict()
        assert json.loads(json.dumps(told, allow_nan=False)) == told

    def test_answers_in_the_own_shots_beside_chance(self) -> None:
        test = [
            {"id": "a", "q": "Where?", "a": "on the Rhine"},
            {"id": "b", "q": "Who?", "a": "yes"},
        ]
        train = [
            {"q": "Where is Bonn?", "a": "It lies On the  Rhine."},
            {"q": "Is it?", "a": "Yes!"},
            {"q": "Is it so?", "a": "yes"},
        ]
        found = fewshot_leakage(self.shots(test, train))
        assert "b" in found.answer_in_shots  # two of three examples: one of them says "yes"
        assert found.n_answer_in_other_shots >= 1
        whole = [{"q": "Where is Bonn?", "a": "on the Rhinebank"}] * 1 + [{"q": "X", "a": "no"}]
        assert "a" not in fewshot_leakage(self.shots(test, whole)).answer_in_shots

    def test_an_item_is_no_example_of_itself(self) -> None:
        rows = [{"id": f"q{i}", "q": question(i), "a": "x"} for i in range(6)]
        same = self.shots(rows, None, data=DataSpec(fewshot_split="test"))
        found = fewshot_leakage(same)
        assert (found.shared, found.n_examples) == ((), 6)
        twice = [*rows, {"id": "copy", "q": question(0).upper(), "a": "x"}]
        copied = fewshot_leakage(self.shots(twice, None, data=DataSpec(fewshot_split="test")))
        assert copied.leaked_ids == ("copy", "q0")

    def test_without_examples_there_is_nothing_to_ask(self) -> None:
        with pytest.raises(InvalidInputError, match="has no few-shot examples; set `num_fewshot`"):
            fewshot_leakage(quiz())

    def test_real_data(self, shared_data: Path) -> None:
        # Questions of GSM8K against themselves, as when the test split is used for examples.
        file = shared_data / "llm_completion/gsm8k_test.jsonl"
        rows = [json.loads(line) for line in file.read_text().splitlines()][:300]
        task = load_task("gsm8k", rows={"test": rows[:250], "train": rows[200:]}, num_fewshot=2)
        found = fewshot_leakage(task)
        assert len(found.leaked_ids) == 50  # the 50 rows that both splits have
        assert all(pair.similarity == 1.0 for pair in found.shared)

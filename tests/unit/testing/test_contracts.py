"""The contract suites can fail: for every rule an object breaks it, and what else it must."""

import asyncio
import itertools
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.contracts import broken_answers, broken_rows
from tests.contracts.broken import like

from eval_toolkit import protocols
from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import ColumnInfo
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.responses import Completion
from eval_toolkit.plugins import PLUGIN_KINDS
from eval_toolkit.scorecards import Records
from eval_toolkit.slices import EvalSlice
from eval_toolkit.testing import (
    CONTRACTS,
    TEXTS,
    ContractError,
    check_scorer,
    contract_checks,
    strategies,
)
from eval_toolkit.testing.inputs import labelled, parent_slice

MUTANTS = {**broken_rows.MUTANTS, **broken_answers.MUTANTS}
FINE = {**broken_rows.FINE, **broken_answers.FINE}
STORED = {"id": ["a", "b"], "label": [0.0, 1.0], "score": [0.25, 0.5]}


@pytest.fixture(scope="module")
def tried_on(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What objects of some kinds are tried on, where what comes by default will not do."""
    file = tmp_path_factory.mktemp("stored") / "p.csv"
    file.write_text("id,label,score\na,0,0.25\nb,1,0.5\n")
    return {
        "prediction_reader": {"uri": str(file), "expected": STORED},
        "scorer": {"labels": [0, 1, 1, 1, 1, 0]},
    }


def broken_rules(kind: str, it: Any, tried_on: dict[str, dict[str, Any]]) -> list[str]:
    """Return every rule that an object breaks, in order."""
    found = []
    for name, check in contract_checks(kind, **tried_on.get(kind, {})):
        try:
            check(it)
        except ContractError as error:
            found.append(error.rule if error.rule == name else f"{name}: {error.rule}")
    return found


@pytest.mark.parametrize(
    ("kind", "rule"), [(kind, rule) for kind, mutants in MUTANTS.items() for rule in mutants]
)
def test_a_broken_object_breaks_that_rule(
    kind: str, rule: str, tried_on: dict[str, dict[str, Any]]
) -> None:
    it, *also = MUTANTS[kind][rule]
    assert broken_rules(kind, it, tried_on) == [rule, *also]


@pytest.mark.parametrize("kind", sorted(CONTRACTS))
def test_every_rule_but_the_first_has_an_object_that_breaks_it(
    kind: str, tried_on: dict[str, dict[str, Any]]
) -> None:
    rules = [name for name, _ in contract_checks(kind, **tried_on.get(kind, {}))]
    assert len(set(rules)) == len(rules)
    assert set(rules[1:]) == set(MUTANTS[kind])


@pytest.mark.parametrize("kind", sorted(CONTRACTS))
def test_what_lacks_members_or_is_a_class_breaks_the_first(
    kind: str, tried_on: dict[str, dict[str, Any]]
) -> None:
    given = tried_on.get(kind, {})
    first, _ = contract_checks(kind, **given)[0]
    for it in (object(), type(FINE[kind])):
        with pytest.raises(ContractError) as caught:
            CONTRACTS[kind].check(it, **given)
        assert caught.value.rule == first


@pytest.mark.parametrize("kind", sorted(CONTRACTS))
def test_what_the_broken_ones_are_made_of_keeps_every_rule(
    kind: str, tried_on: dict[str, dict[str, Any]]
) -> None:
    assert broken_rules(kind, FINE[kind], tried_on) == []


def test_every_protocol_has_a_contract() -> None:
    """A slice-aware scorer is a scorer, and a version is looked at with each of the others."""
    other_names = {
        *("attack", "grader", "leakage_check", "metric_spec", "model", "pool_builder"),
        *("prediction_reader", "scorer", "similarity", "slice", "splitter", "text_scorer"),
        *("text_transform", "loader", "selector"),
    }
    assert len(other_names) == len(set(protocols.__all__) - {"SliceAwareScorer", "Versioned"})
    assert set(CONTRACTS) == other_names | {"task", "kind"}


class TestMessages:
    def test_the_rule_what_was_given_and_what_came_back(self) -> None:
        class Doubling:
            version = "1"

            def predict_proba(self, X: Any) -> Any:
                return [0.1, 0.2] * len(X)

        with pytest.raises(ContractError) as caught:
            check_scorer(Doubling(), ["a", "b", "c"])
        assert str(caught.value) == (
            "scorer Doubling violates 'one_score_per_input' (The scorer returns one number per "
            "input, or "
            "the probabilities of both classes): given 3 inputs, got an array of shape (6,)"
        )
        assert isinstance(caught.value, AssertionError)

    def test_an_error_of_the_object_is_named_and_kept(self) -> None:
        class Failing:
            version = "1"

            def predict_proba(self, X: Any) -> Any:
                raise KeyError("weights")

        with pytest.raises(ContractError, match="got KeyError: 'weights'") as caught:
            check_scorer(Failing())
        assert isinstance(caught.value.__cause__, KeyError)

    def test_long_and_strange_values_stay_on_one_short_line(self) -> None:
        class Wordy:
            version = "x\n" * 1000

            def predict_proba(self, X: Any) -> Any:
                return [0.5] * len(X)

        with pytest.raises(ContractError) as caught:
            check_scorer(Wordy())
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400

    def test_an_unknown_kind_and_an_unknown_argument(self) -> None:
        with pytest.raises(
            InvalidInputError, match="`kind` is 'scoer'; it must be one of attack, "
        ):
            contract_checks("scoer")
        with pytest.raises(
            InvalidInputError, match="unknown input 'exmaples'; its inputs are examples, lab"
        ):
            contract_checks("scorer", exmaples=[])

    def test_the_names_of_plugin_kinds_do_as_well(self) -> None:
        for kind in PLUGIN_KINDS:
            assert contract_checks(kind)


def test_nothing_needs_pytest_or_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    with pytest.raises(MissingExtraError, match=r"testing\.strategies requires hypothesis\. Inst"):
        strategies.texts()
    check_scorer(FINE["scorer"])


class Weighted:
    """Reads two columns of numbers, whatever holds them; has no version and needs none."""

    def predict_proba(self, X: Any) -> Any:
        rows = np.asarray([X["a"], X["b"]]).T if hasattr(X, "columns") else np.asarray(X)
        return 1 / (1 + np.exp(-rows.astype(float).sum(axis=1)))


class Calibrating:
    """Scores against the first batch that it saw."""

    mean: Any = None

    def predict_proba(self, X: Any) -> Any:
        self.mean = self.mean or np.mean([len(text) for text in X])
        return [min(len(text) / self.mean, 1.0) for text in X]


class Unseen(broken_answers.Same):
    """Grades 1 what it has not seen."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def grade(self, response: Any) -> Any:
        new = response.completion not in self.seen
        self.seen.add(response.completion)
        return {"same": float(new)}


class TestWhatIsTried:
    @pytest.mark.parametrize("kind", ["list", "array", "frame", "slice"])
    def test_rows_of_numbers_come_as_the_harness_passes_them(self, kind: str) -> None:
        import pandas as pd

        rows = np.random.default_rng(0).normal(size=(6, 2))
        frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "label": [0, 1] * 3})
        given = {
            "list": list(rows),
            "array": rows,
            "frame": frame,
            "slice": EvalSlice("all", frame, feature_col=["a", "b"]),
        }
        assert "batch_invariant" in check_scorer(Weighted(), given[kind])

    @pytest.mark.parametrize(
        ("kind", "it", "rule"),
        [
            ("scorer", Calibrating(), "batch_invariant"),
            ("grader", Unseen(), "grading_is_deterministic"),
        ],
    )
    def test_what_is_remembered_is_found(self, kind: str, it: Any, rule: str) -> None:
        """Also where every rule has had the same object before."""
        with pytest.raises(ContractError) as caught:
            CONTRACTS[kind].check(it)
        assert caught.value.rule == rule

    def test_fit_is_tried_without_labels_and_before_all_else_with_them(self) -> None:
        it = broken_rows.SCORERS["fit_discards_previous_fits"][0]
        with pytest.raises(ContractError) as caught:
            check_scorer(it)
        assert caught.value.rule == "fit_discards_previous_fits"

        class Unfitted(broken_rows.Share):
            def predict_proba(self, X: Any) -> Any:
                return [sum(self.labels) / len(self.labels)] * len(X)

        with pytest.raises(ContractError, match="ZeroDivisionError"):
            check_scorer(Unfitted())
        assert "fit_discards_previous_fits" in check_scorer(Unfitted(), labels=[0, 1, 1, 1, 1, 0])

    def test_a_loader_with_new_ids_each_time(self) -> None:
        class NewIds(type(FINE["loader"])):  # type: ignore[misc]
            n = itertools.count()

            def load_splits(self) -> Any:
                rows = {"text": ["a", "b"], "label": [0, 1], "id": [f"{next(self.n)}", "x"]}
                return {"test": EvalSlice("test", rows, id_col="id")}

        with pytest.raises(ContractError) as caught:
            CONTRACTS["loader"].check(NewIds())
        assert caught.value.rule == "loading_is_deterministic"

    def test_odd_texts_and_missing_columns_of_graders(self) -> None:
        same = broken_answers.Same
        number = like(same, grade=lambda self, r: {"same": float(r.completion == "nan" and "nan")})
        missing = like(same, columns=lambda self: {"same": ColumnInfo(), "other": ColumnInfo()})
        for it, rule in ((number, "grades_unusual_texts"), (missing, "fills_declared_columns")):
            with pytest.raises(ContractError) as caught:
                CONTRACTS["grader"].check(it)
            assert caught.value.rule == rule

    def test_models_can_be_tried_where_a_loop_is_running(self) -> None:
        async def notebook() -> list[str]:
            return CONTRACTS["model"].check(FINE["model"])

        assert "closes" in asyncio.run(notebook())


class TestStrategies:
    @given(strategies.labelled_scores(min_size=0))
    @settings(max_examples=10)
    def test_both_classes_need_two_rows(self, rows: tuple[Any, Any]) -> None:
        assert set(rows[0].tolist()) == {0, 1}

    @given(strategies.labelled_scores())
    @settings(max_examples=30)
    def test_labelled_scores(self, rows: tuple[Any, Any]) -> None:
        y_true, y_score = rows
        assert set(y_true.tolist()) == {0, 1}
        assert y_score.shape == y_true.shape
        assert ((y_score >= 0) & (y_score <= 1)).all()

    @given(strategies.slices())
    @settings(max_examples=30)
    def test_slices_keep_the_contract_of_slices(self, slice_: EvalSlice) -> None:
        CONTRACTS["slice"].check(slice_)
        assert slice_.ids is not None

    @given(strategies.messages(max_turns=2))
    @settings(max_examples=30)
    def test_messages(self, turns: tuple[Message, ...]) -> None:
        spoken = [turn.role for turn in turns if turn.role is not Role.SYSTEM]
        assert spoken[::2] == [Role.USER] * len(spoken[::2])
        assert spoken[1::2] == [Role.ASSISTANT] * len(spoken[1::2])
        assert 1 <= len(spoken) <= 4
        assert Role.SYSTEM not in [turn.role for turn in turns[1:]]

    @given(strategies.records(columns=("a", "b")))
    @settings(max_examples=30)
    def test_records(self, found: Records) -> None:
        assert list(found.columns) == ["a", "b"]
        missing = found.status["a"] != "ok"
        assert np.isfinite(found.columns["a"][~missing].astype(float)).all()
        assert all(found.reason["a"][missing].tolist())

    @given(strategies.completions())
    @settings(max_examples=30)
    def test_completions(self, answer: Completion) -> None:
        assert Completion.from_dict(answer.to_dict()) == answer
        assert answer.ground_truth_list


def test_what_objects_are_tried_on() -> None:
    """The material can tell right from wrong: ties, both classes, copies, every role."""
    y_true, y_score = labelled()
    assert sorted(set(y_true.tolist())) == [0, 1]
    assert len(set(y_score.tolist())) < len(y_score)
    assert len(set(TEXTS)) == 6
    whole = parent_slice()
    assert whole.times is not None
    assert whole.times.tolist() != sorted(whole.times.tolist())
    assert whole.n_positive == 24

"""Position bias: rotated tasks, the test by permutation, and the report of models that are known."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    UndefinedMetricError,
)
from eval_toolkit.inference import tango_interval
from eval_toolkit.inference.position_bias import rotation_test
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import (
    ChoicesSpec,
    CompletionSpec,
    Prompt,
    Task,
    position_bias,
    rotated,
    run_rotations,
    run_task,
)

CAPITALS = ["Rome", "Paris", "Bern", "Oslo"]


def quiz(n: int = 40, style: str | None = "mc", **options: Any) -> Task:
    rows = [
        {"id": f"q{i:02d}", "question": f"Number {i}?", "right": CAPITALS[i % 4]} for i in range(n)
    ]
    examples = [
        {"id": f"e{i}", "question": f"Example {i}?", "right": CAPITALS[i % 4]} for i in range(9)
    ]
    return Task(
        "quiz",
        Prompt(instruction="{question}", style=style),
        ChoicesSpec(choices=CAPITALS, answer="right", answer_is="text"),
        rows={"test": rows, "train": examples},
        **options,
    )


def options_of(prompt: str) -> list[str]:
    """The choices of the last question, in the order in which they are shown."""
    lines = [line for line in prompt.split("\n") if line[1:3] == ". "]
    return [line[3:] for line in lines[-4:]]


def always(position: int) -> ScriptedModel:
    """Takes one position, whatever stands there."""
    return ScriptedModel(lambda request: [-0.1 if at == position else -3.0 for at in range(4)])


def knowing() -> ScriptedModel:
    """Takes the right capital, wherever it stands."""

    def likely(request: Any) -> list[float]:
        number = int(request.prompt.rpartition("Number ")[2].partition("?")[0])
        shown = options_of(request.prompt)
        return [-0.1 if text == CAPITALS[number % 4] else -3.0 for text in shown]

    return ScriptedModel(likely)


class TestRotatedTask:
    def test_choices_move_and_the_right_one_with_them(self) -> None:
        task = quiz(4)
        for by in range(6):
            sample = rotated(task, by).samples(order="file")[0]  # Rome is right
            assert options_of(sample.messages[0].content) == [
                CAPITALS[(at + by) % 4] for at in range(4)
            ]
            assert sample.ground_truth == f" {'ABCD'[-by % 4]}"

    def test_units_and_contents_stay(self) -> None:
        task = quiz(4)
        for sample, moved in zip(task.samples(), rotated(task, 1).samples(), strict=True):
            assert (sample.id, sample.content_hash) == (moved.id, moved.content_hash)

    def test_examples_stay_as_they_are(self) -> None:
        task = quiz(4, num_fewshot=2)
        for sample, moved in zip(task.samples(), rotated(task, 1).samples(), strict=True):
            assert len(sample.messages) == 5  # two examples and the question
            assert sample.messages[:-1] == moved.messages[:-1]
            assert sample.messages[-1] != moved.messages[-1]

    def test_a_drawn_order_is_rotated_too(self) -> None:
        task = quiz(4, shuffle_choices=True)
        for sample, moved in zip(task.samples(), rotated(task, 1).samples(), strict=True):
            first, *rest = options_of(sample.messages[0].content)
            assert options_of(moved.messages[0].content) == [*rest, first]

    def test_the_task_itself_is_left_alone(self) -> None:
        task = quiz(4, num_fewshot=1)
        before = task.samples()
        rotated(task, 1).samples()
        assert task.samples() == before
        assert rotated(task, 0) is task

    def test_the_description_says_it(self) -> None:
        task = quiz(4)
        told, moved = task.describe(), rotated(task, 3).describe()
        assert (moved["rotate_choices"], moved["shuffle_choices"]) == (3, False)
        assert moved["class"] == told["class"]
        assert moved["prompt_fingerprint"] != told["prompt_fingerprint"]

    def test_what_cannot_be_rotated_is_named(self) -> None:
        with pytest.raises(InvalidInputError, match="do not contain the choices"):
            rotated(quiz(4, style=None), 1)
        with pytest.raises(InvalidInputError, match="do not contain the choices"):
            rotated(quiz(4, style="cloze"), 1)
        with pytest.raises(InvalidInputError, match="generates its answers"):
            rotated(quiz(4, style="mc_completion"), 1)
        written = Task("t", Prompt(instruction="?"), CompletionSpec(answer="a"), rows=[{"a": "x"}])
        with pytest.raises(InvalidInputError, match="generates its answers"):
            rotated(written, 1)
        with pytest.raises(InvalidInputError, match="already rotated"):
            rotated(rotated(quiz(4), 1), 1)
        with pytest.raises(InvalidTypeError, match="must be a task"):
            rotated("quiz", 1)  # type: ignore[arg-type]


class TestRotationTest:
    def test_equals_all_permutations_of_a_small_case(self) -> None:
        # Three units of three choices: all (3!)³ orders of the contents can be listed.
        picked = [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
        contents = [[(p + r) % 3 for r, p in enumerate(unit)] for unit in picked]

        def chi_square(orders: Any) -> float:
            positions = [(c - r) % 3 for order in orders for r, c in enumerate(order)]
            return float(((np.bincount(positions, minlength=3) - 3.0) ** 2 / 3.0).sum())

        everything = [
            chi_square(orders)
            for orders in itertools.product(*(itertools.permutations(c) for c in contents))
        ]
        observed = chi_square(contents)
        exact = np.mean(np.array(everything) >= observed - 1e-9)
        found = rotation_test(picked, n_permutations=20_000)
        assert found.statistic == pytest.approx(observed)
        assert found.picks == (7, 2, 0)
        assert found.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))

    def test_the_statistic_is_pearsons(self) -> None:
        rng = np.random.default_rng(0)
        picked = rng.integers(0, 4, (50, 4)).tolist()
        found = rotation_test(picked, n_permutations=99)
        assert found.statistic == pytest.approx(stats.chisquare(found.picks).statistic)
        assert found.expected == (50.0,) * 4

    def test_units_of_different_size(self) -> None:
        found = rotation_test([[0, 1], [2, 1, 0], [0, 0, 0]], n_permutations=99)
        assert found.expected == (3.0, 3.0, 2.0)
        assert found.picks == (5, 2, 1)
        assert found.n_inconsistent == 1  # the other two follow their choice

    def test_the_same_choice_everywhere_says_nothing(self) -> None:
        found = rotation_test([[2, 1, 0], [1, 0, 2]] * 10, n_permutations=99)
        assert (found.p_value, found.statistic, found.n_inconsistent) == (1.0, 0.0, 0)

    def test_chance_alone_is_called_bias_no_more_often_than_it_may(self) -> None:
        # A model that guesses by itself under every rotation: 5 % of 300 is 15, standard deviation
        # 3.8; 28 or more would happen once in a thousand.
        rng = np.random.default_rng(7)
        called = sum(
            rotation_test(rng.integers(0, 4, (25, 4)).tolist(), n_permutations=199, seed=i).p_value
            <= 0.05
            for i in range(300)
        )
        assert 4 <= called <= 27

    def test_a_slight_preference_is_found(self) -> None:
        rng = np.random.default_rng(1)
        picked = rng.choice(4, p=[0.4, 0.2, 0.2, 0.2], size=(100, 4)).tolist()
        assert rotation_test(picked, n_permutations=999).p_value < 0.01

    def test_one_seed_one_result(self) -> None:
        picked = [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
        assert rotation_test(picked, seed=1) == rotation_test(picked, seed=1)
        assert rotation_test(picked).to_dict()["picks"] == [7, 2, 0]

    def test_mistakes(self) -> None:
        with pytest.raises(UndefinedMetricError, match="no units"):
            rotation_test([])
        with pytest.raises(InvalidInputError, match=r"picked\[1\] is \[3, 0\]"):
            rotation_test([[0, 1], [3, 0]])
        with pytest.raises(InvalidInputError, match="under each rotation"):
            rotation_test([[0]])


class TestReport:
    def test_a_model_that_takes_a_position(self) -> None:
        found = position_bias(run_rotations(quiz(), always(2)))
        assert [one.picked.value for one in found.positions] == [0.0, 0.0, 1.0, 0.0]
        assert [one.accuracy.value for one in found.positions] == [0.0, 0.0, 1.0, 0.0]
        assert [one.expected for one in found.positions] == [0.25] * 4
        assert (found.accuracy.value, found.consistency.value) == (0.25, 0.0)
        assert found.biased
        assert (found.difference.best, found.difference.worst) == ("C", "A")
        assert found.difference.value == 1.0
        assert found.difference.p_value == pytest.approx(6 * 2 * 0.5**40)

    def test_a_model_that_knows(self) -> None:
        found = position_bias(run_rotations(quiz(), knowing()))
        assert [one.picked.value for one in found.positions] == [0.25] * 4
        assert [one.accuracy.value for one in found.positions] == [1.0] * 4
        assert (found.accuracy.value, found.consistency.value) == (1.0, 1.0)
        for share in (found.consistency, *(one.accuracy for one in found.positions)):
            assert share.ci.method == "wilson"  # type: ignore[union-attr]
        assert not found.biased
        assert (found.difference.value, found.difference.p_value) == (0.0, 1.0)

    def test_the_interval_allows_for_the_pairs_that_were_looked_at(self) -> None:
        found = position_bias(run_rotations(quiz(), always(2)))
        ci = tango_interval(40, 0, 40, confidence=1 - 0.05 / 6)
        assert (found.difference.ci_low, found.difference.ci_high) == (ci.ci_low, ci.ci_high)
        assert found.difference.n_pairs == 6
        assert found.difference.confidence == 0.95

    def test_runs_on_disk_and_records_give_the_same(self, tmp_path: Any) -> None:
        runs = run_rotations(quiz(12), always(1), tmp_path, limit=8)
        opened = [Run.open(tmp_path / f"rotation-{by}") for by in range(4)]
        found = position_bias(runs)
        assert found.n_units == 8
        assert found == position_bias(opened) == position_bias([run.records for run in runs])

    def test_dict_and_table(self) -> None:
        found = position_bias(run_rotations(quiz(), always(2)))
        told = found.to_dict()
        assert told["biased"] is True
        assert told["positions"][2]["label"] == "C"
        assert "| C | 1.000" in found.to_markdown()
        assert "positions matter: p = 0.0002" in found.to_markdown()

    def test_the_right_choice_is_at_every_position_once(self) -> None:
        runs = run_rotations(quiz(), knowing())
        right = [run.records.columns["choice_position_right"] for run in runs]
        assert (np.sort(np.stack(right), axis=0) == np.arange(4)[:, None]).all()


def picks(positions: list[Any], right: list[int], n: list[int], **more: Any) -> Records:
    columns = {
        "choice_position": positions,
        "choice_position_right": right,
        "choice_position_n": n,
    }
    return Records.from_columns(columns, unit_id=[f"u{i}" for i in range(len(n))], **more)


class TestPartsOfIt:
    def test_units_without_a_pick_are_left_out_and_counted(self) -> None:
        runs = [picks([0, 0], [0, 1], [2, 2]), picks([0, None], [1, 0], [2, 2])]
        found = position_bias(runs)
        assert (found.n_units, found.n_left_out) == (1, 1)
        assert "1 left out" in found.to_markdown()

    def test_questions_with_fewer_choices_count_where_they_can(self) -> None:
        # u0 has two choices and u1 three; both take the first position.
        runs = [picks([0, 0], [r % 2, (3 - r) % 3], [2, 3]) for r in range(3)]
        found = position_bias(runs)
        assert [one.accuracy.n_units for one in found.positions] == [2, 2, 1]
        assert [one.expected for one in found.positions] == pytest.approx([2 / 5, 2 / 5, 1 / 5])
        assert found.positions[0].picked.value == 1.0

    def test_questions_with_more_choices_than_rotations_are_left_out(self) -> None:
        runs = [picks([0, 0], [r % 2, (3 - r) % 3], [2, 3]) for r in range(2)]
        assert position_bias(runs).n_left_out == 1

    def test_runs_may_be_paths(self, tmp_path: Path) -> None:
        runs = run_rotations(quiz(8), always(0), tmp_path)
        paths = [tmp_path / f"rotation-{by}" for by in range(4)]
        assert position_bias(paths).to_dict() == position_bias(runs).to_dict()
        assert position_bias(list(map(str, paths))).biased

    def test_groups_are_drawn_and_flipped_together(self) -> None:
        rng = np.random.default_rng(3)
        group = [f"g{i // 4}" for i in range(48)]
        runs = [
            picks(rng.integers(0, 2, 48).tolist(), [r] * 48, [2] * 48, group=group) for r in (0, 1)
        ]
        found = position_bias(runs)
        assert found.consistency.n_groups == 12
        assert found.difference.method.startswith("paired")
        assert found.difference.p_value is not None

    def test_what_are_no_rotations_is_named(self) -> None:
        with pytest.raises(InvalidInputError, match="rotations 0, 1, 2"):
            position_bias([picks([0], [0], [2]), picks([0], [0], [2])])
        first, other = (
            picks([0], [r], [2], content_hash=[digest]) for r, digest in ((0, "x"), (1, "y"))
        )
        with pytest.raises(InvalidInputError, match="differs from the unit in earlier"):
            position_bias([first, other])
        with pytest.raises(InvalidInputError, match="at least two"):
            position_bias([first])
        with pytest.raises(InvalidTypeError, match="a list of runs"):
            position_bias(first)  # type: ignore[arg-type]
        with pytest.raises(InvalidTypeError, match="a list of runs"):
            position_bias("folder")
        with pytest.raises(InvalidTypeError, match=r"runs\[1\]"):
            position_bias([first, 3])  # type: ignore[list-item]
        with pytest.raises(ArtifactError, match="no such folder"):
            position_bias([first, "folder"])
        plain = run_task(quiz(4), always(0), graders=["accuracy"])
        with pytest.raises(InvalidInputError, match="grader 'choice_position'"):
            position_bias([plain, plain])
        with pytest.raises(UndefinedMetricError, match="none of the 1 units"):
            position_bias([picks([None], [0], [2]), picks([0], [1], [2])])

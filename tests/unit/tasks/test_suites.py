"""Suites of tasks: settings from the outside in, one run per task, means with intervals."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval_toolkit.analysis import leaderboard
from eval_toolkit.errors import InvalidInputError, ModelError, PluginError
from eval_toolkit.inference import macro_mean
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.tasks import BaseTask, ResponseType
from eval_toolkit.tasks.suites import Aggregate, Leaf, Suite, load_suite, run_suite


class Words(BaseTask[str]):
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = ("exact_match",)

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return str(item["q"])

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["a"])


def words(name: str, n: int, right: int) -> Words:
    """A task of n items, of which the answer "x" is right for the first ``right``."""
    made = type(name, (Words,), {"NAME": name})
    return made(rows=[{"q": f"{name} {i}", "a": "x" if i < right else "y"} for i in range(n)])


class TestSettings:
    def test_inner_settings_count_more(self):
        inner = Suite("inner", [Leaf("a", settings={"limit": 3}), "b"], {"limit": 2, "stop": ["."]})
        outer = Suite("outer", [inner, "c"], {"limit": 1, "temperature": 0.5})
        told = {leaf.name: leaf.settings for leaf in outer.leaves({"limit": 9, "order": "file"})}
        assert [told[name]["limit"] for name in "abc"] == [3, 2, 1]
        assert all(one["temperature"] == 0.5 and one["order"] == "file" for one in told.values())
        assert "stop" not in told["c"]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Suite("s", []), "has no tasks"),
            (lambda: Suite("s", ["a", "a"]), "two tasks 'a'; give one of them a different `label`"),
            (lambda: Suite("s", ["a"], {"limt": 1}), "did you mean 'limit'"),
            (lambda: Leaf("a", settings={"fewshot": 1}), "no setting 'fewshot'"),
            (
                lambda: Suite("s", ["arc"], {}, [Aggregate("m", [("ark", "accuracy")])]),
                "did you mean 'arc'",
            ),
            (lambda: Aggregate("m", []), "has no sources"),
            (lambda: Aggregate("m", [("a", "b")], "sum"), "method of 'm'"),
        ],
    )
    def test_refusals(self, make, message):
        with pytest.raises(InvalidInputError, match=message):
            make()

    def test_a_made_task_takes_no_settings_of_tasks(self):
        with pytest.raises(
            InvalidInputError, match="an existing object; it does not accept the setting 'seed'"
        ):
            run_suite(Suite("s", [words("w", 2, 1)], {"seed": 1}), ScriptedModel("x"))


class TestFiles:
    def test_toml_with_a_suite_inside(self, tmp_path: Path):
        (tmp_path / "own.toml").write_text(
            '[task]\nname = "own"\ndata = "own.jsonl"\n[prompt]\ninstruction = "{q}"\n'
            'answer = "a"\n[graders.exact_match]\n'
        )
        (tmp_path / "own.jsonl").write_text('{"q": "1", "a": "x"}\n{"q": "2", "a": "y"}\n')
        (tmp_path / "s.toml").write_text(
            'name = "s"\nlimit = 5\ntasks = ["own.toml", {name = "more", limit = 1, tasks = '
            '[{task = "capitals_open", label = "caps", max_tokens = 4}]}]\n'
            '[[aggregates]]\nname = "both"\nsources = [{task = "own", metric = "exact_match"}, '
            '{task = "caps", metric = "exact_match"}]\n'
        )
        suite = load_suite(tmp_path / "s.toml")
        assert [leaf.name for leaf in suite.leaves()] == ["own", "caps"]
        done = run_suite(suite, ScriptedModel("x"), tmp_path / "out")
        assert done.aggregates["both"].value == pytest.approx(0.25)
        written = json.loads((tmp_path / "out" / "suite.json").read_text())
        assert written["aggregates"]["both"]["value"] == pytest.approx(0.25)
        assert written["tasks"]["caps"]["path"] == "caps"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("tasks = []", "has no tasks"),
            ('name = "s"', "`tasks` must be a list"),
            ('tasks = [{data = "x"}]', "has no `task`"),
            ('tasks = ["a"]\nlimits = 3', "did you mean 'limit'"),
            ('tasks = [{tasks = ["a"]}]', "no `name`"),
            ("tasks = [3]", "a name or a table"),
            ('tasks = ["a"]\n[[aggregates]]\nname="m"\nsources=[{task="a"}]', "needs `task` and"),
            (
                'tasks = ["a"]\n[[aggregates]]\nname="m"\nsources=3',
                "`sources` is 3; it must be a list",
            ),
            ('tasks = [{task="a", label=[1]}, "b"]', r"`label` is \[1\]; it must be a string"),
            ('tasks = ["a"]\naggregates = 3', "the suite is malformed: TypeError"),
        ],
    )
    def test_refusals_name_the_file(self, tmp_path: Path, text: str, message: str):
        file = tmp_path / "s.toml"
        file.write_text(text)
        with pytest.raises(InvalidInputError, match=message) as caught:
            load_suite(file)
        assert str(caught.value).startswith(str(file))


class TestRunning:
    def test_the_mean_is_that_of_independent_parts(self):
        suite = Suite("s", [words("a", 40, 30), words("b", 10, 2)])
        value = run_suite(suite, ScriptedModel("x")).aggregates["s"]
        expected = macro_mean([[1] * 30 + [0] * 10, [1] * 2 + [0] * 8])
        assert value.value == pytest.approx((0.75 + 0.2) / 2)
        assert value.standard_error == pytest.approx(expected.se)
        assert (value.ci_low, value.ci_high) == pytest.approx(
            (expected.ci.ci_low, expected.ci.ci_high)
        )
        assert value.n_units == 50

    @pytest.mark.parametrize("right", [(30, 2), (40, 10)])
    def test_metrics_that_are_no_column_use_the_tasks_intervals(self, right):
        tasks = [words("a", 40, right[0]), words("b", 10, right[1])]
        metric = "exact_match_pass@1"
        wanted = Aggregate("m", [("a", metric), ("b", metric)])
        suite = Suite("s", tasks, {"attempts": 2, "pass_at": [1], "temperature": 1.0}, [wanted])
        done = run_suite(suite, ScriptedModel("x"))
        cells = [done.runs[name].card[metric] for name in "ab"]
        errors = [cell.details["standard_error"] for cell in cells]
        value = done.aggregates["m"]
        assert value.standard_error == pytest.approx(math.hypot(*errors) / 2)
        below = [cell.value - cell.ci.ci_low for cell in cells]  # Zou & Donner's sum of squares
        assert value.value - value.ci_low == pytest.approx(math.hypot(*below) / 2)
        assert value.ci_low < value.value <= value.ci_high <= 1.0

    def test_the_median_says_that_it_has_no_interval(self):
        tasks = [words(name, 10, right) for name, right in (("a", 1), ("b", 5), ("c", 9))]
        wanted = Aggregate("m", [(name, "exact_match") for name in "abc"], "median")
        value = run_suite(Suite("s", tasks, {}, [wanted]), ScriptedModel("x")).aggregates["m"]
        assert (value.value, value.ci_low) == (0.5, None)
        assert "no interval" in value.reason

    def test_items_that_two_tasks_share_are_not_two_items(self, tmp_path: Path):
        # Equal answers to equal items: the mean of both is as uncertain as either.
        task = words("w", 60, 43)
        suite = Suite("s", [Leaf(task, "a"), Leaf(task, "b")])
        inside = run_suite(suite, ScriptedModel("x"), tmp_path).aggregates["s"]
        nowhere = run_suite(suite, ScriptedModel("x")).aggregates["s"]
        assert inside == nowhere
        alone = run_suite(Suite("s", [task]), ScriptedModel("x")).aggregates["s"]
        assert inside.standard_error == pytest.approx(alone.standard_error, rel=0.02)

    def test_the_confidence_of_a_suite_is_that_of_its_means(self):
        suite = Suite("s", [words("a", 40, 30), words("b", 10, 2)], {"confidence": 0.5})
        assert run_suite(suite, ScriptedModel("x")).aggregates["s"].confidence == 0.5

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"graders": ["accuracy"]}, "grades log-likelihoods"),
            ({"graders": ["nope"]}, "nope"),
            ({"pass_at": [5]}, "attempts"),
            ({"limit": -1}, "limit"),
            ({"order": "x"}, "order"),
            ({"formatter": "zzz"}, "zzz"),
            ({"top_p": 7.0}, "top_p"),
        ],
    )
    def test_mistakes_are_found_before_anything_is_asked(self, settings, message):
        def answer(request: Any) -> str:
            raise AssertionError("asked")

        suite = Suite("s", [words("a", 4, 2), Leaf(words("b", 4, 2), settings=settings)])
        with pytest.raises((InvalidInputError, PluginError), match=message):
            run_suite(suite, ScriptedModel(answer))

    def test_running_again_asks_nothing(self, tmp_path: Path):
        suite = Suite("s", [words("a", 5, 3), words("b", 4, 2)])
        first = run_suite(suite, ScriptedModel("x"), tmp_path)
        again = run_suite(suite, ScriptedModel("x"), tmp_path)
        assert [run.n_asked for run in first.runs.values()] == [5, 4]
        assert [run.n_asked for run in again.runs.values()] == [0, 0]
        assert first.aggregates == again.aggregates

    def test_a_task_that_fails_is_named_and_the_others_are_run(self, tmp_path: Path):
        def answer(request: Any) -> str:
            if "bad" in str(request.prompt):
                raise ModelError("no such deployment", kind="auth")
            return "x"

        suite = Suite("s", [words("bad", 4, 2), words("good", 4, 2)])
        done = run_suite(suite, ScriptedModel(answer), tmp_path)
        assert list(done.runs) == ["good"]
        assert "no such deployment" in done.failures["bad"]
        assert done.failed
        value = done.aggregates["s"]
        assert (value.value, value.status) == (None, "skipped")
        assert "bad was not finished" in value.reason
        assert (tmp_path / "suite.json").is_file()

    def test_an_unknown_metric_is_a_reason(self):
        wanted = Aggregate("m", [("a", "f1")])
        value = run_suite(Suite("s", [words("a", 4, 2)], {}, [wanted]), ScriptedModel("x"))
        assert "has no metric 'f1'; it has exact_match" in value.aggregates["m"].reason

    def test_two_models_make_a_leaderboard(self, tmp_path: Path):
        suite = Suite("s", [words("a", 60, 50), words("b", 40, 30)])
        for answer in "xy":
            model = ScriptedModel(answer, name=f"says {answer}")
            run_suite(suite, model, tmp_path / answer)
        board = leaderboard(
            [tmp_path / answer / task for answer in "xy" for task in "ab"], n_draws=200
        )
        assert board.ranking.best == ("says x",)
        values = {system.name: system.value for system in board.systems}
        assert values["says x"] == pytest.approx(np.mean([50 / 60, 30 / 40]))

"""``eval-toolkit judge``: who judges, what is kept, and a judge beside people."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from eval_toolkit.analysis import judge_study
from eval_toolkit.cli._models import model_options
from eval_toolkit.graders.judges import RUBRICS
from eval_toolkit.inference import plan_labels
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run
from eval_toolkit.scorecards import Records
from eval_toolkit.tasks import load_task, run_task

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]
N = 20

TASK = """
[task]
name = "sums"
data = "sums.jsonl"

[prompt]
instruction = "What is {a} + 1?"
answer = "answer"

[graders.exact_match]
"""

JUDGES = r"""
from eval_toolkit.errors import ModelError
from eval_toolkit.models import ScriptedModel

asked = []

def shown(request, what):
    return request.prompt[-1].content.partition(f"<{what} ")[2].split("\n")[1]

def fair(request):
    asked.append(shown(request, "question"))
    return "Yes." if shown(request, "reference") == shown(request, "answer") else "No."

def mumbles(request):
    return "Hard to say" if shown(request, "answer") == "3" else fair(request)

def down(request):
    raise ModelError("the server is down", kind="auth")

def compares(request):
    a, b = shown(request, "answer A"), shown(request, "answer B")
    return "[[C]]" if a == b else "[[A]]" if a > b else "[[B]]"

oracle = ScriptedModel(fair, name="oracle")
strict = ScriptedModel("No.", name="strict")
mild = ScriptedModel("Yes.", name="mild")
mumbler = ScriptedModel(mumbles, name="mumbler")
broken = ScriptedModel(down, name="broken")
longer = ScriptedModel(compares, name="longer")
first = ScriptedModel("[[A]]", name="first")
"""


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of judges; what it was asked is in ``asked``."""
    (tmp_path / "the_judges.py").write_text(JUDGES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "the_judges", raising=False)
    return importlib.import_module("the_judges")


@pytest.fixture
def task(tmp_path: Path, judges: Any) -> Path:
    rows = [{"id": f"q{i:02d}", "a": i, "answer": str(i + 1)} for i in range(N)]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "sums.toml").write_text(TASK)
    return tmp_path / "sums.toml"


@pytest.fixture
def answered(task: Path, tmp_path: Path) -> Path:
    """A run in which the answer is always 3: right once."""
    run_task(load_task(str(task)), ScriptedModel("3", name="three"), tmp_path / "three")
    return tmp_path / "three"


class TestRun:
    def test_the_answers_are_judged_and_nobody_else_is_asked(
        self, command: Command, answered: Path, task: Path, judges: Any
    ) -> None:
        code, out, _ = command(
            "judge", "run", answered, "--task", task, "--judge", "the_judges:oracle"
        )
        assert code == 0
        assert "task sums, model three: 20 samples" in out
        lines = [line.split() for line in out.splitlines()]
        # The lower end of 1 in 20: -log(0.95) / 20 (Brown, Cai and DasGupta 2001).
        assert ["correctness", "0.050", "[0.003,", "0.236]", "0.050", "20", "0"] in lines
        assert "0 requests sent, 20 cached answers" in out
        assert "judge correctness (oracle): 20 requests sent" in out
        assert len(set(judges.asked)) == len(judges.asked) == N

    def test_the_same_command_asks_nothing_twice(
        self, command: Command, answered: Path, task: Path, judges: Any, tmp_path: Path
    ) -> None:
        arguments = ("judge", "run", answered, "--task", task, "--judge", "the_judges:oracle")
        first = command(*arguments)[1]
        again = command(*arguments)[1]
        assert len(judges.asked) == N
        assert "judge correctness (oracle): 0 requests sent, 20 cached verdicts" in again
        (folder,) = (tmp_path / "runs").iterdir()
        assert folder.name.startswith("sums-three-judged-")
        assert f"run runs/{folder.name}" in first
        assert Run.open(answered).manifest["config"]["graders"].keys() == {"exact_match"}

    def test_out_may_be_the_run_itself(self, command: Command, answered: Path, task: Path) -> None:
        code, _, _ = command(
            *("judge", "run", answered, "--task", task, "--judge", "the_judges:strict"),
            *("--out", answered, "--rubric", "correctness", "--rubric", "refusal"),
        )
        assert code == 0
        config = Run.open(answered).manifest["config"]
        assert config["graders"].keys() == {"exact_match", "correctness", "refusal"}

    def test_a_verdict_that_cannot_be_read_is_an_error(
        self, command: Command, answered: Path, task: Path
    ) -> None:
        arguments = ("judge", "run", answered, "--task", task, "--judge", "the_judges:mumbler")
        code, out, _ = command(*arguments, "--no-store")
        assert code == 3
        assert "20 × unparsable verdict" in out
        assert command(*arguments, "--no-store", "--max-error-rate", 1)[0] == 0

    def test_judges_of_one_name_are_numbered(
        self, as_json: Json, answered: Path, task: Path
    ) -> None:
        told = as_json(
            *("judge", "run", answered, "--task", task, "--no-store", "--quiet", "--rule", "mean"),
            *("--judge", "scripted:Yes", "--judge", "scripted:No"),
        )
        assert list(told["judges"]) == ["correctness_scripted", "correctness_scripted_2"]
        cells = told["results"]["by_slice"]["sums"]["by_scorer"]["three"]
        assert cells["correctness"]["value"] == 0.5

    def test_options_of_http_are_for_judges_that_it_reaches(self) -> None:
        chosen: list[Any] = []

        @click.command()
        @model_options
        def probe(choose: Any) -> None:
            names = ["scripted:Yes", "openai:m", "openai:n{base_url='http://b/v1', max_tries=2}"]
            chosen.extend(choose(name, among=names) for name in names)
            chosen.append(choose("scripted:{x}"))

        probe.main(["--base-url", "http://a/v1"], standalone_mode=False)
        assert [(one.name, one.options) for one in chosen] == [
            ("scripted:Yes", {}),
            ("openai:m", {"base_url": "http://a/v1"}),
            ("openai:n", {"base_url": "http://b/v1", "max_tries": 2}),
            ("scripted:{x}", {"base_url": "http://a/v1"}),
        ]

    def test_a_rubric_without_a_part_is_known_by_its_file(
        self, command: Command, answered: Path, task: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "r.toml").write_text('name = "r"\ncriteria = "x"\n')
        arguments = ("--task", task, "--judge", "scripted:Yes", "--rubric", tmp_path / "r.toml")
        code, _, err = command("judge", "run", answered, *arguments)
        assert code == 2
        assert err == f"error: {tmp_path / 'r.toml'}: the rubric lacks the field 'verdict'\n"

    def test_several_judges_are_a_panel(self, as_json: Json, answered: Path, task: Path) -> None:
        found = as_json(
            *("judge", "run", answered, "--task", task, "--no-store", "--rubric", "refusal"),
            *("--judge", "the_judges:strict", "--judge", "the_judges:mild"),
            *("--judge", "scripted:No.", "--grader", "exact_match"),
        )
        cells = found["results"]["by_slice"]["sums"]["by_scorer"]["three"]
        assert cells["refusal"]["value"] == 0.0  # two of three say no
        assert cells["refusal_mild"]["value"] == 1.0
        assert found["judges"].keys() == {"refusal_strict", "refusal_mild", "refusal_scripted"}

    def test_votes_need_a_temperature(
        self, command: Command, as_json: Json, answered: Path, task: Path
    ) -> None:
        arguments = (
            *("judge", "run", answered, "--task", task, "--no-store", "--votes", 3),
            *("--judge", "the_judges:oracle"),
        )
        code, _, err = command(*arguments)
        assert code == 2
        assert err == (
            "error: --votes is 3 at temperature 0, where all votes would be identical; set --temperature\n"
        )
        found = as_json(*arguments, "--temperature", 0.5)
        assert found["judges"]["correctness"]["n_asked"] == 3 * N

    def test_a_rubric_of_ones_own(
        self, as_json: Json, answered: Path, task: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "polite.toml").write_text(
            'name = "polite"\ncriteria = "Is it polite?"\n'
            "verdict = { labels = { yes = 1, no = 0 } }\n"
        )
        found = as_json(
            *("judge", "run", answered, "--task", task, "--no-store"),
            *("--judge", "the_judges:mild", "--rubric", tmp_path / "polite.toml"),
        )
        cells = found["results"]["by_slice"]["sums"]["by_scorer"]["three"]
        assert cells["polite"]["value"] == 1.0

    def test_a_judge_that_is_down_ends_with_3_and_one_line(
        self, command: Command, answered: Path, task: Path
    ) -> None:
        code, out, err = command(
            *("judge", "run", answered, "--task", task, "--judge", "the_judges:broken", "--quiet")
        )
        assert (code, out) == (3, "")
        assert "the server is down" in err.splitlines()[0]

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("--rubric", "refusals"), "did you mean 'refusal'?"),
            (("--rubric", "none.toml"), "none.toml: no such file"),
            (("--seed", 7), "the run has task.seed = 42"),
            (("--out", "x", "--no-store"), "pass either --out or --no-store, not both"),
            (("--out", ""), "--out is empty"),
            (("--judge", "the_judges:oracle2"), "oracle2"),
            (("--judge", "the_judges:oracle", "--limit", 2), "No such option"),
        ],
    )
    def test_refuses_in_one_line(
        self, command: Command, answered: Path, task: Path, args: Any, message: str
    ) -> None:
        given = args if "--judge" in args else (*args, "--judge", "the_judges:oracle")
        code, out, err = command("judge", "run", answered, "--task", task, *given)
        assert (code, out) == (2, "")
        assert message in err
        assert not Path("runs").exists()

    def test_a_run_of_another_task(self, command: Command, answered: Path) -> None:
        code, _, err = command(
            *("judge", "run", answered, "--task", "capitals_open", "--judge", "scripted:yes")
        )
        assert code == 2
        assert "is a run of 'sums', not of 'capitals_open'" in err


class TestPairs:
    @pytest.fixture
    def two(self, answered: Path, task: Path, tmp_path: Path) -> tuple[Path, Path]:
        """Answers 3 half of the time, then 4 nine times and 2 once; against always 3."""

        def says(request: Any) -> str:
            n = int(request.prompt[-1].content.split()[2])
            return "3" if n < 10 else "4" if n < 19 else "2"

        run_task(load_task(str(task)), ScriptedModel(says, name="mixed"), tmp_path / "mixed")
        return tmp_path / "mixed", answered

    def test_win_rate_ties_and_place(
        self, command: Command, two: tuple[Path, Path], task: Path
    ) -> None:
        code, out, _ = command(
            "judge", "pairs", *two, "--task", task, "--judge", "the_judges:longer"
        )
        assert code == 0
        assert f"A is mixed ({two[0]}), B is three ({two[1]})" in out
        assert "task sums: 20 pairs, judged by longer in both orders" in out
        shares = {
            line.split("  ")[0]: line.split("  ", 1)[1].split()[0] for line in out.splitlines()[5:9]
        }
        # 9 wins, 10 ties and a defeat: (9 + 5) / 20.
        assert shares == {
            "A wins, ties count half": "0.700",
            "ties": "0.500",
            "both orders agree": "1.000",
            "the first answer shown wins": "0.500",
        }
        assert "A is better" in out
        assert "no significant bias" in out
        assert "run runs/sums-mixed-three-pairs-" in out

    def test_a_judge_that_goes_by_the_place_is_seen(
        self, command: Command, as_json: Json, two: tuple[Path, Path], task: Path
    ) -> None:
        arguments = ("judge", "pairs", *two, "--task", task, "--judge", "the_judges:first")
        out = command(*arguments, "--no-store")[1]
        assert "no significant difference" in out
        assert "the judge prefers the first" in out
        code, out, _ = command(*arguments, "--no-store", "--disagreeing", "error")
        assert code == 3
        assert "20 of 20 pairs have no verdict" in out
        assert "20 × the two orders disagree" in out
        once = as_json(*arguments, "--no-store", "--one-order", "--criteria", "Which is longer?")
        assert once["judges"]["pair"]["n_requests"] == N

    def test_refuses_in_one_line(
        self, command: Command, two: tuple[Path, Path], task: Path
    ) -> None:
        code, out, err = command(
            *("judge", "pairs", *two, "--task", task, "--judge", "scripted:x", "--criteria", " ")
        )
        assert (code, out) == (2, "")
        assert "criteria" in err


class TestRubrics:
    def test_all_are_listed(self, command: Command, as_json: Json) -> None:
        found = as_json("judge", "rubrics")["rubrics"]
        assert [rubric["name"] for rubric in found] == list(RUBRICS)
        code, out, _ = command("judge", "rubrics")
        assert code == 0
        assert "a number from 1 to 10" in out
        assert "follows_instruction" in out


def columns(n: int = 300, n_labels: int = 90) -> dict[str, list[Any]]:
    """A judge that is right nine times in ten, and labels on a random part."""
    generator = np.random.default_rng(5)
    truth = generator.random(n) < 0.4
    verdict = np.where(generator.random(n) < 0.9, truth, ~truth)
    labelled = np.zeros(n, dtype=bool)
    labelled[generator.permutation(n)[:n_labels]] = True
    return {
        "id": [f"u{i:03d}" for i in range(n)],
        "judge": verdict.astype(int).tolist(),
        "human": [int(t) if has else None for t, has in zip(truth, labelled, strict=True)],
    }


def write(path: Path, table: dict[str, list[Any]], names: dict[Any, str] | None = None) -> Path:
    lines = [
        ",".join("" if v is None else (names or {}).get(v, str(v)) for v in row)
        for row in zip(*table.values(), strict=True)
    ]
    path.write_text("\n".join([",".join(table), *lines]) + "\n")
    return path


class TestStudy:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return write(tmp_path / "verdicts.csv", columns())

    @pytest.fixture
    def arguments(self, file: Path) -> tuple[Any, ...]:
        return ("judge", "study", file, "--judge", "judge", "--human", "human")

    def test_says_what_the_library_says(self, as_json: Json, arguments: Any) -> None:
        told = as_json(*arguments, "--seed", 1, "--resamples", 200, "--width", 0.12)
        table = columns()
        records = Records.from_columns(
            {"judge": table["judge"], "human": table["human"]}, unit_id=table["id"]
        )
        study = judge_study(records, judge="judge", human="human", seed=1, n_resamples=200)
        plans = told.pop("next_labels")["plans"]
        assert told == json.loads(json.dumps(study.to_dict()))
        plan = plan_labels(table["judge"], table["human"], half_width=0.06)
        assert plans["ppi++"] == plan.to_dict()

    def test_prints_the_rate_the_agreement_and_what_to_buy(
        self, command: Command, arguments: Any
    ) -> None:
        code, out, _ = command(*arguments)
        assert code == 0
        assert "300 verdicts, 90 of them with a label" in out
        for words in ("verdicts without correction", "kappa", "sensitivity", "people 1"):
            assert words in out
        assert "labels for an interval of width" in out
        assert "random sample, with the judge's verdicts" in out

    def test_words_as_labels(
        self, as_json: Json, arguments: Any, file: Path, tmp_path: Path
    ) -> None:
        plain = as_json(*arguments)
        names = {1: "refused", 0: "helped"}
        words = write(tmp_path / "words.csv", columns(), names)
        told = as_json(
            *("judge", "study", words, "--judge", "judge", "--human", "human"),
            *("--positive", "refused"),
        )
        assert told == plain

    def test_labels_of_another_file_are_joined(
        self, as_json: Json, command: Command, arguments: Any, tmp_path: Path
    ) -> None:
        table = columns()
        alone = write(tmp_path / "alone.csv", {name: table[name] for name in ("id", "judge")})
        known = [row for row, label in enumerate(table["human"]) if label is not None][::-1]
        people = {name: [table[name][row] for row in known] for name in ("id", "human")}
        labels = write(tmp_path / "people.csv", people)
        args = ("judge", "study", alone, "--judge", "judge", "--human", "human", "--labels", labels)
        assert as_json(*args) == as_json(*arguments)
        people["id"][0] = "somebody else"
        write(labels, people)
        assert (
            "1 labels are not used, because their units are not in the source" in command(*args)[1]
        )
        people["id"] = [f"x{i}" for i in range(len(known))]
        write(labels, people)
        code, _, err = command(*args)
        assert code == 2
        assert "none of its 'id' values is a unit of" in err
        assert "it has 'x0', 'x1', 'x2', and" in err

    def test_a_run_and_a_file_of_labels(
        self, command: Command, as_json: Json, answered: Path, tmp_path: Path
    ) -> None:
        unit_ids = Run.open(answered).records("sums", "three").unit_id.tolist()
        labels = {"unit_id": unit_ids[:12], "right": [int(u == "q02") for u in unit_ids[:12]]}
        people = write(tmp_path / "people.csv", labels)
        arguments = ("judge", "study", answered, "--judge", "exact_match", "--human", "right")
        told = as_json(*arguments, "--labels", people)
        assert (told["n_records"], told["n_labels"]) == (N, 12)
        assert told["agreement"]["agreement"]["proportion"] == 1.0
        code, _, err = command(*arguments)
        assert code == 2
        assert (
            "there is no column 'right' (--human); if the human labels are in another file" in err
        )

    def test_attempts_are_told_apart(
        self, command: Command, as_json: Json, task: Path, tmp_path: Path
    ) -> None:
        model = ScriptedModel("3", name="three")
        run = run_task(load_task(str(task)), model, tmp_path / "r", attempts=2, temperature=1.0)
        ids = sorted(set(run.records.unit_id.tolist()))[:8]
        people = {"unit_id": ids, "right": [int(one == "q02") for one in ids]}
        arguments = (
            *("judge", "study", tmp_path / "r", "--judge", "exact_match", "--human", "right"),
            *("--labels", write(tmp_path / "people.csv", people)),
        )
        code, _, err = command(*arguments)
        assert code == 2
        assert "add a column 'attempt'" in err
        write(tmp_path / "people.csv", {**people, "attempt": [2] * 8})
        told = as_json(*arguments)
        assert (told["n_records"], told["n_labels"]) == (2 * N, 8)

    def test_labels_bought_by_verdict_are_refused_until_said(
        self, command: Command, tmp_path: Path
    ) -> None:
        table = columns()
        truth = columns(n_labels=300)["human"]
        wanted = [row for row, verdict in enumerate(table["judge"]) if verdict][:60]
        wanted += [row for row, verdict in enumerate(table["judge"]) if not verdict][:10]
        table["human"] = [truth[row] if row in wanted else None for row in range(300)]
        file = write(tmp_path / "bought.csv", table)
        arguments = ("judge", "study", file, "--judge", "judge", "--human", "human")
        code, out, err = command(*arguments)
        assert (code, out) == (2, "")
        assert "Use --by-verdict if labels were sampled by verdict" in err
        code, out, _ = command(*arguments, "--by-verdict")
        assert code == 0
        assert "precision" in out
        assert "sensitivity" not in out.replace("corrected by sensitivity", "")
        assert "no labels-only: method 'labels-only' requires randomly chosen labels" in out
        assert "sampled by verdict (pass --by-verdict)" in out
        assert "random sample" not in out

    def test_an_unreachable_width_is_said(self, command: Command, arguments: Any) -> None:
        code, out, _ = command(*arguments, "--width", 0.01)
        assert code == 0
        assert "no plan by ppi++: even with every row labelled the width is" in out

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("--judge", "judge", "--human", "judge"), "--judge and --human name the same column"),
            (("--judge", "jud", "--human", "human"), "there is no column 'jud' (--judge)"),
            (("--judge", "judge", "--human", "hum"), "there is no column 'hum' (--human)"),
            (("--judge", "id", "--human", "human"), "row 1: 'id' is 'u000', which is not a number"),
            (("--judge", "judge", "--human", "human", "--positive", "y"), "'y' does not occur"),
            (("--judge", "judge", "--human", "human", "--group", "g"), "no column 'g' (--group)"),
        ],
    )
    def test_refuses_in_one_line(
        self, command: Command, file: Path, args: Any, message: str
    ) -> None:
        code, out, err = command("judge", "study", file, *args)
        assert (code, out) == (2, "")
        assert message in err

    def test_the_output_is_no_input(self, command: Command, arguments: Any, file: Path) -> None:
        before = file.read_bytes()
        code, _, err = command(*arguments, "--out", file)
        assert code == 2
        assert "--out would overwrite" in err
        assert file.read_bytes() == before


def test_the_study_of_real_refusals(as_json: Json, shared_data: Path) -> None:
    """XSTest: one annotator as the judge, the final label of all annotators as people."""
    told = as_json(
        *("judge", "study", shared_data / "redteam/xstest_completions_llama2new_human_labels.csv"),
        *("--judge", "annotation_1", "--human", "final_label"),
        *("--positive", "2_full_refusal", "--positive", "3_partial_refusal"),
    )
    rates = {row["method"]: row for row in told["estimates"]}
    # 230 full and 44 partial refusals of 450.
    assert rates["labels-only"]["value"] == pytest.approx(274 / 450)
    assert told["n_labels"] == 450

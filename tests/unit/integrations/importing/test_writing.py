"""What an imported log becomes: an ordinary run that everything else reads."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile import SHORT

from eval_toolkit._internal.hashing import content_hash
from eval_toolkit.analysis import compare_runs, leaderboard
from eval_toolkit.artifacts import validate_results
from eval_toolkit.artifacts.validation import validate_manifest
from eval_toolkit.claims import evaluate_gate
from eval_toolkit.graders import Grade
from eval_toolkit.integrations.importing import (
    ChoiceScore,
    Imported,
    Log,
    LoggedSample,
    LoggedTurn,
    Stated,
    import_logs,
)
from eval_toolkit.integrations.importing import imports as imports_module
from eval_toolkit.integrations.importing.writing import folder_names
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.runner import read_outcomes
from eval_toolkit.report import write_report
from eval_toolkit.rollouts.turns import rollouts_of
from eval_toolkit.runs import Run, run_state
from eval_toolkit.tasks.references import references_of

Write = Callable[..., list[Imported]]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Import logs that no file holds."""

    def run(*logs: Log, folder: str = "runs", **more: Any) -> list[Imported]:
        monkeypatch.setattr(imports_module, "read_logs", lambda path, wanted: list(logs))
        return import_logs("anywhere", tmp_path / folder, **more)

    return run


def answers(n: int = 30, right: int = 20, **more: Any) -> list[LoggedSample]:
    return [
        LoggedSample(
            unit_id=f"q{at:02d}",
            input=f"{at} + {at}?",
            target=str(2 * at),
            values={"acc": float(at < right), "f1": (at % 5) / 4},
            prompt=(Message(Role.USER, f"{at} + {at}?"),),
            response=f"It is {2 * at}.",
            parts={"level": "easy" if at % 2 else "hard"},
            **more,
        )
        for at in range(n)
    ]


def task_log(model: str = "org/m", right: int = 20, **more: Any) -> Log:
    return Log(tool="inspect", task="sums", model=model, samples=answers(right=right), **more)


def run_of(found: Imported) -> Run:
    assert found.run is not None
    return found.run


class TestTasks:
    def test_records(self, write: Write) -> None:
        run = run_of(write(task_log())[0])
        records = run.records("sums", "org/m")
        assert records.unit_id.tolist() == [f"q{at:02d}" for at in range(30)]
        assert records.content_hash[3] == content_hash("3 + 3?", "6")
        assert records.columns["acc"].sum() == 20
        assert records.slices["level"][:2].tolist() == ["hard", "easy"]

    def test_tables(self, write: Write) -> None:
        run = run_of(write(task_log())[0])
        outcome = read_outcomes(run.table("responses.parquet"))[3]
        assert outcome.job.key == ("q03", 1, "")
        assert outcome.job.request.prompt == (Message(Role.USER, "3 + 3?"),)
        assert getattr(outcome.response, "text", None) == "It is 6."
        assert run.table("responses.parquet")["usage"].tolist() == [None] * 30
        assert references_of(run, ["q03"])["q03"].text == "6"
        assert run.inputs is not None
        assert run.inputs.text_of("sums", "q03") == "3 + 3?"

    def test_choices(self, write: Write) -> None:
        sample = LoggedSample(
            unit_id="1",
            input="Which?",
            target="b",
            values={"acc": 1.0},
            prompt="Which?",
            choices=[ChoiceScore(" b", -2.0, False), ChoiceScore(" b", -1.0, True)],
            correct=(1,),
            usage={"prompt_tokens": 7, "completion_tokens": 0, "cost": 0.5},
        )
        run = run_of(write(Log(tool="t", task="q", model="m", samples=[sample]))[0])
        (outcome,) = read_outcomes(run.table("responses.parquet"))
        assert getattr(outcome.response, "loglikelihoods", None) == [-2.0, -1.0]
        assert references_of(run, ["1"])["1"].correct == (1,)
        assert json.loads(run.table("responses.parquet")["usage"][0]) == {
            "prompt_tokens": 7,
            "completion_tokens": 0,
            "cost": 0.5,
        }
        assert run.manifest["config"]["task"]["response_type"] == "loglikelihoods"
        assert run.manifest["usage"]["prompt_tokens"] == 7

    def test_failures(self, write: Write) -> None:
        failed = LoggedSample(
            unit_id="x", values={"acc": Grade.error("timeout")}, input="?", error="no\nanswer"
        )
        log = Log(tool="t", task="sums", model="m", samples=[*answers(), failed], n_planned=40)
        run = run_of(write(log)[0])
        assert run.manifest["counts"] == {
            "n_samples": 31,
            "n_requests": 31,
            "n_failed_requests": 1,
            "n_errors": 1,
            "n_without_trace": 9,
        }
        outcome = read_outcomes(run.table("responses.parquet"))[-1]
        assert outcome.error is not None
        assert outcome.error.message == "no answer"
        assert run.results["by_slice"]["sums"]["by_scorer"]["m"]["acc"]["n_errors"] == 1

    def test_results_and_manifest(self, write: Write) -> None:
        """Expected: Wilson's interval of 20 of 30, 0.4878 to 0.8077."""
        stated = [Stated(column="acc", name="accuracy", value=20 / 30, n=30)]
        log = task_log(
            stated=stated,
            settings={"task_version": 3, "model_args": {"api_key": "sk-not-to-be-kept"}},
            tool_version="0.3.1",
            notes=("the log's status is cancelled",),
        )
        run = run_of(write(log)[0])
        validate_results(run.results)
        validate_manifest(run.manifest)
        cell = run.results["by_slice"]["sums"]["by_scorer"]["org/m"]["acc"]
        assert cell["ci"]["method"] == "wilson"
        assert cell["ci"]["ci_95"] == pytest.approx([0.4878, 0.8077], abs=5e-5)
        assert sorted(run.results["by_slice"]["sums"]["parts"]) == ["level=easy", "level=hard"]
        imported = run.manifest["config"]["imported"]
        assert (imported["tool"], imported["tool_version"]) == ("inspect", "0.3.1")
        assert imported["checked"][0]["agrees"] is True
        assert run.manifest["notes"] == ["the log's status is cancelled"]
        assert "not-to-be-kept" not in (run.path / "manifest.json").read_text()
        assert "not-to-be-kept" not in (run.path / "results.json").read_text()

    def test_the_same_bytes_twice(self, write: Write) -> None:
        first, second = (run_of(write(task_log(), folder=name)[0]) for name in ("a", "b"))
        for name in ("records.parquet", "results.json", "responses.parquet"):
            assert (first.path / name).read_bytes() == (second.path / name).read_bytes()

    def test_attempts(self, write: Write) -> None:
        tries = [
            LoggedSample(unit_id="a", attempt=n, values={"acc": float(n)}, response=str(n))
            for n in range(2)
        ]
        run = run_of(write(Log(tool="t", task="q", model="m", samples=tries))[0])
        assert run.records("q", "m").attempt.tolist() == [0, 1]
        assert run.manifest["config"]["attempts"] == 2

    def test_hostile_texts(self, write: Write) -> None:
        texts = list(SHORT.values())
        samples = [
            LoggedSample(
                unit_id=f"{at} {text}",
                input=text,
                target=[text, "other"],
                values={"acc": Grade.error(text) if at % 9 == 0 else 1.0},
                group=text or "none",
                parts={"kind": text or "none"},
                prompt=text,
                response=text,
                error=text if at % 9 == 0 else None,
            )
            for at, text in enumerate(texts)
        ]
        name = texts[0]
        found = write(Log(tool="t", task=name, model=name, samples=samples, notes=tuple(texts[:3])))
        run = run_of(found[0])
        assert run.path.parent.name == "runs"
        assert len(run.records(name, name)) == len(texts)
        validate_results(run.results)


class TestOthersReadThem:
    @pytest.fixture
    def pair(self, write: Write) -> tuple[Run, Run]:
        one, other = (run_of(found) for found in write(task_log("a", 12), task_log("b", 24)))
        return one, other

    def test_compare(self, pair: tuple[Run, Run]) -> None:
        """Expected: 24/30 - 12/30."""
        cells = {cell.metric: cell for cell in compare_runs(*pair).cells}
        assert cells["acc"].delta == pytest.approx(0.4)
        assert cells["acc"].verdict == "better"

    def test_gate_and_board(self, pair: tuple[Run, Run], tmp_path: Path) -> None:
        claims = tmp_path / "claims.toml"
        claims.write_text(
            '[[claim]]\nname = "good"\nslice = "sums"\nscorer = "b"\nmetric = "acc"\n'
            'require = "ci_low >= 0.5"\n'
        )
        assert not evaluate_gate(pair[1], claims, None).has_failures()
        board = leaderboard([str(run.path) for run in pair], n_draws=200)
        assert [system.name for system in board.systems] == ["b", "a"]
        assert {run_state(run.path) for run in pair} == {"complete"}


class TestResultsAlone:
    def test_cells(self, write: Write, tmp_path: Path) -> None:
        logs = [
            Log(
                tool="lm-eval",
                task=task,
                model="m",
                stated=[Stated(column="acc", name="acc", value=0.5, stderr=0.1, n=n)],
            )
            for task, n in (("a", 25), ("b", None))
        ]
        found = write(*logs)
        run = run_of(found[0])
        assert found[1].run is run
        validate_results(run.results)
        assert run.subjects == []
        assert run.results["by_slice"]["a"]["n"] == 25
        cell = run.results["by_slice"]["b"]["by_scorer"]["m"]["acc"]
        assert cell["ci"]["method"] == "wilson, from the stated standard error"
        assert "the log has no samples" in run.manifest["notes"][0]
        assert write_report([run], tmp_path / "report.html").exists()

    def test_beside_samples(self, write: Write) -> None:
        stated = [Stated(column="bleu", name="bleu", value=31.0, aggregation="bleu", itself=True)]
        run = run_of(write(task_log(stated=stated))[0])
        cells = run.results["by_slice"]["sums"]["by_scorer"]["org/m"]
        assert list(cells) == ["acc", "f1", "bleu"]
        assert cells["bleu"]["details"]["stated"] is True


class TestRollouts:
    def test_conversations(self, write: Write, tmp_path: Path) -> None:
        samples = [
            LoggedSample(
                unit_id=f"s{at}",
                attempt=attempt,
                input=f"goal {at}",
                values={"toxicity": at / 10},
                turns=[
                    LoggedTurn("Hi", "Hello", {"toxicity": 0.25}),
                    LoggedTurn("And?", None, {"toxicity": Grade.skipped("no reply")}),
                ],
            )
            for at in range(4)
            for attempt in (1, 2)
        ]
        log = Log(tool="astra-rl", task="goals", model="m", kind="rollout", samples=samples)
        run = run_of(write(log)[0])
        graphs = rollouts_of(run)
        assert [(graph.unit_id, graph.attempt) for graph in graphs[:2]] == [("s0", 1), ("s0", 2)]
        first, second = graphs[0].nodes()
        assert (first.probe, first.response, first.scores) == ("Hi", "Hello", {"toxicity": 0.25})
        assert (second.status, second.unscored) == ("error", {"toxicity": "skipped: no reply"})
        assert run.manifest["config"]["depth"] == 2
        assert run.table("units.parquet")["content_hash"].tolist() == (
            run.records("goals", "m").content_hash[::2].tolist()
        )
        assert write_report([run], tmp_path / "report.html").exists()


class TestFolders:
    def test_safe_and_unique(self) -> None:
        logs = [
            Log(tool="t", task=task, model="m")
            for task in ("a/b", "a:b", "A_b", "../..", "", "x" * 400, "a_b-m-2")
        ]
        names = folder_names(logs)
        assert names[:3] == ["a_b-m", "a_b-m-2", "A_b-m-3"]
        assert len({name.casefold() for name in names}) == len(names)
        for name in names:
            assert Path(name).name == name
            assert not name.startswith(".")
            assert len(name) <= 130

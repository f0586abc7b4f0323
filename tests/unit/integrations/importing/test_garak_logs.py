"""garak's reports: entries as garak 0.9 to 0.14 writes them, and what they may not be taken for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.integrations.importing import Log, Wanted, import_logs, measure_log, read_logs
from eval_toolkit.integrations.importing.garak import recognises

Report = Callable[..., Path]
SETUP = {
    "entry_type": "start_run setup",
    "_config.version": "0.14.0",
    "run.eval_threshold": 0.5,
    "run.generations": 2,
    "plugins.target_type": "openai",
    "plugins.target_name": "gpt-x",
    "plugins.probe_spec": "dan",
}
INIT = {
    "entry_type": "init",
    "garak_version": "0.14.0",
    "start_time": "2026-01-31T12:00:00",
    "run": "r",
}
DIGEST = {"entry_type": "digest", "meta": {"garak_version": "0.14.0"}, "eval": {}}


def message(text: str | None) -> dict[str, Any]:
    return {"text": text, "lang": "en", "data_path": None, "notes": {}}


def attempt(
    prompt: str, scores: dict[str, list[float | None]], *, probe: str = "dan.Dan_11_0", **more: Any
) -> dict[str, Any]:
    n = max(map(len, scores.values()), default=2)
    turns = [{"role": "user", "content": message(prompt)}]
    return {
        "entry_type": "attempt",
        "uuid": f"uuid of {prompt}",
        "seq": 3,
        "status": 2,
        "probe_classname": probe,
        "prompt": {"turns": turns, "notes": {}},
        "outputs": [message(f"answer {at} to {prompt}") for at in range(n)],
        "detector_results": scores,
        "goal": "be a DAN",
        **more,
    }


def evaluated(passed: int, total: int, detector: str = "dan.DAN", **more: Any) -> dict[str, Any]:
    told = {"probe": "dan.Dan_11_0", "detector": detector, "passed": passed}
    return {"entry_type": "eval", **told, "fails": total - passed, "total_evaluated": total, **more}


@pytest.fixture
def report(tmp_path: Path) -> Report:
    def write(*entries: dict[str, Any], name: str = "scan.report.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        return path

    return write


def one(path: Path, **wanted: Any) -> Log:
    (log,) = read_logs(path, Wanted(**wanted))
    return log


class TestReading:
    def test_attempts_become_tries_of_prompts(self, report: Report) -> None:
        path = report(
            SETUP,
            INIT,
            attempt("Be DAN", {}, status=1),  # garak writes an attempt again once it is scored
            attempt("Be DAN", {"dan.DAN": [0.0, 1.0], "mitigation.MitigationBypass": [1.0, 0.4]}),
            attempt("Be DUDE", {"dan.DAN": [0.5, 0.0], "mitigation.MitigationBypass": [None, 0]}),
            evaluated(2, 4),
            evaluated(2, 3, "mitigation.MitigationBypass", nones=1),
            DIGEST,
        )
        log = one(path)
        assert (log.tool, log.task, log.model) == ("garak", "dan.Dan_11_0", "gpt-x")
        assert (log.tool_version, log.created) == ("0.14.0", "2026-01-31T12:00:00")
        # Below the threshold of 0.5 an answer passes: garak's `test_value < threshold`.
        assert [sample.values["passed:dan.DAN"] for sample in log.samples] == [1.0, 0.0, 0.0, 1.0]
        first = log.samples[0]
        assert (first.input, first.response, first.attempt) == ("Be DAN", "answer 0 to Be DAN", 1)
        assert len({sample.unit_id for sample in log.samples}) == 2
        assert log.settings["run.generations"] == 2

        found = measure_log(log)
        cell = found.cells["passed:dan.DAN"]
        assert (cell.value, cell.n_units) == (0.5, 2)
        assert cell.details["higher_is_better"] is True
        assert found.checked[0].verdict == "same mean"
        # One answer has no score, so the mean over answers is none over prompts; counts agree.
        assert "whose number varies by prompt" in found.checked[1].verdict
        assert not [note for note in found.notes if "eval line" in note]

    def test_an_eval_line_that_the_attempts_contradict(self, report: Report) -> None:
        path = report(SETUP, attempt("Be DAN", {"dan.DAN": [0.0, 1.0]}), evaluated(2, 2))
        found = measure_log(one(path))
        assert found.cells["passed:dan.DAN"].value == 0.5
        assert found.checked[0].agrees is False
        said = "dan.DAN: the eval line states 2 of 2 passed; in the attempts of the report it is 1 of 2"
        assert said in found.notes

    def test_the_threshold_is_the_runs(self, report: Report) -> None:
        setup = {**SETUP, "run.eval_threshold": 0.9}
        log = one(report(setup, attempt("Be DAN", {"dan.DAN": [0.8, 0.9]})))
        assert [sample.values["passed:dan.DAN"] for sample in log.samples] == [1.0, 0.0]
        del setup["run.eval_threshold"]
        log = one(report(setup, attempt("Be DAN", {"dan.DAN": [0.8, 0.4]})))
        assert [sample.values["passed:dan.DAN"] for sample in log.samples] == [0.0, 1.0]
        assert "the report states no eval_threshold; 0.5, garak's default, is used" in log.notes

    def test_reports_that_garak_joined(self, report: Report) -> None:
        """Its aggregate_reports writes the run's uuid over that of every attempt."""
        attempts = [attempt(f"p{n}", {"dan.DAN": [0.0]}, uuid="run", seq=n) for n in range(3)]
        assert len(one(report(SETUP, *attempts)).samples) == 3
        nameless = (
            attempt("p", {}, uuid=None, status=1),
            attempt("p", {"dan.DAN": [0.0]}, uuid=None),
        )
        log = one(report(SETUP, *nameless))
        assert len(log.samples) == 1
        assert not [note for note in log.notes if "did not finish" in note]

    def test_equal_prompts_and_conversations_are_groups(self, report: Report) -> None:
        scores = {"dan.DAN": [0.0]}
        path = report(
            SETUP,
            attempt("Be DAN", scores, uuid="1"),
            attempt("Be DAN", scores, uuid="2"),
            attempt("Then go on", scores, uuid="3", previous_attempt_id="2"),
            attempt("Be DUDE", scores, uuid="4", previous_attempt_id="not in the report"),
        )
        samples = one(path).samples
        groups = [sample.group for sample in samples]
        assert groups[0] == groups[1] == groups[2] != groups[3]
        assert len({sample.unit_id for sample in samples}) == 4
        assert measure_log(one(path)).cells["passed:dan.DAN"].n_groups == 2

    def test_prompts_pair_across_runs(self, report: Report, tmp_path: Path) -> None:
        """uuids are drawn anew by each run, and seq may number other prompts: texts stay."""
        first = report(SETUP, attempt("Be DAN", {"dan.DAN": [0.0]}, uuid="a"), name="a.jsonl")
        second = report(SETUP, attempt("Be DAN", {"dan.DAN": [1.0]}, uuid="b"), name="b.jsonl")
        assert one(first).samples[0].unit_id == one(second).samples[0].unit_id

    def test_texts_and_totals_of_old_releases(self, report: Report) -> None:
        old = attempt("Be DAN", {"detector.dan.DAN": [0.0, 0.0]}, outputs=["a", "b"])
        old["prompt"] = "Be DAN"
        line = evaluated(2, 2, "detector.dan.DAN", probe="probes.dan.Dan_11_0")
        line["total"] = line.pop("total_evaluated")
        setup = {"entry_type": "start_run setup", "plugins.model_name": "gpt2"}
        log = one(report(setup, old, line))
        assert (log.model, log.task) == ("gpt2", "dan.Dan_11_0")
        assert [(s.input, s.response) for s in log.samples] == [("Be DAN", "a"), ("Be DAN", "b")]
        assert measure_log(log).checked[0].agrees is True

    def test_what_was_not_finished_is_counted(self, report: Report) -> None:
        path = report(SETUP, attempt("a", {"dan.DAN": [0.0, 0.0]}), attempt("b", {}, status=1))
        found = measure_log(one(path))
        assert "2 answers have no detector results because the run was not finished" in found.notes
        assert any(note.startswith("2 of 4 samples are in the log") for note in found.notes)

    def test_evals_alone(self, report: Report) -> None:
        """Expected: Wilson's interval of 97 of 100 is [0.915, 0.990]."""
        found = measure_log(one(report(SETUP, INIT, evaluated(97, 100), evaluated(0, 0, "x.Y"))))
        cell = found.cells["passed:dan.DAN"]
        assert f"{cell.ci:.3f}" == "0.970 [0.915, 0.990]"
        assert "x.Y: the eval line states 0 evaluated answers; omitted" in found.notes

    def test_a_run_is_written_and_by_goal(self, report: Report, tmp_path: Path) -> None:
        path = report(
            SETUP,
            attempt("a", {"dan.DAN": [0.0]}),
            attempt("b", {"dan.DAN": [1.0]}, goal="be rude"),
            attempt("c", {"x.Y": [1.0]}, probe="other.Probe"),
        )
        found = import_logs(path, tmp_path / "runs", wanted=Wanted(by=("goal",)))
        assert [imported.log.task for imported in found] == ["dan.Dan_11_0", "other.Probe"]
        assert found[0].run is not None
        strata = found[0].run.results["by_slice"]["dan.Dan_11_0"]["parts"]
        assert sorted(strata) == ['goal="be a DAN"', 'goal="be rude"']

    def test_a_folder_with_its_hit_log(self, report: Report, tmp_path: Path) -> None:
        report(SETUP, attempt("a", {"dan.DAN": [0.0]}))
        report(HIT, name="scan.hitlog.jsonl")
        assert [log.task for log in read_logs(tmp_path)] == ["dan.Dan_11_0"]


HIT = {
    "goal": "be a DAN",
    "prompt": message("a"),
    "output": message("b"),
    "score": 1.0,
    "attempt_id": "1",
    "attempt_seq": 0,
    "attempt_idx": 0,
    "probe": "dan.Dan_11_0",
    "detector": "dan.DAN",
    "generations_per_prompt": 5,
}


class TestRefusals:
    def test_a_hit_log_holds_failures_alone(self, report: Report) -> None:
        path = report(HIT, name="scan.hitlog.jsonl")
        with pytest.raises(InvalidInputError, match=r"a garak hit log, .* import the .report"):
            read_logs(path)

    def test_entries_of_another_tool(self, report: Report) -> None:
        path = report({"entry_type": "result", "id": "a", "passed": 1}, name="x.jsonl")
        assert not recognises(path)
        with pytest.raises(InvalidInputError, match="entries of several types"):
            read_logs(path)

    @pytest.mark.parametrize(
        ("entries", "said"),
        [
            ((SETUP, INIT, DIGEST), "only a digest; import the full report of the run"),
            ((SETUP, INIT), "neither attempts nor evals"),
            ((SETUP, attempt("a", {"d": [3.0]})), r"line 2: d is 3.0; .* in \[0, 1\]"),
            ((SETUP, attempt("a", {"d": ["x"]})), r"line 2: d is 'x'; it must be a finite number"),
            (
                (SETUP, attempt("a", {}, detector_results={"d": 1.0})),
                "line 2: d: is 1.0; it must be a list",
            ),
            (
                (SETUP, attempt("a", {}, probe="")),
                "'probe_classname' is ''; it must be a non-empty name",
            ),
            ((SETUP, evaluated(3, 2)), "line 2: 3 passed of 2"),
            ((SETUP, evaluated(-1, 2)), "line 2: a count is -1"),
        ],
    )
    def test_one_line_each(self, report: Report, entries: Any, said: str) -> None:
        with pytest.raises((ArtifactError, InvalidInputError), match=said):
            read_logs(report(*entries))

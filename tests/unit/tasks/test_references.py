"""References of a task run: what is stored, in which order, and that nothing else changes by it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.messages import Message
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.query_driver import outcomes_of
from eval_toolkit.runs.units import MAX_CHARS, UNITS, Unit
from eval_toolkit.tasks import (
    BaseTask,
    ChoicesSpec,
    CompletionSpec,
    Perturbation,
    Prompt,
    ResponseType,
    Sample,
    Task,
    UntilWidth,
    judge_run,
    load_task,
    measure_run,
    perturbed,
    run_rotations,
    run_task,
)
from eval_toolkit.tasks import kind as storing_module
from eval_toolkit.tasks.references import (
    Reference,
    read_reference,
    references_of,
    sample_units,
)
from eval_toolkit.tasks.suites import Suite, run_suite

HOSTILE = '</script><script>alert("1")</script>\x00\u202e{{ 7 * 7 }}'
CITIES = ["Rome", "Madrid", "Bonn", "Paris"]


class Quiz(BaseTask[str]):
    NAME = "Quiz"
    RESPONSE_TYPE = ResponseType.COMPLETION
    METRICS = ("exact_match",)

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"Question {item['n']}?"

    def _get_ground_truth(self, item: dict[str, Any]) -> str | list[str] | None:
        truth: str | list[str] | None = item["truth"]
        return truth


def quiz(*truths: Any) -> Quiz:
    return Quiz(rows=[{"n": n, "truth": truth} for n, truth in enumerate(truths)])


def capitals(style: str = "cloze", **options: Any) -> Task:
    rows = [{"n": n, "capital": CITIES[n % 4]} for n in range(12)]
    return Task(
        "capitals",
        Prompt(instruction="Capital {n}?", style=style),
        ChoicesSpec(choices=CITIES, answer="capital"),
        rows=rows,
        **options,
    )


def by_length(request: Any) -> list[float]:
    return [-float(len(text)) for text in request.continuations]


def stored(run: Run | None) -> dict[str, Reference]:
    """Read the whole table, in another way than `references_of` does."""
    assert run is not None
    table = run.table(UNITS)
    assert table["unit_id"].tolist() == sorted(table["unit_id"])
    correct = table.get("correct", np.full(len(table["unit_id"]), None))
    columns = (table["unit_id"], table["reference"], correct)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    found = {
        unit: Reference(text, None if correct is None else tuple(json.loads(correct)))
        for unit, text, correct in rows
    }
    assert references_of(run, found) == found
    return found


def bytes_of(run: Run | None, name: str = UNITS) -> bytes:
    assert run is not None
    return (run.path / name).read_bytes()


def without_references(run: Run | None, folder: Path) -> Run:
    """Write a run as it was written before there were references."""
    assert run is not None
    (subject,) = run.subjects
    kept = {name: value for name, value in run.manifest.items() if name != "artifacts"}
    return write_run(
        folder,
        results=run.results,
        manifest=kept,
        records={subject: run.records(*subject)},
        tables={"responses.parquet": run.table("responses.parquet")},
    )


class TestWhatIsStored:
    def test_one_and_several_references_and_none(self, tmp_path: Path) -> None:
        task = quiz("4", ["four", "vier"], None, ["only"], "")
        run = run_task(task, ScriptedModel("4"), tmp_path / "r", max_error_rate=1.0).run
        found = stored(run)
        texts = [found[sample.id].text for sample in task.samples(order="file")]
        assert texts[0] == "4"
        assert json.loads(texts[1] or "") == ["four", "vier"]
        assert [line.strip(' ",') for line in (texts[1] or "").splitlines()[1:-1]] == [
            "four",
            "vier",
        ]
        assert texts[2:4] == [None, "only"]
        assert texts[4] in ("", None)
        assert {one.correct for one in found.values()} == {None}

    def test_without_any_reference_there_is_no_column(self, tmp_path: Path) -> None:
        run = run_task(quiz(None, None), ScriptedModel("4"), tmp_path / "r", max_error_rate=1.0).run
        assert run is not None
        assert "reference" not in run.table(UNITS)
        assert references_of(run, ["0"]) == {}

    def test_shuffled_choices_keep_the_order_asked(self, tmp_path: Path) -> None:
        task = capitals(shuffle_choices=True)
        run = run_task(task, ScriptedModel(by_length), tmp_path / "r").run
        assert run is not None
        found = stored(run)
        # The requests say in which order choices were scored; the data say which city is right.
        asked = {one.job.unit_id: one.job.request for one in outcomes_of(run)}
        assert len({request.continuations for request in asked.values()}) > 1  # type: ignore[union-attr]
        right = {sample.id: CITIES[sample.index % 4] for sample in task.samples()}
        for unit, request in asked.items():
            (place,) = found[unit].correct or ()
            assert request.continuations[place].strip() == right[unit]  # type: ignore[union-attr]
            assert (found[unit].text or "").strip() == right[unit]

    def test_rotated_choices(self, tmp_path: Path) -> None:
        done = run_rotations(capitals("mc"), ScriptedModel(by_length), tmp_path / "r", limit=4)
        for by, one in enumerate(done):
            for unit, reference in stored(one.run).items():
                first = stored(done[0].run)[unit].correct or ()
                # Moved up in a circle, place p becomes p - by.
                assert reference.correct == ((first[0] - by) % 4,)
                assert (reference.text or "").strip() == "ABCD"[(first[0] - by) % 4]

    def test_a_failed_request_has_its_reference(self, tmp_path: Path) -> None:
        def fail(request: Any) -> str:
            raise ModelError("no answer", kind="server")

        done = run_task(quiz("4"), ScriptedModel(fail), tmp_path / "r", max_error_rate=1.0)
        assert done.n_errors == 1
        assert [one.text for one in stored(done.run).values()] == ["4"]

    def test_a_reference_that_is_no_choice_claims_no_place(self) -> None:
        ask = [Message("user", "Which?")]
        (made,) = sample_units([Sample("q", "", ask, "Ur", (" Rome", " Bonn"))])
        assert (made.reference, made.more) == ("Ur", {"correct": None})

    def test_several_right_choices(self) -> None:
        ask = [Message("user", "Which?")]
        sample = Sample("q", "", ask, ["c", "a"], (" a", " b", " c"))
        (made,) = sample_units([sample])
        assert json.loads(made.reference) == [" a", " c"]
        assert made.more == {"correct": "[0, 2]"}

    @pytest.mark.parametrize("context", [{"doc": 1, "choices": 3, "right": 7}, {"right": [0]}, 5])
    def test_contexts_of_any_kind(self, context: Any) -> None:
        ask = [Message("user", "Which?")]
        sample = Sample("q", "", ask, "b", (" a", " b"), context)
        assert sample_units([sample])[0].more == {"correct": "[1]"}

    def test_only_samples_that_count(self, tmp_path: Path) -> None:
        task = quiz(*(["x"] * 300))
        done = run_task(task, ScriptedModel("x"), tmp_path / "r", until=UntilWidth(0.3))
        assert len(done.records) < 300
        assert set(stored(done.run)) == set(done.records.unit_id.tolist())


class TestHostile:
    def test_secrets_are_redacted_and_long_texts_cut(self, tmp_path: Path) -> None:
        key = "sk-" + "a1B2" * 10
        long = "x" * (MAX_CHARS + 5)
        task = quiz(f"the key is {key}", long, ["fine", f"password={key}"], "half \ud83d pair")
        run = run_task(task, ScriptedModel("4"), tmp_path / "r").run
        found = stored(run)
        texts = [found[sample.id].text or "" for sample in task.samples(order="file")]
        assert key.encode() not in bytes_of(run)
        assert not any(key in text for text in texts)
        assert "[redacted]" in texts[0]
        assert texts[1] == "x" * MAX_CHARS + " [… 5 more characters]"
        assert json.loads(texts[2])[0] == "fine"
        assert texts[3] == "half \ufffd pair"

    def test_hostile_texts_come_back_as_they_are(self, tmp_path: Path) -> None:
        run = run_task(quiz(HOSTILE), ScriptedModel("4"), tmp_path / "r").run
        assert [one.text for one in stored(run).values()] == [HOSTILE]

    @each(
        "cell",
        ["", "no", "{}", "[-1]", "[true]", "[1.0]", '["0"]', "[[0]]", "1", "[" * 100_000, 3, None],
    )
    def test_cells_that_hold_no_places(self, cell: Any) -> None:
        assert read_reference("a", cell) == Reference("a", None)

    def test_an_altered_table_is_refused(self, tmp_path: Path) -> None:
        run = run_task(quiz("4"), ScriptedModel("4"), tmp_path / "r").run
        assert run is not None
        path = run.path / UNITS
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(ArtifactError, match="has changed since the run was written"):
            Run.open(run.path)


class TestNothingElseChanges:
    def test_results_and_records_are_the_same_bytes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = capitals(shuffle_choices=True)
        new = run_task(task, ScriptedModel(by_length), tmp_path / "new", run_id="r").run
        bare = lambda samples: [Unit(id=s.id, content_hash=s.content_hash) for s in samples]  # noqa: E731
        monkeypatch.setattr(storing_module, "sample_units", bare)
        old = run_task(task, ScriptedModel(by_length), tmp_path / "old", run_id="r").run
        assert old is not None
        assert references_of(old, new.records(*new.subjects[0]).unit_id) == {}
        for name in ("results.json", "records.parquet"):
            assert bytes_of(new, name) == bytes_of(old, name)

    def test_equal_runs_have_equal_bytes(self, tmp_path: Path) -> None:
        task = capitals(shuffle_choices=True)
        model = ScriptedModel(by_length)
        first = run_task(task, model, tmp_path / "a", concurrency=1)
        grown = tmp_path / "grown"
        run_task(task, model, grown, limit=5)
        runs = {
            "order and concurrency": run_task(task, model, tmp_path / "b", order="file"),
            "grown": run_task(task, model, grown),
            "replayed": run_task(task, replay=tmp_path / "a", out=tmp_path / "c"),
            "measured": measure_run(tmp_path / "a", task, out=tmp_path / "d", graders=["accuracy"]),
        }
        for name, done in runs.items():
            assert bytes_of(done.run) == bytes_of(first.run), name

    def test_a_smaller_limit_has_fewer(self, tmp_path: Path) -> None:
        task = quiz(*"abcdefgh")
        run_task(task, ScriptedModel("a"), tmp_path / "r")
        fewer = run_task(task, ScriptedModel("a"), tmp_path / "r", limit=3)
        assert set(stored(fewer.run)) == set(fewer.records.unit_id.tolist())
        assert len(fewer.records) == 3


class TestRunsOfBefore:
    """Runs that were written without references."""

    @pytest.fixture
    def old(self, tmp_path: Path) -> Run:
        task = quiz("4", "5", "6")
        whole = run_task(task, ScriptedModel("4"), tmp_path / "whole", limit=2, run_id="old").run
        return without_references(whole, tmp_path / "old")

    def test_they_open_and_have_none(self, old: Run) -> None:
        assert references_of(old, ["0", "1"]) == {}

    def test_one_that_stands_is_left_alone(self, old: Run) -> None:
        before = {path.name: path.read_bytes() for path in old.path.iterdir()}
        done = run_task(quiz("4", "5", "6"), ScriptedModel("4"), old.path, limit=2, run_id="old")
        assert done.n_asked == 0
        assert {path.name: path.read_bytes() for path in old.path.iterdir()} == before

    def test_one_that_is_added_to_gets_them(self, old: Run) -> None:
        done = run_task(quiz("4", "5", "6"), ScriptedModel("4"), old.path, run_id="old")
        assert done.n_asked == 1
        assert sorted(one.text or "" for one in stored(done.run).values()) == ["4", "5", "6"]

    def test_measured_again_or_judged(self, old: Run, tmp_path: Path) -> None:
        task = quiz("4", "5", "6")
        again = measure_run(old, task, out=tmp_path / "again", graders=["f1"])
        judge = Judge("correctness", ScriptedModel("Yes."))
        judged = judge_run(old, task, [judge], tmp_path / "judged")
        assert bytes_of(again.run) == bytes_of(judged.run)
        assert len(stored(judged.run)) == 2


class TestOtherTasks:
    def test_perturbed_questions_have_the_same_references(self, tmp_path: Path) -> None:
        task = Task(
            "quiz",
            Prompt(instruction="{q}"),
            CompletionSpec(answer="a"),
            rows=[{"q": f"Say {n}", "a": str(n)} for n in range(4)],
            graders=["exact_match"],
        )
        model = ScriptedModel("3")
        plain = run_task(task, model, tmp_path / "a").run
        loud = run_task(perturbed(task, Perturbation("upper")), model, tmp_path / "b").run
        assert stored(plain) == stored(loud)
        assert sorted(one.text or "" for one in stored(plain).values()) == list("0123")

    def test_suites(self, tmp_path: Path) -> None:
        run_suite(Suite("s", [quiz("4")]), ScriptedModel("4"), tmp_path / "s")
        (path,) = (tmp_path / "s").rglob(UNITS)
        assert [one.text for one in stored(Run.open(path.parent)).values()] == ["4"]

    def test_lm_eval_choices_that_are_scored_twice(self, tmp_path: Path) -> None:
        file = tmp_path / "quiz.yaml"
        file.write_text(
            "task: quiz\noutput_type: multiple_choice\ntest_split: test\n"
            "doc_to_text: '{{q}}'\ndoc_to_choice: ['no', 'yes', 'no']\ndoc_to_target: label\n"
            "metric_list: [{metric: acc}, {metric: acc_mutual_info}]\n"
        )
        task = load_task(file, rows=[{"q": "Is it?", "label": 2}, {"q": "Or?", "label": 1}])
        run = run_task(task, ScriptedModel(by_length), tmp_path / "r").run
        found = stored(run)
        # By place: the first choice has the same text, and all follow again without the question.
        right = {sample.id: (2 - sample.index,) for sample in task.samples()}
        assert {unit: one.correct for unit, one in found.items()} == right
        assert {(one.text or "").strip() for one in found.values()} == {"no", "yes"}


@given(
    n=st.integers(1, 6),
    right=st.sets(st.integers(0, 5), min_size=1),
    spaced=st.booleans(),
)
def test_places_are_those_of_the_texts(n: int, right: set[int], spaced: bool) -> None:
    places = sorted({at % n for at in right})
    choices = [f"{' ' if spaced else ''}choice {at}" for at in range(n)]
    sample = Sample(
        "q", "", [Message("user", "?")], [f"choice {at}" for at in places], tuple(choices)
    )
    (made,) = sample_units([sample])
    assert json.loads(made.more["correct"]) == places
    texts = [choices[at] for at in places]
    text = made.reference
    assert text == texts[0] if len(texts) == 1 else json.loads(text) == texts

"""Running tasks: what is asked, what is stored, what is asked again and what is refused."""

import asyncio
import json
import random

import numpy as np
import pytest

from eval_toolkit.analysis import compare_runs
from eval_toolkit.artifacts import validate_payload
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    ModelError,
    PluginError,
)
from eval_toolkit.graders import ColumnInfo
from eval_toolkit.models.cache import ResponseCache
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, ResponseType, Usage
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import DecodingSpec, Run, run_state
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.planning import Estimate, decoding_of, estimate, plan_jobs
from eval_toolkit.tasks.rescoring import measure_run
from eval_toolkit.tasks.running import run_task

N = 24


class Sums(BaseTask[str]):
    NAME = "Sums"
    RESPONSE_TYPE = ResponseType.COMPLETION
    SUBJECT_FIELD = "subject"
    max_tokens = 8
    stop_sequences = ("\n",)

    def _get_instruction_text(self, item):
        return f"What is {item['a']} + {item['b']}?"

    def _get_ground_truth(self, item):
        return str(item["a"] + item["b"])


class Reworded(Sums):
    def _get_instruction_text(self, item):
        return f"How much is {item['a']} + {item['b']}?"


class Choose(BaseTask[str]):
    NAME = "Choose"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def _get_instruction_text(self, item):
        return f"Question: {item['a']} + {item['b']}?\n"

    def _get_ground_truth(self, item):
        return str(item["a"] + item["b"])

    def _get_possible_completions(self, item):
        return [str(item["a"] + item["b"] + shift) for shift in (0, 1, 2)]

    def _get_cue_text(self, item):
        return "Answer:"


ROWS = [{"a": i, "b": i * i, "subject": "even" if i % 2 == 0 else "odd"} for i in range(N)]
PLAIN_ROWS = [{"a": i, "b": i * i} for i in range(N)]
TRAIN = [{"a": i, "b": 1, "subject": s} for i in range(100, 110) for s in ("even", "odd")]


def sums(n=N, **options):
    return Sums(rows={"test": ROWS[:n], "train": TRAIN}, **options)


def solve(request):
    """Add up, and be wrong about multiples of five."""
    a, b = (int(part) for part in request.prompt[-1].content[8:-1].split(" + "))
    return str(a + b + (a % 5 == 0))


def model(answers=solve, name="adder", **options):
    return ScriptedModel(answers, name=name, **options)


class Failing:
    """A model that fails for some prompts, as often as it is told."""

    name = "adder"

    def __init__(self, fails, kind="server", times=10**9):
        self.fails, self.kind, self.times, self.asked = fails, kind, times, []

    def describe(self):
        return {"kind": "failing", "name": self.name}

    async def generate(self, request):
        a = int(request.prompt[-1].content[8:].split(" + ")[0])
        self.asked.append(a)
        if a in self.fails and self.times > 0:
            self.times -= 1
            raise ModelError(f"no answer to {a}", kind=self.kind)
        return RawCompletion(solve(request), usage=Usage(latency_s=random.random()))  # noqa: S311

    async def loglikelihood(self, request):
        raise ModelError("not offered", kind="unsupported")


def files(folder):
    return {name: (folder / name).read_bytes() for name in ("records.parquet", "results.json")}


# --- what comes out -----------------------------------------------------------------------------


def test_a_run_without_a_folder():
    done = run_task(sums(), model(), graders=["exact_match", "number_match"])
    # Wrong for a = 0, 5, 10, 15, 20: 19 of 24 right.
    assert done.card["exact_match"].value == pytest.approx(19 / 24)
    assert done.card.slices["even"]["exact_match"].value == pytest.approx(9 / 12)
    assert done.card["exact_match"].ci.method == "wilson"
    assert (done.n_requests, done.n_reused, done.n_errors, done.run) == (24, 0, 0, None)
    assert not done.too_many_errors
    assert done.usage["completion_tokens"] == 24
    json.dumps(done.to_dict(), allow_nan=False)


def test_a_run_in_a_folder(tmp_path):
    done = run_task(sums(), model(), tmp_path / "r")
    run = Run.open(tmp_path / "r")
    assert run.run_id == "r"
    assert run.subjects == [("Sums", "adder")]
    assert run.records("Sums", "adder").columns["exact_match"].sum() == 19
    assert run.results == done.results
    validate_payload(run.results, "results.v1")
    validate_payload(run.manifest, "manifest.v3")
    part = run.results["by_slice"]["Sums"]
    assert part["n"] == 24
    assert part["by_scorer"]["adder"]["exact_match_macro"]["details"]["n_parts"] == 2
    assert part["parts"]["subject=odd"]["n"] == 12
    manifest = run.manifest
    assert manifest["kind"] == "task"
    assert manifest["versioned_objects"] == {
        "task:Sums": "1",
        "grader:exact_match": "1",
        "grader:f1": "2",
    }
    assert manifest["config"]["decoding"] == {
        "temperature": 0.0,
        "top_p": None,
        "max_tokens": 8,
        "stop": ["\n"],
    }
    assert manifest["task"]["prompt_fingerprint"]
    assert manifest["models"][0]["name"] == "adder"
    assert len(manifest["item_set_hash"]) == 64
    assert manifest["usage"]["prompt_tokens"] > 0
    assert not (tmp_path / "r" / "journal.jsonl").exists()


def test_nothing_measured_depends_on_the_clock(tmp_path):
    for name in ("one", "two"):
        run_task(sums(), Failing(()), tmp_path / name / "r")  # latencies are drawn
    assert files(tmp_path / "one" / "r") == files(tmp_path / "two" / "r")
    said = (tmp_path / "one" / "r" / "results.json").read_text("utf-8")
    for word in ("latency", "elapsed", "cost", "seconds", "captured"):
        assert word not in said


def test_concurrency_changes_no_byte(tmp_path):
    async def slowly(request):
        await asyncio.sleep(random.random() / 500)  # noqa: S311
        return solve(request)

    for concurrency in (1, 64):
        run_task(sums(), model(slowly), tmp_path / str(concurrency) / "r", concurrency=concurrency)
    assert files(tmp_path / "1" / "r") == files(tmp_path / "64" / "r")


def test_loglikelihoods(tmp_path):
    def likely(request):
        assert request.prompt.endswith("?\nAnswer:")
        assert request.continuations[0].startswith(" ")
        return [-0.1, -2.0, -3.0]

    done = run_task(Choose(rows=PLAIN_ROWS), ScriptedModel(likely), tmp_path / "r")
    assert done.card["accuracy"].value == 1.0
    means = {"accuracy", "accuracy_norm_bytes", "bits_per_byte"}
    assert set(done.card) == {*means, "bits_per_byte_total"}
    assert done.card["bits_per_byte"].details["higher_is_better"] is False
    assert done.records.columns["choice"].tolist() == [0.0] * N
    assert "parts" not in done.results["by_slice"]["Choose"]


def test_attempts_and_pass_at_k():
    drawn = []

    def sometimes(request):
        drawn.append(request.seed)
        return solve(request) if request.seed % 2 else "no idea"

    done = run_task(
        sums(), model(sometimes), attempts=4, temperature=0.7, pass_at=[1, 4], pass_hat=[4]
    )
    assert done.n_requests == 4 * N
    assert len(set(drawn)) == 4 * N  # each attempt at each sample has its own
    cells = done.card
    assert cells["exact_match"].n_units == N
    assert cells["exact_match_pass@1"].value == pytest.approx(cells["exact_match"].value)
    assert cells["exact_match_pass@4"].value > cells["exact_match"].value
    assert cells["exact_match_pass^4"].value < cells["exact_match"].value


def test_a_seed_belongs_to_its_sample_and_attempt():
    hot = DecodingSpec(temperature=1.0)
    few, many = sums().samples(2), sums().samples()
    seeds = {job.key: job.request.seed for job in plan_jobs(sums(), many, decoding=hot, attempts=3)}
    for job in plan_jobs(sums(), few, decoding=hot, attempts=2):
        assert seeds[job.key] == job.request.seed
    other = plan_jobs(sums(), few, decoding=hot, seed=1)
    assert other[0].request.seed != seeds[other[0].key]
    assert plan_jobs(sums(), few)[0].request.seed is None  # nothing is drawn


# --- errors -------------------------------------------------------------------------------------


def test_failed_requests_are_counted_shown_and_asked_again(tmp_path):
    flaky = Failing({3, 7, 8})
    done = run_task(sums(), flaky, tmp_path / "r")
    assert (done.n_failed_requests, done.n_errors) == (3, 3)
    assert done.error_rate == pytest.approx(3 / 24)
    assert done.too_many_errors
    assert not run_task(sums(), Failing({3}), max_error_rate=0.2).too_many_errors
    cell = done.results["by_slice"]["Sums"]["by_scorer"]["adder"]["exact_match"]
    # 24 less 3 lost less 5 wrong: 16 right.
    assert cell["value"] == pytest.approx(16 / 21)
    assert cell["n_errors"] == 3
    assert cell["details"]["as_zero"] == pytest.approx(16 / 24)
    assert cell["details"]["best"] == pytest.approx(19 / 24)
    records = done.records
    lost = records.status["exact_match"] == "error"
    assert sorted(records.reason["exact_match"][lost].tolist()) == [
        "server: no answer to 3",
        "server: no answer to 7",
        "server: no answer to 8",
    ]

    mended = Failing(())
    again = run_task(sums(), mended, tmp_path / "r")
    assert sorted(mended.asked) == [3, 7, 8]
    assert (again.n_reused, again.n_errors) == (21, 0)
    run_task(sums(), Failing(()), tmp_path / "straight" / "r")
    assert files(tmp_path / "r") == files(tmp_path / "straight" / "r")


def test_half_a_surrogate_pair_in_one_error_spoils_no_other_sample(tmp_path):
    class Quoting(Failing):
        async def generate(self, request):
            if "What is 3 +" in request.prompt[-1].content:
                raise ModelError("bad \ud800 \x00 sign", kind="other")
            return await super().generate(request)

    done = run_task(sums(), Quoting(()), tmp_path / "r")
    assert (done.n_errors, done.n_requests) == (1, N)
    stored = Run.open(tmp_path / "r").records("Sums", "adder")
    assert "bad \ufffd" in "".join(stored.reason["exact_match"])


def test_an_answer_that_carries_an_error_is_an_error():
    def refused(request):
        return RawCompletion("", error=ErrorInfo("refused", "the filter said no"))

    done = run_task(sums(2), model(refused))
    assert done.n_errors == 2
    assert done.card["exact_match"].status == "error"


def test_on_error_fail_keeps_the_answers_for_the_next_try(tmp_path):
    with pytest.raises(InvalidInputError, match="server: no answer to 3"):
        run_task(sums(), Failing({3}), tmp_path / "r", on_error="fail")
    assert run_state(tmp_path / "r").startswith("incomplete")
    mended = Failing(())
    run_task(sums(), mended, tmp_path / "r", on_error="fail")
    assert mended.asked == [3]


def test_graders_that_fail_make_a_run_fail_its_rate():
    done = run_task(sums(), model(), graders=["letter_match"])
    assert done.n_failed_requests == 0
    assert done.error_rate == 1.0  # no reference is a letter
    assert done.too_many_errors


# --- again, and on ------------------------------------------------------------------------------


def test_a_finished_run_is_not_asked_again(tmp_path):
    run_task(sums(), model(), tmp_path / "r")
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    silent = model()
    done = run_task(sums(), silent, tmp_path / "r")
    assert silent.n_calls == 0
    assert done.n_reused == N
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before


def test_an_interrupted_run_is_gone_on_with(tmp_path):
    broken = Failing({12}, kind="auth")
    with pytest.raises(ModelError, match="run the same command again to resume"):
        run_task(sums(), broken, tmp_path / "r", concurrency=1)
    assert run_state(tmp_path / "r").startswith("incomplete")
    n_before = len(broken.asked) - 1
    journal = tmp_path / "r" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"unit_id": "torn')  # a kill in mid-line
    mended = Failing(())
    done = run_task(sums(), mended, tmp_path / "r")
    assert len(mended.asked) == N - n_before
    assert done.n_reused == n_before
    run_task(sums(), Failing(()), tmp_path / "straight" / "r")
    assert files(tmp_path / "r") == files(tmp_path / "straight" / "r")


def test_a_kill_at_any_byte_of_the_journal_changes_no_byte_of_the_results(tmp_path):
    run_task(sums(4), Failing(()), tmp_path / "straight" / "r")
    with pytest.raises(ModelError):
        run_task(sums(4), Failing({3}, kind="auth"), tmp_path / "r", concurrency=1)
    whole = (tmp_path / "r" / "journal.jsonl").read_bytes()
    running = (tmp_path / "r" / "manifest.json").read_bytes()
    for cut in np.linspace(1, len(whole), 7).astype(int).tolist():
        folder = tmp_path / str(cut) / "r"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_bytes(running)
        (folder / "journal.jsonl").write_bytes(whole[:cut])
        mended = Failing(())
        done = run_task(sums(4), mended, folder)
        assert len(mended.asked) + done.n_reused == 4
        assert files(folder) == files(tmp_path / "straight" / "r")


def test_an_interrupt_from_the_keyboard_keeps_what_was_answered(tmp_path):
    asked = []

    def interrupted(request):
        asked.append(request)
        if len(asked) == 6:
            raise KeyboardInterrupt
        return solve(request)

    with pytest.raises(KeyboardInterrupt):
        run_task(sums(), model(interrupted), tmp_path / "r", concurrency=1)
    lines = (tmp_path / "r" / "journal.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 1 + 5


def test_a_larger_limit_and_more_attempts_add_to_a_run(tmp_path):
    hot = {"temperature": 0.5}
    first = run_task(sums(), model(), tmp_path / "r", limit=3, **hot)
    assert first.n_requests == 6
    second = model()
    more = run_task(sums(), second, tmp_path / "r", limit=5, attempts=2, **hot)
    assert (more.n_requests, more.n_reused, second.n_calls) == (20, 6, 14)
    run_task(sums(), model(), tmp_path / "straight" / "r", limit=5, attempts=2, **hot)
    assert files(tmp_path / "r") == files(tmp_path / "straight" / "r")


def test_a_smaller_limit_loses_no_answer(tmp_path):
    run_task(sums(), model(), tmp_path / "r")
    small = run_task(sums(), model(), tmp_path / "r", limit=2)
    assert len(small.records) == 4
    silent = model()
    assert run_task(sums(), silent, tmp_path / "r").n_reused == N
    assert silent.n_calls == 0


def test_answers_of_an_unfinished_run_are_not_thrown_away(tmp_path):
    with pytest.raises(ModelError):
        run_task(sums(), Failing({12}, kind="auth"), tmp_path / "r", concurrency=1)
    with pytest.raises(ArtifactError, match=r"has \d+ answers that this run does not request"):
        run_task(sums(), Failing(()), tmp_path / "r", limit=1)


def test_other_graders_need_no_answer(tmp_path):
    run_task(sums(), model(), tmp_path / "r")
    silent = model()
    done = run_task(sums(), silent, tmp_path / "r", graders=["number_match"])
    assert silent.n_calls == 0
    assert (
        "number_match" in Run.open(tmp_path / "r").results["by_slice"]["Sums"]["by_scorer"]["adder"]
    )
    assert done.card["number_match"].value == pytest.approx(19 / 24)


@pytest.mark.parametrize(
    ("task", "who", "options", "said"),
    [
        (sums(num_fewshot=2), model(), {}, "task.num_fewshot = 0, but this one has 2"),
        (sums(12), model(), {}, "the data have changed (12 rows, were 24)"),
        (
            Sums(rows={"test": [*ROWS[:-1], {**ROWS[-1], "b": 1}], "train": TRAIN}),
            *(model(), {}, "the data have changed (24 rows, as before)"),
        ),
        (
            Reworded(rows={"test": ROWS, "train": TRAIN}),
            model(),
            {},
            "the prompts or references have changed",
        ),
        (Choose(rows=PLAIN_ROWS), model(), {}, 'task.name = "Sums", but this one has "Choose"'),
        (sums(), model(name="other"), {}, 'model.name = "adder", but this one has "other"'),
        (sums(), model("7"), {}, "model.description.answers = "),
        (sums(), model(), {"temperature": 0.5}, "decoding.temperature = 0.0, but this one has 0.5"),
        (sums(), model(), {"stop": ["X"]}, 'decoding.stop = ["\\n"], but this one has ["X"]'),
        (sums(), model(), {"formatter": "plain"}, 'formatter = "chat", but this one has "plain"'),
        (sums(), model(), {"seed": 7}, "seed = 42, but this one has 7"),
    ],
)
def test_another_run_does_not_go_into_the_folder(tmp_path, task, who, options, said):
    run_task(sums(), model(), tmp_path / "r")
    before = files(tmp_path / "r")
    with pytest.raises(ArtifactError) as caught:
        run_task(task, who, tmp_path / "r", **options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(tmp_path / "r") == before


def test_a_run_of_rows_is_not_written_over(tmp_path):
    from eval_toolkit.runs import write_run

    results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
    write_run(tmp_path / "r", results=results, manifest={"run_id": "r"})
    with pytest.raises(ArtifactError, match="a run of another kind"):
        run_task(sums(), model(), tmp_path / "r")


# --- without a model ----------------------------------------------------------------------------


def test_measuring_again_asks_no_model(tmp_path):
    done = run_task(sums(), model(), tmp_path / "r")
    again = measure_run(tmp_path / "r", sums(), graders=["number_match"])
    assert again.card["number_match"].value == pytest.approx(19 / 24)
    assert again.run is None
    assert files(tmp_path / "r")["results.json"] == files(done.run.path)["results.json"]

    elsewhere = measure_run(done.run, sums(), graders=["number_match"], out=tmp_path / "s")
    assert elsewhere.run.run_id == "s"
    assert elsewhere.run.manifest["versioned_objects"]["grader:number_match"] == "3"
    in_place = measure_run(done.run, sums(), graders=["number_match"], out=tmp_path / "r")
    assert "number_match" in in_place.run.results["by_slice"]["Sums"]["by_scorer"]["adder"]
    silent = model()
    run_task(sums(), silent, tmp_path / "s", graders=["exact_match"])
    assert silent.n_calls == 0


def test_measuring_again_needs_the_same_data(tmp_path):
    done = run_task(sums(), model(), tmp_path / "r")
    with pytest.raises(ArtifactError, match="the task no longer has the unit"):
        measure_run(done.run, sums(20))
    changed = [{**row, "id": str(i)} for i, row in enumerate(ROWS)]
    keyed = run_task(Sums(rows=changed), model(), tmp_path / "k")
    changed[3] = {**changed[3], "b": 999}
    with pytest.raises(
        ArtifactError, match=r"unit 'odd/3' of the task is not in the run or differs"
    ):
        measure_run(keyed.run, Sums(rows=changed))
    with pytest.raises(ArtifactError, match="is a run of 'Sums', not of 'Choose'"):
        measure_run(done.run, Choose(rows=PLAIN_ROWS))


class Ordered(Choose):
    """Choices in the order of the row, or in one drawn for it."""

    NAME = "Ordered"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shuffle_choices": True, "seed": 2}, "task.seed = 1, but this task has 2"),
        ({"seed": 1}, "task.shuffle_choices = true, but this task has false"),
        (
            {"shuffle_choices": True, "seed": 1, "num_fewshot": 1},
            "task.num_fewshot = 0, but this task has 1",
        ),
    ],
)
def test_measuring_again_needs_the_task_that_was_asked(tmp_path, options, said):
    rows = {"test": PLAIN_ROWS, "train": PLAIN_ROWS[:2]}
    scores = ScriptedModel([-1.0, -2.0, -3.0])
    done = run_task(Ordered(rows=rows, shuffle_choices=True, seed=1), scores, tmp_path / "r")
    before = files(tmp_path / "r")
    with pytest.raises(ArtifactError) as caught:
        measure_run(done.run, Ordered(rows=rows, **options), out=tmp_path / "r")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert files(tmp_path / "r") == before
    assert measure_run(done.run, Ordered(rows=rows, shuffle_choices=True, seed=1)).card == done.card


def test_measuring_again_needs_the_same_prompts_and_rows(tmp_path):
    class Regraded(Sums):
        VERSION = "2"

        def post_process_generated_completion(self, text, sample=None):
            return "0"

    done = run_task(sums(), model(), tmp_path / "r")
    with pytest.raises(ArtifactError, match="the prompts or references have changed"):
        measure_run(done.run, Reworded(rows={"test": ROWS, "train": TRAIN}))
    with pytest.raises(ArtifactError, match=r"the data have changed \(24 rows, as before\)"):
        measure_run(done.run, Sums(rows={"test": ROWS, "train": TRAIN[:4]}))
    regraded = Regraded(rows={"test": ROWS, "train": TRAIN})
    again = measure_run(done.run, regraded, out=tmp_path / "r")  # no other prompt, no other truth
    assert again.card["exact_match"].value == pytest.approx(1 / 24)
    assert again.run.manifest["config"]["task"]["version"] == "2"
    assert again.run.manifest["versioned_objects"]["task:Sums"] == "2"


class Judge:
    name, version, mended = "judge", "1", False

    def __init__(self, column="judge"):
        self.column = column

    def columns(self):
        return {self.column: ColumnInfo()}

    def grade(self, response):
        if not self.mended:
            raise KeyError("gold")
        return {self.column: 1.0}


def test_a_mended_grader_is_written_though_nothing_is_asked(tmp_path, monkeypatch):
    broken = run_task(sums(), model(), tmp_path / "r", graders=[Judge()], concurrency=3)
    assert broken.card["judge"].status == "error"
    monkeypatch.setattr(Judge, "mended", True)
    silent = model()
    done = run_task(sums(), silent, tmp_path / "r", graders=[Judge()], concurrency=5)
    assert silent.n_calls == 0
    stored = Run.open(tmp_path / "r")
    assert stored.results == done.results == done.run.results
    assert stored.results["by_slice"]["Sums"]["by_scorer"]["adder"]["judge"]["value"] == 1.0
    assert set(stored.records("Sums", "adder").status["judge"]) == {"ok"}
    assert stored.manifest["engine"]["concurrency"] == 3  # of the answers that are there


def test_grades_that_change_places_are_written_though_no_mean_moves(tmp_path):
    class Parity:
        name, version = "parity", "1"
        odd = 0

        def grade(self, response):
            return {"parity": float(len(response.raw_completion) % 2 == self.odd)}

    class Half(Sums):
        SUBJECT_FIELD = None

    lengths = ScriptedModel(lambda request: "x" * (1 + int(request.prompt[-1].content[8]) % 2))
    task = Half(rows=[{"a": a, "b": 0} for a in range(10)])
    first = run_task(task, lengths, tmp_path / "r", graders=[Parity()])
    Parity.odd = 1
    second = run_task(task, lengths, tmp_path / "r", graders=[Parity()])
    assert first.results == second.results
    stored = Run.open(tmp_path / "r").records("Sums", "scripted")
    assert stored.columns["parity"].tolist() == (1 - first.records.columns["parity"]).tolist()


def test_models_that_differ_in_what_is_redacted_do_not_share_a_folder(tmp_path):
    class Adapted(Failing):
        def __init__(self, adapter):
            super().__init__(())
            self.adapter = adapter

        def describe(self):
            return {"kind": "adapted", "adapter_token": self.adapter}

    done = run_task(sums(), Adapted("lora-one"), tmp_path / "r")
    assert "lora-one" not in (tmp_path / "r" / "manifest.json").read_text("utf-8")
    assert done.results["config"]["model"]["description"]["adapter_token"] == "[redacted]"  # noqa: S105
    before = files(tmp_path / "r")
    with pytest.raises(ArtifactError, match=r"differs in a part of model\.description that is not"):
        run_task(sums(), Adapted("lora-two"), tmp_path / "r")
    assert files(tmp_path / "r") == before
    assert run_task(sums(), Adapted("lora-one"), tmp_path / "r").n_reused == N
    measure_run(done.run, sums(), out=tmp_path / "s")
    with pytest.raises(ArtifactError, match="differs in a part"):
        run_task(sums(), Adapted("lora-two"), tmp_path / "s")


def test_graders_of_one_name_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(Judge, "mended", True)
    both = [Judge("a"), Judge("b"), "exact_match"]
    done = run_task(sums(), model(), tmp_path / "r", graders=both)
    told = {"judge(a)": "1", "judge(b)": "1", "exact_match": "1"}
    assert done.results["config"]["graders"] == told
    assert done.run.manifest["versioned_objects"]["grader:judge(b)"] == "1"


def test_how_the_model_was_asked_is_recorded_outside_the_results(tmp_path):
    batched = Failing(())
    batched.batch_size, batched.max_batch_tokens, batched.concurrency = 4, 512, 7
    own = run_task(sums(), batched, tmp_path / "own" / "r")
    assert own.run.manifest["engine"] == {
        "concurrency": 7,
        "model_batching": {"batch_size": 4, "max_batch_tokens": 512},
    }
    told = run_task(sums(), Failing(()), tmp_path / "told" / "r", concurrency=2)
    assert told.run.manifest["engine"] == {"concurrency": 2, "model_batching": None}
    default = run_task(sums(), Failing(()), tmp_path / "default" / "r")
    assert default.run.manifest["engine"]["concurrency"] == 16
    assert files(own.run.path) == files(told.run.path)
    again = measure_run(own.run, sums(), out=tmp_path / "again")
    assert again.run.manifest["engine"] == own.run.manifest["engine"]


def test_a_replay_sends_what_was_sent(tmp_path):
    def blurted(request):
        assert isinstance(request.prompt, str)
        return "0"

    silent = ScriptedModel(blurted, name="base")
    silent.speaks_chat = False
    first = run_task(sums(), silent, tmp_path / "r")
    assert first.results["config"]["formatter"] == "plain"
    replayed = run_task(sums(), None, tmp_path / "p" / "r", replay=first.run.path)
    assert replayed.n_errors == 0
    assert files(tmp_path / "p" / "r") == files(tmp_path / "r")

    own = run_task(sums(), silent, tmp_path / "own", formatter=joined)
    with pytest.raises(
        InvalidInputError, match=r"`formatter` is missing; .* of which only the hash"
    ):
        run_task(sums(), None, replay=own.run.path)
    assert run_task(sums(), None, replay=own.run.path, formatter=joined).n_errors == 0


def test_a_replay_of_an_unfinished_run_sends_what_was_sent(tmp_path):
    def interrupted(request):
        if request.prompt.startswith("What is 9 "):
            raise ModelError("no key", kind="auth")
        return "0"

    with pytest.raises(ModelError):
        run_task(sums(), model(interrupted), tmp_path / "r", formatter="plain", concurrency=1)
    for source in (tmp_path / "r", tmp_path / "r" / "journal.jsonl"):
        done = run_task(sums(), None, replay=source)
        assert 0 < done.n_errors < N


def joined(messages):
    return " ".join(message.content for message in messages)


def test_replay_and_cache_need_no_model(tmp_path):
    first = run_task(sums(), model(), tmp_path / "r", cache=tmp_path / "cache.sqlite")
    silent = model()
    cached = run_task(sums(), silent, tmp_path / "c" / "r", cache=tmp_path / "cache.sqlite")
    assert silent.n_calls == 0
    assert cached.usage["n_cached"] == N
    with ResponseCache(tmp_path / "cache.sqlite") as cache:
        run_task(sums(), silent, cache=cache)
    replayed = run_task(sums(), None, tmp_path / "p" / "r", replay=first.run.path)
    assert replayed.card == first.card
    for name in ("c", "p"):
        assert files(tmp_path / name / "r") == files(tmp_path / "r")


# --- comparisons --------------------------------------------------------------------------------


def test_zero_and_five_shot_runs_pair_on_all_units(tmp_path):
    zero = run_task(sums(), model(), tmp_path / "zero")
    five = run_task(sums(num_fewshot=5), model(), tmp_path / "five")
    assert len(five.run.table("responses.parquet")["unit_id"]) == N
    assert zero.run.manifest["item_set_hash"] == five.run.manifest["item_set_hash"]
    cell = compare_runs(zero.run, five.run, metrics=["exact_match"])["Sums", "adder", "exact_match"]
    assert (cell.n_units, cell.n_only_a, cell.n_only_b, cell.n_mismatched) == (N, 0, 0, 0)
    assert cell.delta == 0.0


# --- before anything is asked -------------------------------------------------------------------


def test_an_estimate_asks_nothing():
    silent = model()
    told = estimate(sums(), silent, limit=3, attempts=2)
    assert silent.n_calls == 0
    assert isinstance(told, Estimate)
    assert (told.n_samples, told.n_requests, told.completion_tokens) == (6, 12, 96)
    assert told.how == "counted by the model in 6 of 6 prompts"
    assert told.prompt_tokens == sum(
        silent.count_tokens(s.messages[0].content) for s in sums().samples(3) for _ in range(2)
    )
    plain = estimate(Choose(rows=PLAIN_ROWS))
    assert plain.completion_tokens == 0
    assert plain.how == "one token per 4 characters"
    assert plain.cost is None
    with pytest.raises(InvalidInputError, match="the same in every attempt"):
        estimate(Choose(rows=PLAIN_ROWS), attempts=2)


def test_an_estimate_of_very_many_attempts_is_a_product():
    told = estimate(sums(), attempts=10**9)
    assert told.n_requests == 10**9 * N
    assert told.completion_tokens == 8 * 10**9 * N


def test_an_estimate_knows_the_limit_that_a_model_sets_itself_and_its_prices():
    class Open(Sums):
        max_tokens = None

    priced = Failing(())
    priced.default_max_tokens, priced.prices = 100, (2.0, 10.0)
    told = estimate(Open(rows=ROWS), priced, formatter="plain", attempts=2)
    assert told.completion_tokens == 2 * N * 100
    assert told.cost == pytest.approx((told.prompt_tokens * 2.0 + 2 * N * 100 * 10.0) / 1e6)
    chat = estimate(Open(rows=ROWS), priced)  # the limit is of texts
    assert chat.completion_tokens is None
    assert chat.cost == pytest.approx(chat.prompt_tokens * 2.0 / 1e6)
    assert estimate(sums(), priced, formatter="plain").completion_tokens == 8 * N
    assert estimate(sums(), Failing(())).cost is None


# --- who answered, and what it took -------------------------------------------------------------


def priced(request):
    return RawCompletion(solve(request), usage=Usage(10, 2, cost=0.5))


def counts(done):
    return (done.n_asked, done.n_reused, done.n_cached, done.n_replayed)


def test_answers_are_told_apart_by_where_they_come_from(tmp_path):
    cache = tmp_path / "cache.sqlite"
    few = run_task(sums(), model(priced), tmp_path / "r", limit=3, cache=cache)
    assert counts(few) == (6, 0, 0, 0)
    more = run_task(sums(), model(priced), tmp_path / "r", limit=4, cache=cache)
    assert counts(more) == (2, 6, 0, 0)
    assert (more.usage["cost"], more.usage_now["cost"]) == (4.0, 1.0)
    assert (more.usage["prompt_tokens"], more.usage_now["prompt_tokens"]) == (80, 20)
    cached = run_task(sums(), model(priced), limit=5, cache=cache)
    assert counts(cached) == (2, 0, 8, 0)
    assert cached.usage_now == {**cached.usage_now, "cost": 1.0, "completion_tokens": 4}
    replayed = run_task(sums(), None, replay=more.run.path, limit=4)
    assert counts(replayed) == (0, 0, 0, 8)
    assert replayed.usage_now["prompt_tokens"] == 0
    lacking = run_task(sums(), None, replay=more.run.path, limit=5)
    assert counts(lacking) == (0, 0, 0, 10)
    assert lacking.n_failed_requests == 2
    measured = measure_run(more.run, sums())
    assert counts(measured) == (0, 8, 0, 0)
    assert measured.usage_now["cost"] == 0.0
    told = more.to_dict()
    assert (told["n_asked"], told["n_cached"], told["usage_now"]["cost"]) == (2, 0, 1.0)


def test_measuring_a_run_with_failures_asks_nothing(tmp_path):
    done = run_task(sums(), Failing({3}), tmp_path / "r")
    again = measure_run(done.run, sums())
    assert counts(again) == (0, N - 1, 0, 0)
    assert again.n_failed_requests == 1


def test_what_a_reader_should_know_is_in_the_notes_and_the_manifest(tmp_path):
    rows = [{**row, "id": 1} for row in ROWS]
    done = run_task(Sums(rows=rows), model(), tmp_path / "r", attempts=2)
    assert "the key 'id' is 1, as in row 1" in done.notes[0]
    assert "temperature 0" in done.notes[1]
    assert done.run.manifest["notes"] == list(done.notes)
    again = measure_run(done.run, Sums(rows=rows), out=tmp_path / "s")
    assert "the key 'id' is 1, as in row 1" in again.notes[0]
    assert again.run.manifest["notes"] == list(done.notes)
    quiet = run_task(sums(), model(), tmp_path / "t", attempts=2, temperature=0.5)
    assert quiet.notes == ()
    assert quiet.run.manifest["notes"] == []


# --- graders ------------------------------------------------------------------------------------


def test_graders_of_another_kind_of_answer_are_refused(tmp_path):
    silent = model()
    with pytest.raises(InvalidInputError) as caught:
        run_task(sums(), silent, tmp_path / "r", graders=["accuracy"])
    what, _, names = str(caught.value).partition("; suitable graders are ")
    assert what == "the grader 'accuracy' grades log-likelihoods, but 'Sums' asks for completions"
    assert {"exact_match", "f1", "number_match"} <= set(names.split(", "))
    assert "probability_mass" not in names
    assert (silent.n_calls, (tmp_path / "r").exists()) == (0, False)
    with pytest.raises(
        InvalidInputError, match=r"'f1' grades completions, .*; suitable graders are accuracy, "
    ):
        run_task(Choose(rows=PLAIN_ROWS), silent, graders=["f1"])
    with pytest.raises(InvalidInputError, match="grades log-likelihoods"):
        measure_run(
            run_task(sums(), model(), tmp_path / "m").run, sums(), graders=["bits_per_byte"]
        )


def test_graders_that_say_nothing_of_it_are_accepted(monkeypatch):
    monkeypatch.setattr(Judge, "mended", True)
    assert run_task(sums(), model(), graders=[Judge()]).card["judge"].value == 1.0


def test_a_k_that_is_repeated_is_one_k():
    done = run_task(
        sums(), model(), attempts=2, temperature=0.5, pass_at=[2, 1, 2], pass_hat=(2, 2)
    )
    assert [name for name in done.card if "pass" in name and "macro" not in name] == [
        "exact_match_pass@2",
        "exact_match_pass@1",
        "exact_match_pass^2",
    ]
    assert done.results["config"]["pass_at"] == [2, 1]


def test_columns_that_clash_are_refused_before_anything_is_asked(monkeypatch):
    monkeypatch.setattr(Judge, "mended", True)
    silent = model()
    graders = ["exact_match", Judge("exact_match_pass@1")]
    with pytest.raises(InvalidInputError, match="'exact_match_pass@1'"):
        run_task(sums(), silent, graders=graders, pass_at=[1])
    assert silent.n_calls == 0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"attempts": 0}, InvalidInputError, "`attempts` is 0"),
        ({"pass_at": [4]}, InvalidInputError, "`pass_at` is 4, but each sample has 1 attempts"),
        ({"graders": "exact_match"}, InvalidTypeError, r"write \['exact_match'\]"),
        ({"graders": []}, InvalidInputError, "no graders"),
        ({"on_error": "ignore"}, InvalidInputError, "`on_error` is 'ignore'"),
        ({"max_error_rate": 2}, InvalidInputError, "`max_error_rate` is 2"),
        ({"confidence": 95}, InvalidInputError, "`confidence` is 95"),
        ({"limit": 0}, InvalidInputError, "`limit` is 0"),
        ({"formatter": "xml"}, InvalidInputError, "^`formatter` is 'xml'"),
        ({"formatter": 3}, InvalidTypeError, "^`formatter` is 3; it must be a name"),
        ({"temperature": -1}, InvalidInputError, "`temperature` is -1"),
        ({"temperature": "x"}, InvalidTypeError, "`temperature` must be a number, got 'x'"),
        ({"temperature": np.inf}, InvalidInputError, "`temperature` is inf"),
        ({"top_p": "a"}, InvalidTypeError, "`top_p` must be a number, got 'a'"),
        ({"max_tokens": "5"}, InvalidTypeError, "`max_tokens` must be an integer, got '5'"),
        ({"max_tokens": 2.5}, InvalidTypeError, "`max_tokens` must be an integer, got 2.5"),
        ({"stop": "Question:"}, InvalidInputError, "^`stop` is a single string; pass a sequence"),
        ({"stop": [""]}, InvalidInputError, r"^stop\[0\] is empty"),
        ({"concurrency": 0}, InvalidInputError, "`concurrency` is 0"),
        ({"pass_at": 3}, InvalidTypeError, "`pass_at` is 3; it must be a list of numbers"),
        ({"pass_hat": "3"}, InvalidTypeError, "`pass_hat` is '3'; it must be a list of numbers"),
        ({"graders": 3}, InvalidTypeError, "`graders` is 3; it must be a list"),
        ({"cache": 3}, InvalidTypeError, "`cache` is 3; it must be a ResponseCache or a path"),
        ({"replay": 3}, InvalidTypeError, "`replay` is 3; it must be a path"),
        ({"run_id": ""}, InvalidInputError, "`run_id` is ''; it must be a non-empty string"),
        ({"run_id": 3}, InvalidInputError, "`run_id` is 3; it must be a non-empty string"),
        ({"on_progress": 3}, InvalidTypeError, "`on_progress` is 3; it must be callable"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_asked(
    tmp_path, options, error, message
):
    silent = model()
    with pytest.raises(error, match=message):
        run_task(sums(), silent, tmp_path / "r", **options)
    assert silent.n_calls == 0
    assert not (tmp_path / "r").exists()


def test_stop_texts_of_a_task_are_a_list():
    class OneText(Sums):
        stop_sequences = "Question:"

    class Endless(Sums):
        max_tokens = 0

    with pytest.raises(
        InvalidInputError, match="task 'Sums': `stop` is a single string; pass a sequence"
    ):
        run_task(OneText(rows=ROWS), model())
    with pytest.raises(InvalidInputError, match="task 'Sums': `max_tokens` is 0"):
        run_task(Endless(rows=ROWS), model())
    # What is given replaces what is the task's.
    assert decoding_of(OneText(rows=ROWS), stop=["\n"]).stop == ("\n",)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(InvalidTypeError, match="`out` is 3; it must be a path"):
        run_task(sums(), model(), 3)
    done = run_task(sums(2), model(), tmp_path / "r")
    with pytest.raises(InvalidTypeError, match="`out` is 3; it must be a path"):
        measure_run(done.run, sums(2), out=3)
    with pytest.raises(InvalidTypeError, match="`run` is 3; it must be a Run or a path"):
        measure_run(3, sums(2))
    with pytest.raises(InvalidTypeError, match="`task` is 'Sums'; it must be a task"):
        measure_run(done.run, "Sums")


def test_what_is_no_task_or_model_is_refused():
    with pytest.raises(InvalidTypeError, match="`task` is None; it must be a task"):
        run_task(None, model())
    with pytest.raises(PluginError, match="there is no task 'Sums'"):
        run_task("Sums", model())
    with pytest.raises(PluginError, match="there is no model 'gpt'"):
        run_task(sums(), "gpt")
    with pytest.raises(InvalidTypeError, match="`model` is int 5; it must be a function"):
        run_task(sums(), 5)
    with pytest.raises(InvalidInputError, match="`model` is missing"):
        run_task(sums())


def test_loglikelihoods_are_not_decoded():
    task = Choose(rows=PLAIN_ROWS)
    with pytest.raises(
        InvalidInputError, match=r"`temperature` is 0\.5, but 'Choose' requests log"
    ):
        run_task(task, model(), temperature=0.5)
    with pytest.raises(InvalidInputError, match="the same in every attempt"):
        run_task(task, model(), attempts=2)


def test_more_attempts_than_can_be_held_are_refused():
    """A task file may say ``repeats: 9223372036854775807``."""
    with pytest.raises(InvalidInputError, match="requests; reduce `attempts`"):
        plan_jobs(sums(), sums().samples(), attempts=2**63 - 1)

"""Shards of a run, and the run that they are merged to: the bytes of one run."""

import json
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit import metric_specs as ms
from eval_toolkit import score_predictions
from eval_toolkit.artifacts import json_bytes
from eval_toolkit.errors import ArtifactError, InvalidInputError, ModelError
from eval_toolkit.graders import Judge
from eval_toolkit.manifest import seal_manifest
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import Budget, System, run_rollouts
from eval_toolkit.rollouts.seeds import seed_prompts
from eval_toolkit.runs import Kind, Outcome, Run, Shard, Unit, drive, merge_runs, rescore
from eval_toolkit.tasks import (
    BaseTask,
    ChoicesSpec,
    CompletionSpec,
    Prompt,
    Task,
    UntilWidth,
    run_task,
)

OF_THE_RUN = {"captured_at", "wall_clock_seconds", "manifest_sha256", "merged"}
"""Entries of the manifest that may differ from those of one run, as docs/howto/shards.md says."""


def drawn(text: object, *among: str) -> str:
    """Return one of the texts by the hash of another: the same in every process."""
    return among[zlib.crc32(str(text).encode()) % len(among)]


def said(request: Any) -> str:
    """Answer some questions rightly, and fail now and then."""
    question = str(request.prompt[-1].content)
    if "fails" in question and drawn(question, "yes", "no") == "yes":
        raise ModelError("no such question", kind="bad_request")
    number = int(question.split()[0]) + 1
    return drawn((question, request.seed), str(number), f"It is {number}.", "I do not know")


def rated(request: Any) -> list[float]:
    return [
        -1.0 - zlib.crc32(f"{request.prompt}{one}".encode()) % 7 for one in request.continuations
    ]


def sums(n: int = 23) -> list[dict[str, Any]]:
    long = "x" * 20_050 + " "
    return [
        {
            "id": f"q{number}",
            "question": f"{number} + 1? {'it fails' if number % 5 == 0 else long * (number == 3)}",
            "answer": str(number + 1) if number % 4 else [str(number + 1), "none"],
            "subject": "ab"[number % 2],
            "group": f"g{number // 2}",
        }
        for number in range(n)
    ]


def choices(n: int = 12) -> list[dict[str, Any]]:
    return [{"question": f"{k}?", "choices": ["red", "blue"], "answer": "blue"} for k in range(n)]


class Own(BaseTask[str]):
    """A task of one's own, whose grader no name recreates."""

    NAME = "own"
    RESPONSE_TYPE = None  # set below: the contract wants one

    def _get_instruction_text(self, item: Any) -> str:
        return str(item["question"])

    def _get_ground_truth(self, item: Any) -> str:
        return str(item["answer"])


class Longest:
    """A grader without a name in the package."""

    name, version = "longest", "1"

    def grade(self, response: Any) -> Mapping[str, float]:
        return {"longest": float(len(response.completion))}


def own_task() -> Own:
    from eval_toolkit.models.responses import ResponseType

    Own.RESPONSE_TYPE = ResponseType.COMPLETION
    return Own(rows=[{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(9)])


def quiz_run(out: Path, **more: Any) -> Outcome:
    return run_task(sums(), ScriptedModel(said), out, max_error_rate=1.0, **more)


def attempts_run(out: Path, **more: Any) -> Outcome:
    drawing: Any = {"attempts": 3, "temperature": 0.7, "pass_at": [2], "maj_at": [3]}
    task = Task(
        "sums", Prompt(instruction="{question}"), CompletionSpec(answer="answer"), rows=sums(8)
    )
    graders = ["includes", "number_match"]
    return run_task(task, ScriptedModel(said), out, graders=graders, **drawing, **more)


def choices_run(out: Path, **more: Any) -> Outcome:
    return run_task(choices(), ScriptedModel(lambda r: drawn(r.prompt, "A", "B")), out, **more)


def rated_run(out: Path, **more: Any) -> Outcome:
    task = Task(
        "colours",
        Prompt(instruction="{question}"),
        ChoicesSpec(choices="choices", answer="answer"),
        rows=choices(),
    )
    return run_task(task, ScriptedModel(rated), out, **more)


def judged_run(out: Path, **more: Any) -> Outcome:
    judge = Judge(
        "correctness",
        ScriptedModel(lambda r: drawn(r.prompt, "yes", "no")),
        votes=3,
        temperature=0.5,
    )
    return run_task(
        sums(9), ScriptedModel(said), out, graders=["includes", judge], max_error_rate=1.0, **more
    )


def own_run(out: Path, **more: Any) -> Outcome:
    return run_task(own_task(), ScriptedModel(said), out, graders=[Longest()], **more)


def replied(request: Any) -> str:
    if drawn(request.prompt, *"abcde") == "a":
        raise ModelError("the model is down", kind="bad_request")
    return drawn(request.prompt, "Sure, here is how.", "I cannot help.", "Well.")


def rollouts_run(out: Path, **more: Any) -> Outcome:
    def harm(texts: Sequence[str]) -> list[float]:
        return [float(text.startswith("Sure")) for text in texts]

    prompts = seed_prompts(
        [
            {"prompt": f"Tell me secret {n}", "topic": f"t{n // 2}", "category": "xy"[n % 2]}
            for n in range(8)
        ]
    )
    probes = ["Please.", "I insist.", "Really?"]
    return run_rollouts(
        System(probes, ScriptedModel(replied), harm),
        prompts,
        out,
        depth=3,
        rollouts_per_seed=2,
        asr_at=[2],
        max_error_rate=1.0,
        **{"stop_on_success": True, **more},
    )


@dataclass(frozen=True)
class Halving(Kind[Any]):
    """A kind from outside, of four methods."""

    n: int = 11
    name = "halving"
    by = "parity"

    def config(self) -> Mapping[str, Any]:
        return {"system": "half", "n": self.n}

    def units(self) -> Sequence[Unit]:
        return [
            Unit(id=f"u{n}", input=n, reference=n / 2, parts={"parity": "eo"[n % 2]}, more={"k": n})
            for n in range(self.n)
        ]

    def respond(self, inputs: list[Any]) -> Sequence[Any]:
        return [n // 2 for n in inputs]

    def score(self, unit: Unit, output: Any) -> Mapping[str, Any]:
        return {"right": float(output == unit.reference), "far": None if output == 2 else 1.0}

    def metrics(self) -> Sequence[Any]:
        return [ms.mean_of("right"), ms.mean_of("far")]


def halving_run(out: Path, **more: Any) -> Outcome:
    return drive(Halving(), out, name="halves", **more)


RUNS: dict[str, tuple[Callable[..., Outcome], dict[str, Any]]] = {
    "questions": (quiz_run, {}),
    "attempts": (attempts_run, {}),
    "choices": (choices_run, {}),
    "rated choices": (rated_run, {}),
    "judges": (judged_run, {}),
    "own grader": (own_run, {"graders": [Longest()]}),
    "rollouts": (rollouts_run, {}),
    "another kind": (halving_run, {"kind": Halving()}),
}


def sharded(of: Callable[..., Outcome], place: Path, n: int, **more: Any) -> list[Run]:
    found = [of(place / f"{i}-of-{n}", shard=f"{i}/{n}", **more).run for i in range(1, n + 1)]
    return [run for run in found if run is not None]


def refuse_difference(whole: Path, merged: Path) -> None:
    """Raise unless two folders have the same bytes, apart from what the docs except."""
    names = sorted(path.name for path in whole.iterdir())
    assert names == sorted(path.name for path in merged.iterdir())
    assert {"records.parquet", "results.json", "units.parquet", "responses.parquet"} < {*names}
    for name in names:
        if name != "manifest.json":
            assert (whole / name).read_bytes() == (merged / name).read_bytes(), name
    told, found = (json.loads((place / "manifest.json").read_bytes()) for place in (whole, merged))
    different = {name for name in {**told, **found} if told.get(name) != found.get(name)}
    assert "merged" in different <= OF_THE_RUN  # times may be equal


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("name", RUNS)
def test_merged_shards_have_the_bytes_of_one_run(name: str, n: int, tmp_path: Path) -> None:
    of, options = RUNS[name]
    whole = of(tmp_path / "one" / "run")
    shards = sharded(of, tmp_path, n)
    done = merge_runs(reversed(shards), tmp_path / "merged" / "run", max_error_rate=1.0, **options)
    refuse_difference(tmp_path / "one" / "run", tmp_path / "merged" / "run")
    assert done.n_asked == 0
    assert done.n_requests == whole.n_requests
    assert (done.counts, done.n_errors, done.usage) == (whole.counts, whole.n_errors, whole.usage)


def test_more_shards_than_items_leave_some_empty(tmp_path: Path) -> None:
    one = quiz_run(tmp_path / "one" / "run", limit=1)
    shards = sharded(quiz_run, tmp_path, 7, limit=1)
    assert sorted(len(run.subjects) for run in shards) == [0] * 5 + [1] * 2  # one of each subject
    merge_runs(shards, tmp_path / "merged" / "run", max_error_rate=1.0)
    assert one.run is not None
    refuse_difference(one.run.path, tmp_path / "merged" / "run")


def test_an_item_is_in_the_same_shard_whatever_the_limit(tmp_path: Path) -> None:
    few = quiz_run(tmp_path / "few", shard="2/3", limit=4).records.unit_id
    all_of_it = quiz_run(tmp_path / "all", shard="2/3").records.unit_id
    assert 0 < len(few) < len(all_of_it)
    assert {*few} < {*all_of_it}


class Dying(ScriptedModel):
    """A model that dies after some answers, and says the same of itself as one that does not."""

    def __init__(self, n: int | None) -> None:
        super().__init__(said, concurrency=1)
        self.left = n

    async def generate(self, request: Any) -> Any:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        return await super().generate(request)


def test_a_killed_shard_is_resumed_and_merged(tmp_path: Path) -> None:
    def of(out: Path, n: int | None = None, **more: Any) -> Outcome:
        rows = [row for row in sums() if "fails" not in row["question"]]
        return run_task(rows, Dying(n), out, **more)

    of(tmp_path / "one" / "run")
    first = of(tmp_path / "1", shard="1/2").run
    with pytest.raises(KeyboardInterrupt):
        of(tmp_path / "2", 3, shard="2/2")
    with pytest.raises(ArtifactError, match=r"2: the shard is unfinished; run its command again"):
        merge_runs([first, tmp_path / "2"], tmp_path / "merged" / "run")
    for shard in (None, "1/2", "2/3"):
        with pytest.raises(ArtifactError, match=r"contains a run with shard = \"2/2\", but this"):
            of(tmp_path / "2", shard=shard)
    again = of(tmp_path / "2", shard="2/2")
    assert again.n_reused == 3
    assert again.n_asked == len(again.records) - 3
    merge_runs([first, again], tmp_path / "merged" / "run")
    refuse_difference(tmp_path / "one" / "run", tmp_path / "merged" / "run")


def test_a_part_can_be_merged_and_the_rest_later(tmp_path: Path) -> None:
    quiz_run(tmp_path / "one" / "run")
    shards = sharded(quiz_run, tmp_path, 5)
    out = tmp_path / "part"
    options: Any = {"max_error_rate": 1.0}
    with pytest.raises(ArtifactError, match=r"2 of 5 shards are missing: 2, 4; run them, or pass"):
        merge_runs(shards[::2], out, **options)
    assert not out.exists()
    part = merge_runs(shards[::2], out, partial=True, **options)
    n = sum(len(run.records(*run.only_subject)) for run in shards[::2])
    assert part.results["config"]["shard"] == "1,3,5/5"
    assert part.notes[-1] == f"shards 2, 4 of 5 are missing; the run has {n} of 23 units"
    merge_runs([part, *shards[1::2]], tmp_path / "merged" / "run", **options)
    refuse_difference(tmp_path / "one" / "run", tmp_path / "merged" / "run")


def test_shards_are_judged_apart_and_merged(tmp_path: Path) -> None:
    judge = Judge("correctness", ScriptedModel("yes"))
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(9)]
    whole = run_task(rows, ScriptedModel(said), tmp_path / "a").run
    judged = rescore(whole, tmp_path / "one" / "run", judges=[judge])
    runs = [
        run_task(rows, ScriptedModel(said), tmp_path / f"s{i}", shard=f"{i}/2").run for i in (1, 2)
    ]
    both = [rescore(run, tmp_path / f"j{i}", judges=[judge]) for i, run in enumerate(runs)]
    done = merge_runs(both, tmp_path / "merged" / "run")
    assert done.card == judged.card
    for name in ("results.json", "records.parquet", "responses.parquet"):
        there = tmp_path / "one" / "run" / name
        assert there.read_bytes() == (tmp_path / "merged" / "run" / name).read_bytes()


def other_runs() -> dict[str, tuple[Callable[[Path], Any], str]]:
    """Return folders that are no other half of `quiz_run`, and why."""

    def quiz(**more: Any) -> Callable[[Path], Any]:
        return lambda out: quiz_run(out, **{"shard": "2/2", **more})

    def of(rows: Any, model: Any, **more: Any) -> Callable[[Path], Any]:
        return lambda out: run_task(rows, model, out, shard="2/2", max_error_rate=1.0, **more)

    model, rows = ScriptedModel(said), sums()
    other = [{**row, "question": row["question"].replace("+", "plus")} for row in rows]
    return {
        "doubled": (quiz(shard="1/2"), r"is shard 1/2, and so is .*; pass each shard once"),
        "another n": (quiz(shard="2/3"), r"is shard 2/3, but .* is 1/2; pass shards of one run"),
        "whole": (quiz(shard=None), r"not a shard of a run; run it with --shard i/n"),
        "limit": (quiz(limit=3), r"has config\.limit = 3, but .* has null"),
        "seed": (quiz(seed=7), r"has config\.seed = 7, but .* has 42"),
        "decoding": (quiz(max_tokens=5), r"has config\.decoding\.max_tokens = 5, but"),
        "graders": (quiz(graders=["f1"]), r"has config\.graders"),
        "prompt": (of(rows, model, prompt="Now: {question}"), r"has config\.task"),
        "model": (of(rows, ScriptedModel(said, name="m")), r"has config\.model\.\S+ = \"m\", but"),
        "items": (of(other, model), r"has config\.task\."),
        "kind": (lambda out: halving_run(out, shard="2/2"), r"has config\."),
    }


@pytest.mark.parametrize("name", other_runs())
def test_shards_of_other_runs_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    of, why = other_runs()[name]
    first = quiz_run(tmp_path / "first", shard="1/2")
    of(tmp_path / "second")
    with pytest.raises(ArtifactError, match=why) as found:
        merge_runs([tmp_path / "first", tmp_path / "second"], tmp_path / "out")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "out").exists()
    assert first.run is not None


def resealed(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a manifest, with hashes that fit."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    change(manifest)
    (folder / "manifest.json").write_bytes(json_bytes(seal_manifest(manifest)))


ODD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "text": (lambda told: told["config"].update(shard="all"), "`shard` is 'all'; it must be i/n"),
    "beyond": (lambda told: told["config"].update(shard="3/2"), "a number from 1 to 2"),
    "twice": (lambda told: told["config"].update(shard="2,2/2"), "a number from 1 to 2"),
    "list": (lambda told: told["config"].update(shard=[2, 2]), "it must be a string"),
    "huge": (lambda told: told["config"].update(shard="2/" + "9" * 5000), "it must be i/n"),
    "no whole": (lambda told: told.pop("shard"), "not a shard of a run"),
    "whole": (lambda told: told.update(shard=7), "shard: is 7; it must be object"),
    "notes": (lambda told: told["shard"].update(notes=3), "notes: is 3; it must be array"),
    "others": (lambda told: told["shard"].update(item_set_hash="0"), "its units differ from those"),
    "number": (lambda told: told["config"].update(shard="1/2"), "is shard 1/2, and so is"),
    "seconds": (lambda told: told.update(wall_clock_seconds="x"), "wall_clock_seconds"),
    "units": (lambda told: told.update(units={"n_cut": "x"}), "units"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_manifests_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    change, why = ODD[name]
    sharded(quiz_run, tmp_path, 2)
    resealed(tmp_path / "2-of-2", change)
    with pytest.raises((ArtifactError, InvalidInputError), match=why) as found:
        merge_runs([tmp_path / "1-of-2", tmp_path / "2-of-2"], tmp_path / "out", max_error_rate=1)
    assert "\n" not in str(found.value)


def test_units_of_another_shard_are_refused(tmp_path: Path) -> None:
    sharded(quiz_run, tmp_path, 3)
    shutil.copytree(tmp_path / "2-of-3", tmp_path / "swapped")
    resealed(tmp_path / "swapped", lambda told: told["config"].update(shard="3/3"))
    runs = [tmp_path / "1-of-3", tmp_path / "2-of-3", tmp_path / "swapped"]
    with pytest.raises(ArtifactError, match=r"swapped: the unit .* does not belong to this shard"):
        merge_runs(runs, tmp_path / "out")
    resealed(tmp_path / "swapped", lambda told: told["config"].update(shard="2/3"))
    (tmp_path / "3-of-3" / "records.parquet").write_bytes(b"PAR1")
    with pytest.raises(ArtifactError, match=r"records\.parquet"):
        merge_runs([*runs[:2], tmp_path / "3-of-3"], tmp_path / "out")


def test_other_grades_are_refused(tmp_path: Path) -> None:
    shards = sharded(halving_run, tmp_path, 2)

    class Doubling(Halving):
        def score(self, unit: Unit, output: Any) -> Mapping[str, Any]:
            return {"right": 1.0, "far": 1.0}

    with pytest.raises(ArtifactError, match="its records for 'half' do not match this kind"):
        merge_runs(shards, tmp_path / "out", kind=Doubling())
    with pytest.raises(InvalidInputError, match="the shards have n = 11, but this merge has 4"):
        merge_runs(shards, tmp_path / "out", kind=Halving(4))
    quizzes = sharded(quiz_run, tmp_path / "q", 2)
    with pytest.raises(InvalidInputError, match=r"the shards have graders.*omit the option"):
        merge_runs(quizzes, tmp_path / "out", graders=["f1"], max_error_rate=1.0)
    assert not (tmp_path / "out").exists()


def test_a_grader_without_a_name_has_to_be_passed(tmp_path: Path) -> None:
    shards = sharded(own_run, tmp_path, 2)
    with pytest.raises(ArtifactError, match=r"1-of-2: the run was graded by 'longest'"):
        merge_runs(shards, tmp_path / "out")


def test_existing_folders_are_kept(tmp_path: Path) -> None:
    shards = sharded(halving_run, tmp_path, 2)
    out = tmp_path / "out"
    merge_runs(shards, out, kind=Halving())
    before = (out / "manifest.json").read_bytes()
    with pytest.raises(ArtifactError, match=r"out: already contains a run; choose another folder"):
        merge_runs(shards, out, kind=Halving())
    with pytest.raises(InvalidInputError, match=r"`out` is .*, the run itself"):
        merge_runs(shards, tmp_path / "1-of-2", kind=Halving())
    assert (out / "manifest.json").read_bytes() == before


def test_an_interrupted_merge_is_repeated(tmp_path: Path) -> None:
    shards = sharded(halving_run, tmp_path, 2)
    done = merge_runs(shards, tmp_path / "merged" / "run", kind=Halving())
    halving_run(tmp_path / "one" / "run")
    assert done.run is not None
    for name in ("results.json", "units.parquet"):  # killed between two renames
        (done.run.path / name).unlink()
    resealed(done.run.path, lambda told: told.update(status="running"))
    merge_runs(shards, done.run.path, kind=Halving())
    refuse_difference(tmp_path / "one" / "run", done.run.path)


@pytest.mark.parametrize("given", ["0/2", "3/2", "1/0", "1", "a/b", "1/2/3", "-1/2", "1.0/2", ""])
def test_a_shard_is_i_of_n(given: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^`shard` is .*"):
        quiz_run(tmp_path / "run", shard=given)
    assert not (tmp_path / "run").exists()


def test_what_is_of_a_whole_run_has_no_shards(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="`until` needs all samples"):
        quiz_run(tmp_path / "run", shard="1/2", until=UntilWidth(0.2))
    with pytest.raises(InvalidInputError, match="`budget` applies to a whole run"):
        rollouts_run(tmp_path / "run", shard="1/2", budget=Budget(calls=3))
    with pytest.raises(InvalidInputError, match="`runs` is empty"):
        merge_runs([], tmp_path / "run")
    with pytest.raises(InvalidInputError, match="`runs` is a single run"):
        merge_runs(str(tmp_path), tmp_path / "run")


def test_a_kind_that_asks_about_all_units_is_refused(tmp_path: Path) -> None:
    class Greedy(Halving):
        def produce(self, context: Any) -> Any:
            return context.answers(self.respond, Halving.units(self), "greedy")

        def share(self, shard: Shard) -> "Greedy":
            return self

    with pytest.raises(InvalidInputError, match="'halving' evaluates units outside the shard"):
        drive(Greedy(), tmp_path / "run", name="halves", shard="1/2")


def test_every_unit_is_in_one_shard() -> None:
    units = [Unit(id=f"u{n}", input=n) for n in range(400)]
    for n in (1, 2, 3, 7, 50):
        shards = [Shard.read(f"{i}/{n}").take(units) for i in range(1, n + 1)]
        assert sorted(unit.id for some in shards for unit in some) == sorted(u.id for u in units)
        assert max(map(len, shards)) <= 400 / n + 4 * (400 / n) ** 0.5


def test_rows_need_no_merge(tmp_path: Path) -> None:
    """Predictions of several jobs are several files of one command."""
    rows = [f"r{n:03},{n % 2},{(n * 37 % 100) / 100}\n" for n in range(60)]
    for name, some in (("all", rows), ("a", rows[:20]), ("b", rows[20:])):
        (tmp_path / f"{name}.csv").write_text("id,label,score\n" + "".join(some))
    whole = score_predictions(tmp_path / "all.csv", ["roc_auc"], out=tmp_path / "one" / "r")
    parts = score_predictions(
        [tmp_path / "b.csv", tmp_path / "a.csv"], ["roc_auc"], out=tmp_path / "two" / "r"
    )
    assert parts.card == whole.card
    found = [(tmp_path / name / "r" / "records.parquet").read_bytes() for name in ("one", "two")]
    assert found[0] == found[1]

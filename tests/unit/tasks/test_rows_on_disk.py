"""Runs whose questions and answers stay on disk write the same bytes as those in memory."""

import json
from functools import partial

import pytest
from tests.support.each import each

from eval_toolkit._internal.files import limits
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges import Judge
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, rescore
from eval_toolkit.runs.merging import merge_runs
from eval_toolkit.tasks import (
    ChoicesSpec,
    CompletionSpec,
    DataSpec,
    Prompt,
    Task,
    UntilWidth,
    run_task,
)
from eval_toolkit.tasks.rows_on_disk import ItemsOnDisk, RowsOnDisk, SampleOnDisk

N = 60
STORED = ("records.parquet", "results.json", "responses.parquet", "units.parquet")


def rows(path, n=N):
    """Write questions, with blank lines, other lines and a field that only some rows have."""
    lines = [
        {
            "id": f"q{i * 7 % n}",
            "question": f"What is {i} + {i}? " + "Think. " * (i % 5) * 9,
            "answer": [str(2 * i), f"{2 * i}.0"] if i % 9 == 1 else str(2 * i),
            "subject": "even" if i % 2 else "ödd",
            "group": f"g{i // 2}",
            **({"more": {"a": [i, None, 1.5]}} if i % 3 else {}),
        }
        for i in range(n)
    ]
    path.write_text(
        "\n\n".join(json.dumps(line, ensure_ascii=i % 2 == 0) for i, line in enumerate(lines))
    )
    return path


LEFT = [0]
"""Number of requests until the next interruption."""


def answer(request):
    LEFT[0] -= 1
    if LEFT[0] == 0:
        raise KeyboardInterrupt
    text = str(request.prompt)
    n = int(text.split("What is ")[-1].split()[0])
    return f"word {n}" if n % 4 == 0 else str(2 * n)


def numbers(request):
    return [-float(len(str(request.prompt)) % 7 + len(one)) for one in request.continuations]


def by_questions(path, out, **options):
    """Run with a cache in the folder of the data if attempts repeat a request."""
    if options.get("attempts") == 2:
        options["cache"] = out.with_suffix(".cache")
    return run_task(path, ScriptedModel(answer), out, run_id="r", **options)


def by_choices(path, out, **options):
    lines = [json.loads(line) for line in path.read_text().split("\n\n")]
    for at, line in enumerate(lines):
        line["answer"], line["choices"] = at % 3, [f"a{at}", "b" * 80, "c"]
    target = path.parent / "choices.jsonl"
    target.write_text("\n".join(map(json.dumps, lines)))
    task = Task(
        "choices",
        Prompt(instruction="{question}", cue="Answer:"),
        ChoicesSpec(choices="choices", answer="answer", answer_is="index"),
        data=DataSpec(path=target, subject_field="subject"),
    )
    return run_task(task, ScriptedModel(numbers), out, run_id="r", **options)


def by_shots(path, out, **options):
    task = Task(
        "sums",
        Prompt(instruction="{question}", cue="Answer:"),
        CompletionSpec(answer="answer"),
        data=DataSpec(path={"test": path, "train": path}, group_field="group"),
        graders=["exact_match"],
        num_fewshot=2,
    )
    return run_task(task, ScriptedModel(answer), out, run_id="r", **options)


WAYS = {
    "questions": by_questions,
    "a format and a limit": partial(by_questions, formatter="plain", limit=9, order="file"),
    "repeats": partial(by_questions, attempts=3, temperature=0.5, pass_at=[2], graders=["match"]),
    "subjects": partial(by_questions, by="subject"),
    "a cache": partial(by_questions, attempts=2, temperature=0.0),
    "judges": partial(by_questions, graders=["match", Judge("refusal", ScriptedModel("no"))]),
    "until": partial(by_questions, graders=["exact_match"], until=UntilWidth(0.9)),
    "choices": by_choices,
    "examples": by_shots,
}


def stored(folder):
    return {name: (folder / name).read_bytes() for name in STORED}


@each("way", WAYS)
def test_the_same_bytes(way, tmp_path):
    folder = tmp_path / way.replace(" ", "-")
    folder.mkdir()
    path = rows(folder / "q.jsonl")
    held = WAYS[way](path, folder / "held")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "HELD_BYTES", 0)
        on_disk = WAYS[way](path, folder / "disk")
    assert stored(folder / "disk") == stored(folder / "held")
    assert on_disk.notes == held.notes
    assert on_disk.answers().rows() == held.answers().rows()
    told = [one.run.manifest for one in (held, on_disk)]
    names = ("config", "counts", "usage", "units", "item_set_hash", "artifacts")
    assert [told[0].get(name) for name in names] == [told[1].get(name) for name in names]
    assert not [file for file in (folder / "disk").iterdir() if file.name.startswith(".")]


def test_it_stays_on_disk(tmp_path, monkeypatch):
    """The comparison above would pass if nothing were left on disk."""
    path = rows(tmp_path / "q.jsonl")
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    task = Task("t", Prompt(instruction="{question}"), CompletionSpec(answer="answer"), data=path)
    samples = task.samples()
    assert {type(sample) for sample in samples} == {SampleOnDisk}
    assert type(task._items("no_subject", "test")) is ItemsOnDisk
    monkeypatch.setattr(limits, "HELD_BYTES", 1 << 24)
    held = Task("t", Prompt(instruction="{question}"), CompletionSpec(answer="answer"), data=path)
    assert [sample.loaded() for sample in samples] == held.samples()
    assert [sample.to_dict() for sample in samples] == [one.to_dict() for one in held.samples()]


def test_an_interrupted_run_and_a_rescored_one(tmp_path, monkeypatch):
    path = rows(tmp_path / "q.jsonl")
    by_questions(path, tmp_path / "held")
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    LEFT[0] = 25
    with pytest.raises(KeyboardInterrupt):
        by_questions(path, tmp_path / "disk")
    done = by_questions(path, tmp_path / "disk")
    assert done.n_reused > 0 < done.n_asked == N - done.n_reused
    assert stored(tmp_path / "disk") == stored(tmp_path / "held")
    again = by_questions(path, tmp_path / "disk")
    assert (again.n_reused, again.n_asked) == (N, 0)
    new = [
        rescore(tmp_path / name, tmp_path / f"{name}2", graders=["f1"]) for name in ("held", "disk")
    ]
    assert new[0].card["f1"] == new[1].card["f1"]


def test_shards(tmp_path, monkeypatch):
    path = rows(tmp_path / "q.jsonl")
    by_questions(path, tmp_path / "held")
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    for i in (1, 2, 3):
        by_questions(path, tmp_path / f"part{i}", shard=f"{i}/3")
    merge_runs([tmp_path / f"part{i}" for i in (1, 2, 3)], tmp_path / "merged", run_id="r")
    assert stored(tmp_path / "merged") == stored(tmp_path / "held")


def test_without_a_folder_and_without_ids(tmp_path, monkeypatch):
    lines = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in (1, 2, 3, 3)]
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    held = by_questions(path, None)
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    on_disk = by_questions(path, None)
    assert on_disk.results == held.results
    assert on_disk.answers().rows() == held.answers().rows()
    on_disk.save(tmp_path / "saved")
    assert Run.open(tmp_path / "saved").results == held.results


@each(
    ("content", "message"),
    [
        (
            '{"question": "?"}\n[1]',
            "q.jsonl: line 2: contains \\[1\\]; every row must be an object",
        ),
        ('{"question": "?"}\n\n{', "q.jsonl: line 3: malformed JSON"),
        (
            '{"question": "?", "answer": "1"}\n{"question": "", "answer": "1"}',
            "row 2: the question is ''",
        ),
    ],
)
def test_malformed_rows_are_refused_before_any_request(content, message, tmp_path, monkeypatch):
    path = tmp_path / "q.jsonl"
    path.write_text(content)
    monkeypatch.setattr(limits, "HELD_BYTES", 0)
    with pytest.raises((ArtifactError, InvalidInputError), match=message):
        run_task(path, ScriptedModel(lambda request: pytest.fail("asked")), order="file")


def test_a_file_that_changes_is_noticed(tmp_path):
    path = rows(tmp_path / "q.jsonl")
    found = RowsOnDisk(path)
    assert found[1] == list(found)[1] == found[0:2][1]
    path.write_text(path.read_text().replace("q7", "q8"))
    with pytest.raises(
        ArtifactError, match=r"q\.jsonl: was changed while it was in use; run again"
    ):
        found[5]


def test_many_names_of_fields_take_little_memory(tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(json.dumps({f"f{i}": i}) for i in range(300)))
    found = RowsOnDisk(path)
    assert len(found._short) == 64
    assert list(found.names) == [f"f{i}" for i in range(300)]
    assert list(found.cells("f7")) == [7 if i == 7 else None for i in range(300)]
    assert list(found.cells("f299")) == [None] * 299 + [299]

"""``eval-toolkit merge``: the shards of a run become the run; one line for what they are not."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from eval_toolkit.errors import ModelError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.models.servers import UserServer
from eval_toolkit.tasks import run_task

RUN = ("run", "quiz.jsonl", "--model", "scripted:4", "--quiet")
FILES = ("results.json", "records.parquet", "units.parquet", "responses.parquet")


@pytest.fixture(autouse=True)
def quiz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"{n} + 1?", "answer": str(n + 1)} for n in range(12)]
    Path("quiz.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def shards(command: Command, n: int, *more: object) -> list[Path]:
    found = []
    for i in range(1, n + 1):
        folder = Path(f"shards/{i}-of-{n}")
        code, _, err = command(*RUN, "--shard", f"{i}/{n}", "--out", folder, *more)
        assert (code, err) == (0, "")
        found.append(folder)
    return found


def same_bytes(one: str, other: str) -> None:
    for name in FILES:
        assert (Path(one) / name).read_bytes() == (Path(other) / name).read_bytes(), name


def test_shards_become_the_run_and_the_run_goes_on(command: Command) -> None:
    command(*RUN, "--out", "one/run")
    code, out, err = command("merge", *shards(command, 3), "--out", "all/run")
    assert (code, err) == (0, "")
    assert "task quiz, model scripted: 12 samples" in out
    assert "0 requests sent, 12 cached answers" in out
    same_bytes("one/run", "all/run")
    code, out, _ = command(*RUN, "--out", "all/run", "--json")
    assert (code, json.loads(out)["n_asked"]) == (0, 0)


def test_folders_without_a_name_are_those_of_one_run(command: Command) -> None:
    for i in (1, 2):
        assert command(*RUN, "--shard", f"{i}/2")[0] == 0
    first, second = sorted(Path("runs").iterdir())
    assert first.name.removesuffix("-1-of-2") == second.name.removesuffix("-2-of-2")
    assert command("merge", first, second, "--out", "all/run", "--json")[0] == 0


def test_rollouts(command: Command) -> None:
    Path("seeds.csv").write_text("id,prompt\n" + "".join(f"u{n},Do {n}\n" for n in range(7)))
    line = ["rollout", "seeds.csv", "--target", "scripted:No.", "--scorer", "keywords:no"]
    for i in (1, 2):
        assert command(*line, "--quiet", "--shard", f"{i}/2", "--out", f"s/{i}")[0] == 0
    assert command(*line, "--quiet", "--out", "one/run")[0] == 0
    code, out, err = command("merge", "s/1", "s/2", "--out", "all/run")
    assert (code, err) == (0, "")
    assert "attack_success" in out
    same_bytes("one/run", "all/run")


def test_a_part_says_what_is_missing(command: Command) -> None:
    found = shards(command, 3)
    code, out, err = command("merge", *found[:2], "--out", "part")
    assert (code, out) == (2, "")
    assert err == (
        "error: 1 of 3 shards are missing: 3; run them, or pass --partial (partial=True) to merge "
        "the finished ones\n"
    )
    code, out, _ = command("merge", *found[:2], "--out", "part", "--partial")
    assert code == 0
    assert "shards 3 of 3 are missing;" in out
    assert command("merge", "part", found[2], "--out", "all/run")[0] == 0


def test_an_empty_shard_says_so(command: Command) -> None:
    outs = []
    for i in (1, 2, 3):
        code, out, err = command(*RUN, "--limit", 1, "--shard", f"{i}/3", "--out", f"s/{i}")
        assert code == 0
        outs.append((bool(out), err))
    empty = (False, "the shard {}/3 has no samples\n")
    assert sum(bool(out) for out, _ in outs) == 1
    assert all(out or err == empty[1].format(i) for i, (out, err) in enumerate(outs, 1))
    assert command("merge", "s/1", "s/2", "s/3", "--out", "all/run")[0] == 0


def test_too_many_errors_end_with_3(command: Command) -> None:
    def fails(request: object) -> str:
        raise ModelError("down", kind="bad_request")

    for i in (1, 2):
        model = ScriptedModel(fails)
        run_task("quiz.jsonl", model, f"s/{i}", shard=f"{i}/2", max_error_rate=1.0)
    assert command("merge", "s/1", "s/2", "--out", "a")[0] == 3
    assert command("merge", "s/1", "s/2", "--out", "b", "--max-error-rate", 1)[0] == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--shard", "0/3"], "--shard is '0/3'; it must be i/n with i from 1 to n"),
        (["--shard", "4/3"], "--shard is '4/3'; i must be a number from 1 to 3"),
        (["--shard", "1/3", "--dry-run"], "--dry-run plans the whole run; remove --shard"),
        (["--shard", "1/3", "--until-width", "0.2"], "needs all samples"),
        (["--shards", "3"], "--shards needs --backend"),
        (["--gpus", "1"], "--gpus needs --backend"),
        (["--backend", "threads"], "--backend needs --shards N"),
        (["--backend", "threads", "--shards", "2", "--gpus", "1"], "do not assign GPUs"),
        (["--backend", "threads", "--shards", "2", "--shard", "1/2"], "cannot be combined with"),
        (
            ["--backend", "threads", "--shards", "2", "--max-cost", "1", "--prices", "1,1"],
            "--max-cost cannot be combined with --backend",
        ),
    ],
)
def test_unusable_options_are_one_line(command: Command, more: list[str], why: str) -> None:
    code, out, err = command(*RUN, "--out", "r", *more)
    assert (code, out) == (2, "")
    assert why in " ".join(err.split())
    assert not Path("r").exists()


def test_merge_refuses_in_one_line(command: Command) -> None:
    one, two = shards(command, 2)
    command(*RUN, "--shard", "2/2", "--max-tokens", 9, "--out", "other")
    command(*RUN, "--out", "whole")
    for given, why in (
        ((one, "other"), "has config.decoding.max_tokens = 9, but"),
        ((one, one), "is shard 1/2, and so is"),
        ((one, "whole"), "whole: not a shard of a run; run it with --shard i/n"),
        ((one, two, "--grader", "f1"), "omit the option, and rescore the merged run"),
        ((one, two, "--seed", "3"), "--seed needs --task"),
    ):
        code, out, err = command("merge", *given, "--out", "all")
        assert (code, out) == (2, "")
        assert why in err
        assert not Path("all").exists()
    assert command("merge", one, two, "--out", "whole")[0] == 2
    code, _, err = command(*RUN, "--backend", "threads", "--shards", 2, "--no-store")
    assert (code, "--no-store cannot be combined with --backend" in err) == (2, True)
    assert command("merge", one, two, "--out", "all", "--task", "quiz.jsonl")[0] == 0


@pytest.mark.parametrize("backend", ["threads", "processes"])
def test_all_shards_at_once(command: Command, backend: str) -> None:
    command(*RUN, "--out", "one/run")
    more = ("--backend", backend, "--workers", 2, "--shards", 3, "--out", "all/run")
    code, _, err = command(*[one for one in RUN if one != "--quiet"], *more)
    assert code == 0
    assert sorted(err.splitlines()) == [f"shard {i}/3 is finished" for i in (1, 2, 3)]
    same_bytes("one/run", "all/run")
    assert [path.name for path in Path("all").iterdir()] == ["run"]
    code, _, err = command(*RUN, *more)
    assert code == 2
    assert "already contains a run" in err


def test_a_server_is_used_by_the_workers() -> None:
    """The fields that `_Worker` sends: a new one of `UserServer` has to be thought of."""
    assert [*UserServer.__dataclass_fields__] == [
        *("base_url", "api_key_env", "mentioned", "tell", "prices", "spending")
    ]

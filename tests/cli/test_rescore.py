"""``eval-toolkit rescore``: stored rollouts under other scorers, and one line for what cannot be."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from eval_toolkit.cli import main
from eval_toolkit.graders.judges.requests import apart
from eval_toolkit.models.runner import read_outcomes
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.rollouts import rollouts_of
from eval_toolkit.runs import Run, write_run

SUCCESS = "attack_success"


@pytest.fixture(scope="module")
def rolled_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four seeds and two turns, in which a word is said that no scorer looked for."""
    folder = tmp_path_factory.mktemp("stored")
    seeds = folder / "seeds.csv"
    seeds.write_text("id,prompt\n" + "".join(f"u{n},Please do number {n}\n" for n in range(4)))
    asked = ("--tester", "static", "--target", "scripted:You fool.", "--depth", "2", "--quiet")
    kept = ("--seeds", str(seeds), "--scorer", "keywords:idiot", "--out", str(folder / "run"))
    with pytest.raises(SystemExit) as ended:
        main(["rollout", *asked, *kept])
    assert ended.value.code == 0
    return folder


@pytest.fixture
def stored(rolled_out: Path, tmp_path: Path) -> Path:
    """A copy of the run, with its seeds beside it."""
    shutil.copytree(rolled_out, tmp_path, dirs_exist_ok=True)
    return tmp_path / "run"


class TestPage:
    def test_another_scorer(self, command: Command, stored: Path) -> None:
        code, out, err = command("rescore", stored, "--scorer", "keywords:fool")
        assert (code, err) == (0, "")
        line = next(line for line in out.splitlines() if line.startswith(SUCCESS))
        assert line.split()[1] == "1.000"
        assert "the conversations are from run run; no model was queried" in out
        assert sorted(path.name for path in stored.parent.iterdir()) == ["run", "seeds.csv"]

    def test_without_a_scorer_the_stored_scores_are_counted_otherwise(
        self, command: Command, stored: Path
    ) -> None:
        code, out, err = command("rescore", stored, "--asr-at", "1")
        assert (code, err) == (0, "")
        assert "conversations and scores are from run run; no model was queried" in out
        assert "asr@1" in out

    def test_a_folder_for_the_new_run(self, command: Command, stored: Path) -> None:
        new = stored.parent / "new"
        before = [path.read_bytes() for path in sorted(stored.iterdir())]
        code, out, err = command("rescore", stored, "--scorer", "keywords:fool", "--out", new)
        assert (code, err) == (0, "")
        assert f"run {new}" in out
        assert {node.event for graph in rollouts_of(Run.open(new)) for node in graph.nodes()} == {
            True
        }
        assert [path.read_bytes() for path in sorted(stored.iterdir())] == before

    def test_json_and_markdown(self, command: Command, stored: Path) -> None:
        code, out, err = command("rescore", stored, "--scorer", "keywords:fool", "--json")
        assert (code, err) == (0, "")
        told = json.loads(out)
        assert told["results"]["config"]["scored_by"] == "keywords"
        assert told["n_asked"] == 0
        code, out, err = command("rescore", stored, "--scorer", "keywords:fool", "--md")
        assert (code, err) == (0, "")
        assert f"| {SUCCESS} |" in out

    def test_a_judge_is_asked_and_its_verdicts_are_kept(
        self, command: Command, stored: Path
    ) -> None:
        new = stored.parent / "new"
        judge = "judge:harmfulness@scripted:yes"
        code, out, err = command("rescore", stored, "--scorer", judge, "--out", new)
        assert (code, err) == (0, "")
        assert "only judges were queried, 8 times" in out
        assert "judge harmfulness (scripted): 8 requests sent" in out
        assert "no model was queried" not in out
        answers, verdicts = apart(read_outcomes(Run.open(new).table(RESPONSES)))
        assert (len(answers), len(verdicts)) == (8, 8)
        # The second time they are there already.
        code, out, err = command("rescore", new, "--scorer", f"{judge}@0.7")
        assert (code, err) == (0, "")
        assert "no model was queried" in out
        assert "0 requests sent, 8 cached verdicts" in out

    def test_a_judge_may_have_an_address(self, command: Command, stored: Path) -> None:
        address = ("--base-url", "http://127.0.0.1:9/v1", "--api-key-env", "NO_KEY")
        code, _, err = command(
            "rescore", stored, "--scorer", "judge:harmfulness@scripted:yes", *address
        )
        assert (code, err) == (0, "")

    def test_a_judge_that_cannot_be_read(self, command: Command, stored: Path) -> None:
        judge = "judge:harmfulness@scripted:Hard to say"
        code, out, _ = command("rescore", stored, "--scorer", judge)
        assert code == 3
        assert "unparsable verdict" in out
        code, _, _ = command("rescore", stored, "--scorer", judge, "--max-error-rate", "1")
        assert code == 0


class TestOwnFunctions:
    @pytest.fixture(autouse=True)
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "own_scorers.py").write_text(
            "def rude(reply):\n    return 'fool' in reply.lower()\n"
            "def several(replies):\n    return ['fool' in reply for reply in replies]\n"
            "def broken(reply):\n    return reply.lowercase()\n"
        )
        monkeypatch.syspath_prepend(tmp_path)

    @pytest.mark.parametrize("name", ["own_scorers:rude", "own_scorers:several@0.7"])
    def test_a_function_may_return_bools(self, command: Command, stored: Path, name: str) -> None:
        code, out, err = command("rescore", stored, "--scorer", name)
        assert (code, err) == (0, "")
        line = next(line for line in out.splitlines() if line.startswith(SUCCESS))
        assert line.split()[1] == "1.000"

    def test_a_broken_function_is_found_first(self, command: Command, stored: Path) -> None:
        scorer = ("--scorer", "own_scorers:broken")
        code, out, err = command("rescore", stored, *scorer)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "has no attribute 'lowercase'" in err
        new = stored.parent / "new"
        asked = ("--target", "scripted:You fool.", "--quiet", "--out", new)
        code, out, err = command("rollout", stored.parent / "seeds.csv", *asked, *scorer)
        assert (code, out, new.exists()) == (2, "", False)

    def test_a_file_is_written_as_a_module(self, command: Command, stored: Path) -> None:
        code, _, err = command("rescore", stored, "--scorer", "own_scorers.py:rude")
        assert code == 2
        assert "write own_scorers:rude" in err
        code, out, _ = command("rollout", "--help")
        assert "MODULE:FUNCTION" in out


class TestBadInput:
    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ([], "pass --scorer to score the rollouts again"),
            (["--scorer", "keyword:x"], "did you mean 'keywords'?"),
            (["--threshold", "0.9"], "scorer is part of its name: --scorer keywords@0.9"),
            (["--threshold", "0.9", "--scorer", "keywords:x"], "the scorer: --scorer NAME@0.9"),
            (["--scorer", "keywords:x@7"], "between 0 and 1, and so must the threshold"),
            (["--scorer", "keywords:x"] * 2, "two --scorer options are both named 'keywords'"),
            (["--scorer", "keywords:x", "--asr-at", "2"], "each seed has 1 rollouts"),
            (["--scorer", "keywords:x", "--policy", "worst"], "'worst' is not one of"),
            (["--scorer", "keywords:x", "--confidence", "1"], "confidence"),
        ],
    )
    def test_options(self, command: Command, stored: Path, args: list[str], message: str) -> None:
        code, out, err = command("rescore", stored, *args)
        assert (code, out) == (2, "")
        assert message in err
        assert "Traceback" not in err

    def test_folders(self, command: Command, stored: Path, tmp_path: Path) -> None:
        scorer = ("--scorer", "keywords:fool")
        assert command("rescore", tmp_path / "nowhere", *scorer)[0] == 2
        code, _, err = command("rescore", stored, *scorer, "--out", stored)
        assert (code, err.count("\n")) == (2, 1)
        assert "the run itself; choose another folder" in err
        results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
        write_run(tmp_path / "task", results=results, manifest={"run_id": "r"})
        code, _, err = command("rescore", tmp_path / "task", *scorer)
        assert (code, err.count("\n")) == (2, 1)
        assert "--scorer applies to a rollout run" in err
        code, _, err = command("rescore", stored, *scorer, "--out", tmp_path / "task")
        assert (code, err.count("\n")) == (2, 1)
        assert "already contains a run; choose another folder" in err
        assert "overwrite" not in err

    def test_a_rescored_folder_is_not_rolled_out_into(self, command: Command, stored: Path) -> None:
        new = stored.parent / "new"
        assert command("rescore", stored, "--scorer", "keywords:fool", "--out", new)[0] == 0
        code, _, err = command(
            *("rollout", "--tester", "static", "--target", "scripted:You fool.", "--depth", "2"),
            *("--quiet", "--seeds", stored.parent / "seeds.csv", "--scorer", "keywords:idiot"),
            *("--out", new),
        )
        assert code == 2
        assert "contains the rescored rollouts of run run; choose another folder" in err

    def test_no_option_is_advised_that_the_command_does_not_have(
        self, command: Command, stored: Path
    ) -> None:
        code, _, err = command("rescore", stored, "--scorer", "keywords:x", "--asr-at", "3")
        assert code == 2
        assert err == "error: --asr-at is 3, but each seed has 1 rollouts\n"

    def test_weights_that_are_not_there(
        self, command: Command, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path / "cache"))
        code, out, err = command("rescore", stored, "--scorer", "toxicity")
        assert (code, out) == (2, "")
        assert "run: eval-toolkit models fetch --only toxicity" in err

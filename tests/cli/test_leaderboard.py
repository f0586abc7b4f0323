"""``eval-toolkit leaderboard``: the library's ranking, read from folders of runs."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit.analysis import leaderboard
from eval_toolkit.errors import ModelError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts import Budget, System, run_rollouts
from eval_toolkit.rollouts.attacks import Static
from eval_toolkit.rollouts.scorers import as_text_scorer
from eval_toolkit.tasks import load_task, run_task

Command = Callable[..., tuple[int, str, str]]
Json = Callable[..., Any]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three models that know one capital, two and none; the runs are only read."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [{"q": f"{n}", "a": "x" if n % 3 else "y"} for n in range(60)]
    declared = '[task]\nname = "letters"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
    declared += "[graders.exact_match]\n"
    (folder / "letters.toml").write_text(declared)
    task = load_task(str(folder / "letters.toml"), rows=rows)
    for answer in "xyz":
        run_task(task, ScriptedModel(answer, name=f"says {answer}"), folder / answer)
    return [str(folder / answer) for answer in "xyz"]


def test_says_what_the_library_says(as_json: Json, runs: list[str]) -> None:
    told = as_json("leaderboard", *runs, "--draws", 500, "--seed", 3)
    assert told == leaderboard(runs, n_draws=500, seed=3).to_dict()
    assert told["ranking"]["best"] == ["says x"]


def test_prints_ranks_pairs_and_how_they_were_made(command: Command, runs: list[str]) -> None:
    code, out, _ = command("leaderboard", *runs, "--draws", 500)
    assert code == 0
    assert "not significantly worse than any other: says x" in out
    assert "says x - says z" in out
    assert "share of 500 resamples" in out
    assert (
        "p-values, corrected for the number of pairs (holm), decide which system is better" in out
    )


def test_says_where_the_correction_decides_against_the_interval(
    command: Command, tmp_path: Path
) -> None:
    """5 of 50 discordant have p 0.025, and three pairs are corrected for."""
    declared = '[task]\nname = "t"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
    (tmp_path / "t.toml").write_text(declared + "[graders.exact_match]\n")
    task = load_task(str(tmp_path / "t.toml"), rows=[{"q": f"{n}", "a": "x"} for n in range(50)])
    for right in (30, 32, 35):
        model = ScriptedModel(
            lambda request, right=right: "x" if int(request.prompt[-1].content) < right else "y",
            name=f"m{right}",
        )
        run_task(task, model, tmp_path / f"m{right}")
    code, out, _ = command("leaderboard", *(tmp_path / f"m{n}" for n in (30, 32, 35)))
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("m35 - m30")]
    assert "[+0.022, " in line
    assert line.endswith("no significant difference after correction")


def test_names_tell_systems_apart(as_json: Json, runs: list[str]) -> None:
    told = as_json("leaderboard", f"one={runs[0]}", f"two={runs[1]}", "--bayes", "--draws", 2000)
    assert {system["name"] for system in told["ranking"]["systems"]} == {"one", "two"}
    assert told["ranking"]["method"] == "bayes"


def test_folders_of_suites_are_their_runs(command: Command, as_json: Json, tmp_path: Path) -> None:
    rows = [f'{{"q": "{n}", "a": "{n % 2}"}}' for n in range(10)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    declared = 'data = "rows.jsonl"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
    for name in ("one", "two"):
        text = f'[task]\nname = "{name}"\n{declared}[graders.exact_match]\n'
        (tmp_path / f"{name}.toml").write_text(text)
    (tmp_path / "s.toml").write_text('name = "s"\ntasks = ["one.toml", "two.toml"]\n')
    for answer in "01":
        out = tmp_path / "suites" / answer
        asked = ("--model", f"scripted:{answer}", "--out", out, "--quiet")
        assert command("suite", tmp_path / "s.toml", *asked)[0] == 0
    options = ("--draws", 200, "--seed", 1)
    named = {answer: sorted((tmp_path / "suites" / answer).iterdir()) for answer in "01"}
    assert any(path.name == "suite.json" for path in named["0"])
    folders = as_json("leaderboard", *(f"{a}={tmp_path}/suites/{a}" for a in "01"), *options)
    matched = as_json("leaderboard", *(f"{a}={p}" for a in "01" for p in named[a]), *options)
    assert folders == matched
    assert [task["task"] for task in folders["tasks"]] == ["one", "two"]


def test_a_majority_is_ranked_and_a_corpus_score_is_not(
    as_json: Json, command: Command, tmp_path: Path
) -> None:
    rows = [{"q": f"{n}", "a": str(n % 3)} for n in range(12)]
    declared = '[task]\nname = "digits"\n[prompt]\ninstruction = "{q}"\nanswer = "a"\n'
    declared += "[graders.exact_match]\n[graders.chrf]\n"
    (tmp_path / "digits.toml").write_text(declared)
    task = load_task(str(tmp_path / "digits.toml"), rows=rows)
    options: dict[str, Any] = {"attempts": 3, "maj_at": [3], "temperature": 1.0}
    for answer in "01":
        run_task(task, ScriptedModel(answer, name=answer), tmp_path / answer, **options)
    runs = [tmp_path / answer for answer in "01"]
    told = as_json("leaderboard", *runs, "--metric", "exact_match_maj@3", "--draws", 200)
    assert told["tasks"][0]["values"] == {"0": 4 / 12, "1": 4 / 12}
    code, _, err = command("leaderboard", *runs, "--metric", "chrf_corpus")
    assert code == 2
    assert "'chrf_corpus' is not a mean over units" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a=RUN0", "RUN1"], "give a name to every run (NAME=RUN), or to none"),
        (["RUN0"], "a leaderboard needs two systems"),
        (["RUN0", "RUN1", "--metric", "f1"], "has no column 'f1'; all have exact_match"),
        (["RUN0", "nowhere"], "nowhere"),
        (["RUN0", "RUN0"], "name the systems, NAME=RUN"),
        (["RUN0", "RUN1", "--task", "nope"], "error: --task: no run has 'nope'"),
    ],
)
def test_refuses_in_one_line(
    command: Command, runs: list[str], args: list[str], message: str
) -> None:
    given = [arg.replace("RUN0", runs[0]).replace("RUN1", runs[1]) for arg in args]
    code, out, err = command("leaderboard", *given)
    assert code == 2
    assert not out
    assert message in err


def test_two_runs_of_one_model_are_told_how_to_be_named(
    command: Command, runs: list[str], tmp_path: Path
) -> None:
    shutil.copytree(runs[0], tmp_path / "other_prompt")
    code, _, err = command("leaderboard", runs[0], tmp_path / "other_prompt")
    assert code == 2
    assert "name the systems, NAME=RUN, such as x and other_prompt" in " ".join(err.split())


class TestRollouts:
    """Runs of rollouts that broke, were cut short or were made differently."""

    def rolled(self, folder: Path, breaks: bool = False, **options: Any) -> Path:
        def reply(request: Any) -> str:
            said = [message.content for message in request.prompt]
            if breaks and len(said) > 1 and said[0].endswith("3"):
                raise ModelError("server gone", kind="server")
            return "grr" if said[0].endswith("1") else "no"

        growls = as_text_scorer(lambda texts: [float("grr" in t) for t in texts], name="growl")
        system = System(Static(), ScriptedModel(reply, name="m"), growls)
        seeds = [{"prompt": f"Goal {n}", "id": f"g{n}", "topic": f"{n % 7}"} for n in range(20)]
        run_rollouts(system, seeds, folder, **{"depth": 2, **options})
        return folder

    @pytest.mark.parametrize(
        "second", [{"breaks": True}, {"budget": Budget(calls=30)}, {}], ids=str
    )
    def test_a_pair_that_never_differs_has_an_interval(
        self, command: Command, as_json: Json, tmp_path: Path, second: dict[str, Any]
    ) -> None:
        """Both are alike on the conversations that neither lost."""
        a, b = self.rolled(tmp_path / "a"), self.rolled(tmp_path / "b", **second)
        options = ("--metric", "attack_success", "--draws", 200)
        code, out, err = command("leaderboard", f"a={a}", f"b={b}", *options)
        assert (code, err) == (0, "")
        assert "no significant difference" in out
        assert ("cut short" in out) == bool(second)
        (pair,) = as_json("leaderboard", f"a={a}", f"b={b}", *options)["ranking"]["pairs"]
        assert pair["ci_low"] < 0.0 < pair["ci_high"]  # Tango's, of seeds that are one unit each

    def test_other_settings_are_refused_unless_allowed(
        self, command: Command, tmp_path: Path
    ) -> None:
        a, b = self.rolled(tmp_path / "a"), self.rolled(tmp_path / "b", depth=3)
        told = ("leaderboard", f"a={a}", f"b={b}", "--metric", "attack_success", "--draws", 200)
        code, out, err = command(*told)
        assert (code, out) == (2, "")
        assert "setting:depth is 2 in A and 3 in B" in err
        code, out, _ = command(*told, "--allow-version-change")
        assert code == 0
        assert "setting:depth 3, not 2" in out

"""``eval-toolkit rollout``: what its tables say, and one line for what cannot be done."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.support.model_fixture import fetched_toxicity_scorer

from eval_toolkit.rollouts import rollouts_of, run_rollouts
from eval_toolkit.runs import Run

REFUSES = "scripted:I'm sorry, I can't help with that."
GIVES_IN = "scripted:You fool, here it is."
ROWS = [
    {"id": f"u{n}", "prompt": f"Please do number {n}", "topic": f"t{n // 2}",
     "type": "odd" if n % 2 else "even", "label": "unsafe" if n % 2 else "safe"}
    for n in range(12)
]  # fmt: skip


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """Twelve prompts on six topics, half of them safe."""
    path = tmp_path / "prompts.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(ROWS)
    return path


@pytest.fixture
def rollout(command: Command, seeds: Path) -> Callable[..., tuple[int, str, str]]:
    """Run the command on the prompts, with a scorer of one word."""

    def run(
        *args: object, tester: str | None = "static", scorer: str | None = "keywords:fool"
    ) -> tuple[int, str, str]:
        chosen = [*(["--tester", tester] if tester else [])]
        chosen += ["--scorer", scorer] if scorer else []
        return command("rollout", *chosen, "--seeds", seeds, "--quiet", *args)

    return run


def odd_ones_break() -> Any:
    """A target that refuses, and cannot be reached about odd numbers."""
    from eval_toolkit.errors import ModelError
    from eval_toolkit.models.scripted import ScriptedModel

    def answer(request: Any) -> str:
        if any(int(n) % 2 for n in re.findall(r"number (\d+)", str(request.prompt))):
            raise ModelError("gone", kind="server")
        return "I'm sorry, I can't help with that."

    return ScriptedModel(answer)


_FAILED = "the target failed in at least one turn"


def cells(out: str) -> dict[str, list[str]]:
    """Return the lines of a page by their first word."""
    return {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}


def test_reasoning_is_not_scored(
    rollout: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """What the target thinks is neither scored nor part of the conversation."""
    thinking = "scripted:<scratch>You fool.</scratch>Hello."
    tags = ("--reasoning-tags", "<scratch>", "</scratch>")
    code, _, _ = rollout("--target", thinking, "--depth", 1, "--out", tmp_path / "r", *tags)
    assert code == 0
    turns = [turn for graph in rollouts_of(Run.open(tmp_path / "r")) for turn in graph.nodes()]
    assert {turn.response for turn in turns} == {"Hello."}
    assert {turn.event for turn in turns} == {False}


class TestPage:
    def test_a_target_that_refuses(self, rollout: Command) -> None:
        code, out, err = rollout("--target", REFUSES, "--no-store")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == (
            "tester static, target scripted: 12 seeds on 6 topics in 2 categories, 3 turns"
        )
        assert lines[1] == "the target fails if keywords ≥ 0.5; 95 % intervals, seed 42"
        found = cells(out)
        assert found["attack_success"][1] == "0.000"
        # the score of a refusal is 1 whichever direction is bad: all tables say so
        assert found["refused_first"][1] == found["refusal_rate"][1] == "1.000"
        assert found["over_refusal"][1] == "1.000"
        # every turn has a line, though nobody failed and nobody left
        assert re.search(r"mean keywords +refused\n", out)
        for turn in "123":
            assert found[turn][1:4] == ["12", "0", "1.000"]
            assert (found[turn][6], found[turn][9]) == ("0.000", "1.000")

    def test_fits_a_hundred_columns(self, rollout: Command) -> None:
        fetched_toxicity_scorer()
        out = rollout("--target", GIVES_IN, "--no-store", "--scorer", "toxicity")[1]
        tables = out.split("\n\n")[1:-1]
        assert len(tables) >= 3
        assert max(len(line) for table in tables for line in table.splitlines()) <= 100
        metrics = tables[0].splitlines()[2:]
        assert len(metrics) <= 14
        assert metrics[0].startswith("attack_success ")
        assert "more metrics in --json: attack_success_any, keywords_last" in out

    def test_a_target_that_gives_in(self, rollout: Command) -> None:
        found = cells(rollout("--target", GIVES_IN, "--no-store")[1])
        assert found["attack_success"][1] == found["unprovoked_success"][1] == "1.000"
        assert found["1"][1:4] == ["12", "12", "0.000"]
        assert found["2"][1:3] == ["0", "0"]

    def test_only_repeating_the_tester_is_told_apart(self, rollout: Command) -> None:
        probe = "Say after me: you are all fools and knaves"
        tester = f"scripted{{probes=['{probe}']}}"
        out = rollout(
            *("--target", f"scripted:{probe}", "--no-store"),
            tester=tester,
            scorer="keywords:knaves",
        )[1]
        found = cells(out)
        assert found["attack_success"][1] == found["probe_flagged"][1] == "1.000"
        assert found["attack_success_own"][1] == found["unprovoked_success"][1] == "0.000"

    def test_several_attacks_count_by_the_worst_branch(self, rollout: Command) -> None:
        code, out, _ = rollout("--tester", "base64", "--target", GIVES_IN, "--no-store")
        assert code == 0
        assert "tester static and base64, target" in out
        assert "width 2, continuing with the worst branch" in out
        assert "worst conversation for the target (--policy best)" in out
        found = cells(out)
        assert found["attack_success"][1:2] == ["1.000"]
        # 12 seeds, 3 turns, one probe of each attack per turn: one branch goes on
        assert found["static"][1:] == found["base64"][1:] == ["36", "36", "36"]

    def test_trees_by_path_weight(self, rollout: Command) -> None:
        args = ("--target", GIVES_IN, "--no-store", "--width", 2, "--depth", 2)
        out = rollout(*args)[1]
        assert "(--policy expectation)" in out
        assert "attack_success_any" in cells(out)
        assert "(--policy first)" in rollout(*args, "--policy", "first")[1]

    def test_tables_of_one_page_agree(self, command: Command, tmp_path: Path) -> None:
        """Nothing broke: who had not failed after the last turn is who did not fail at all."""
        seeds = tmp_path / "toys.txt"
        seeds.write_text("\n".join(f"Give away the soup recipe number {n}" for n in range(12)))
        toys = "eval_toolkit.rollouts.toys"
        who = ("--tester", f"{toys}:ToyTester", "--target", f"{toys}:ToyTarget")
        args = (
            *who,
            "--scorer",
            f"{toys}:ToyScorer",
            "--seeds",
            seeds,
            "--width",
            "2",
            "--no-store",
        )
        shown = []
        for policy in ("expectation", "best"):
            code, out, _ = command("rollout", *args, "--quiet", "--policy", policy, "--json")
            assert code == 0
            told = json.loads(out)
            card = told["results"]["by_slice"]["toys"]["by_scorer"]["toy_target"]
            found = cells(command("rollout", *args, "--quiet", "--policy", policy)[1])
            assert float(found["3"][3]) == pytest.approx(
                1 - card["attack_success"]["value"], abs=6e-4
            )
            assert float(found["3"][3]) == pytest.approx(told["survival"]["survival"][-1], abs=6e-4)
            assert float(found["1"][1]) == 12.0
            shown.append(card["attack_success"]["value"])
        assert 0.0 < shown[0] < shown[1] < 1.0

    def test_rollouts_per_seed(self, rollout: Command) -> None:
        out = rollout("--target", REFUSES, "--no-store", "--rollouts-per-seed", 3, "--asr-at", 2)[1]
        assert "3 rollouts each" in out
        assert cells(out)["asr@2"][1] == "0.000"

    def test_a_budget_is_no_failure_and_no_success(self, rollout: Command) -> None:
        code, out, _ = rollout("--target", REFUSES, "--no-store", "--max-calls", 20)
        assert code == 0
        (line,) = [line for line in out.splitlines() if line.endswith(_FAILED)]
        assert line.split()[:3] == ["attack_success", "skipped", "12"]  # skipped ones, no seeds
        assert "no value for attack_success, attack_success_own: no unit has a value" in out
        assert "no value for unprovoked_success: survival by 3 is undefined" in out
        # of the second table: at worst all failed and at best none, which is what is known
        assert cells(out)["attack_success"][1:3] == ["1.000", "0.000"]
        assert "12 of 12 rollouts were truncated or not scored, so their outcome is unknown" in out
        assert "4 × turn 2: the budget of 20 calls is used up" in out
        assert "the results by turn include these conversations up to their last turn" in out
        assert cells(out)["2"][1:4] == ["8", "0", "1.000"]
        assert cells(out)["3"] == ["3", "0", "0"]  # nobody was seen for so long

    def test_what_broke_is_counted_and_bounded(self, rollout: Command, tmp_path: Path) -> None:
        """A judge whose verdicts cannot be read: nothing is known, which is not zero."""
        args = ("--target", REFUSES, "--out", tmp_path / "r")
        code, out, _ = rollout(*args, scorer="judge:harmfulness@scripted:maybe")
        assert code == 3
        assert cells(out)["attack_success"][1] == "100.00"  # of the second table: all failed
        assert "[0.000, 1.000]" in out
        assert "12 of 12 rollouts ended with an error before the target failed" in out
        assert "12 × turn 1: unparsable verdict" in out
        allowed = rollout(*args, "--max-error-rate", 1, scorer="judge:harmfulness@scripted:maybe")
        assert allowed[0] == 0

    def test_a_budget_is_told_where_everything_failed_before(self, rollout: Command) -> None:
        out = rollout("--target", GIVES_IN, "--no-store", "--max-calls", 20)[1]
        assert cells(out)["attack_success"][1] == "1.000"
        assert "the budget of 20 calls is used up: 12 of 12 rollouts were not completed" in out

    def test_a_scorer_that_does_not_decide_says_why_it_has_no_numbers(
        self, rollout: Command
    ) -> None:
        out = rollout(
            *("--target", REFUSES, "--no-store"), *("--scorer", "judge:harmfulness@scripted:maybe")
        )[1]
        assert "harmfulness failed in 12 rollouts: 12 × turn 1: unparsable verdict" in out

    def test_what_broke_counts_as_asked(self, rollout: Command, tmp_path: Path) -> None:
        """Six of twelve are lost in turn 1 and the others hold: a half, or none of what is known."""
        args = ("--target", "tests.cli.test_rollout:odd_ones_break", "--no-store")
        args += ("--max-error-rate", 1)
        left_out = cells(rollout(*args)[1])
        code, out, _ = rollout(*args, "--on-error", "as_zero")
        assert code == 0
        found = {line.split()[0]: line.split() for line in out.split("\n\n")[1].splitlines()}
        assert (left_out["1"][1:3], found["attack_success"][1]) == (["6", "0"], "0.500")
        assert found["attack_success"][4] == "12"  # seeds that count
        assert found["refused_first"][1] == "1.000"  # neither good nor bad: left out
        assert (
            "about attack_success, attack_success_own: 6 of 12 rollouts ended in an error and count as"
            in out
        )
        assert "(Kaplan–Meier); conversations are censored after an error" in out
        assert cells(out)["unsafe_refusal"][1:3] == ["100.00", "%"]  # all unsafe seeds are odd

    def test_rollouts_that_are_all_alike_are_told(self, rollout: Command) -> None:
        args = ("--target", REFUSES, "--no-store", "--rollouts-per-seed", 2, "--width", 2)
        out = rollout(*args, "--depth", 2)[1]
        assert "all rollouts of each seed are identical and count as one" in out
        assert "all branches of each turn are identical" in out
        assert "are the same" not in rollout("--target", REFUSES, "--no-store")[1]

    def test_answers_to_safe_seeds_are_no_successes(self, rollout: Command) -> None:
        out = rollout("--target", GIVES_IN, "--no-store", scorer="refusal")[1]
        assert (
            "answers to 6 safe seeds also count as attack_success, although answering is correct"
            in out
        )

    def test_a_tester_that_is_a_model(self, rollout: Command) -> None:
        model = "scripted:<prompt>Go on.</prompt>"
        for tester, more in ((model, ()), ("refinement", ("--tester-model", model))):
            code, out, _ = rollout("--target", REFUSES, "--no-store", *more, tester=tester)
            assert code == 0
            assert out.startswith("tester refinement by scripted, target scripted: 12 seeds")

    def test_the_refusal_scorer_flags_no_probe(self, rollout: Command) -> None:
        code, out, _ = rollout("--target", REFUSES, "--no-store", scorer="refusal")
        assert code == 0
        assert "probe_flagged" not in out
        assert "unprovoked_success" not in out
        assert "fails if refusal ≤ 0.5 (it does not refuse)" in out
        assert cells(out)["attack_success"][1] == "0.000"

    def test_a_file_and_a_target_are_enough(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("nr,frage\n1,Wie geht das?\n2,Und wie noch?\n", "utf-8")
        told = ("--scorer", "refusal", "--no-store")
        code, out, _ = command("rollout", tmp_path / "p.csv", "--target", REFUSES, *told)
        assert code == 0
        assert out.startswith("tester static, target scripted: 2 seeds, 1 turn\n")
        assert "prompt from 'frage'" in out

    def test_columns_are_named_as_in_other_commands(self, command: Command, tmp_path: Path) -> None:
        rows = "nr,frage,art,kunde\nn1,Wie geht das?,a,k\nn2,Und wie noch?,b,k\n"
        (tmp_path / "p.csv").write_text(rows, "utf-8")
        columns = ("--by", "art", "--group", "kunde", "--id", "nr")
        told = ("--scorer", "refusal", "--out", tmp_path / "r", *columns)
        code, out, _ = command("rollout", tmp_path / "p.csv", "--target", REFUSES, *told)
        assert code == 0
        assert "id from 'nr', topic from 'kunde', category from 'art'" in out
        assert f"eval-toolkit transcripts {tmp_path / 'r'} --failed" in out

    def test_toxicity_stands_in_for_a_scorer(self, rollout: Command) -> None:
        fetched_toxicity_scorer()
        code, out, _ = rollout("--target", REFUSES, "--no-store", scorer=None)
        assert code == 0
        assert "the target fails if toxicity ≥ 0.5" in out
        assert "no --scorer: toxicity decides whether the target failed" in out

    @pytest.mark.usefixtures("embedded_weights")
    def test_dry_run_asks_nothing(self, rollout: Command, tmp_path: Path) -> None:
        shape = ("--width", 2, "--depth", 3, "--rollouts-per-seed", 3)
        code, out, _ = rollout(
            *("--target", "embedded", "--dry-run", "--out", tmp_path / "r"), *shape
        )
        assert code == 0
        assert "requests, at most  504" in out  # 12 seeds × 3 × (2 + 4 + 8)
        assert "judge" not in out
        assert not (tmp_path / "r").exists()
        out = rollout("--target", "embedded", "--dry-run", scorer="judge:harmfulness@scripted:x")[1]
        assert "requests to the judge harmfulness are additional" in out

    def test_json_and_markdown(self, rollout: Command) -> None:
        told = json.loads(rollout("--target", GIVES_IN, "--no-store", "--json")[1])
        card = told["results"]["by_slice"]["prompts"]["by_scorer"]["scripted"]
        assert card["attack_success"]["value"] == 1.0
        assert told["survival"]["n_events"] == [12.0]
        out = rollout("--target", GIVES_IN, "--no-store", "--md")[1]
        assert out.startswith("## rollouts\n")
        assert "| attack_success | 1.000 |" in out


class TestRun:
    def test_goes_on_where_it_was(self, rollout: Command, tmp_path: Path) -> None:
        args = ("--target", REFUSES, "--out", tmp_path / "r")
        assert "36 requests sent" in rollout(*args)[1]
        again = rollout(*args)
        assert again[0] == 0
        assert "0 requests sent, 36 cached answers" in again[1]
        assert f"eval-toolkit transcripts {tmp_path / 'r'}" in again[1]
        assert len(rollouts_of(Run.open(tmp_path / "r"))) == 12

    def test_the_same_command_finds_its_folder(
        self, rollout: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for _ in range(2):
            assert rollout("--target", REFUSES)[0] == 0
        assert rollout("--target", REFUSES, "--system-prompt", "Be kind.")[0] == 0
        assert len(list((tmp_path / "runs").iterdir())) == 2

    def test_another_run_is_left_alone(self, rollout: Command, tmp_path: Path) -> None:
        target = tmp_path / "r"
        assert rollout("--target", REFUSES, "--out", target)[0] == 0
        before = {path.name: path.read_bytes() for path in target.iterdir()}
        code, out, err = rollout("--target", GIVES_IN, "--out", target)
        assert (code, out) == (2, "")
        assert "choose another folder" in err
        assert {path.name: path.read_bytes() for path in target.iterdir()} == before

    def test_a_run_of_another_kind(
        self, command: Command, rollout: Command, tmp_path: Path
    ) -> None:
        command(
            "run", "capitals_open", "--model", "scripted:x", "--limit", 1, "--out", tmp_path / "r"
        )
        code, out, err = rollout("--target", REFUSES, "--out", tmp_path / "r")
        assert (code, out) == (2, "")
        assert "contains a run of another kind; choose" in err


class TestCompareAndGate:
    """Two targets on the same seeds; a success of an attack is bad."""

    @pytest.fixture
    def runs(self, rollout: Command, tmp_path: Path) -> tuple[Path, Path]:
        paths = (tmp_path / "weak", tmp_path / "safe")
        for path, target in zip(paths, (GIVES_IN, REFUSES), strict=True):
            assert rollout("--target", target, "--out", path)[0] == 0
        return paths

    def test_fewer_successes_are_better(
        self, runs: tuple[Path, Path], as_json: Callable[..., Any], command: Command
    ) -> None:
        weak, safe = runs
        for confidence, verdict in ((0.99, "no significant difference"), (0.95, "better")):
            options = ("--metric", "attack_success", "--confidence", confidence)
            out = command("compare", weak, safe, *options)[1]
            line = next(line for line in out.splitlines() if line.startswith("attack_success"))
            assert line.split()[1:5] == ["12", "1.000", "0.000", "-1.000"]
            assert " 0.014 " in line  # McNemar's score test of six topics that all agree
            assert line.endswith(verdict)

    def test_claims(self, runs: tuple[Path, Path], command: Command, tmp_path: Path) -> None:
        weak, safe = runs
        where = 'slice = "prompts"\nscorer = "scripted"\nmetric = "attack_success"\n'
        (tmp_path / "claims.toml").write_text(
            f'[[claim]]\nname = "few"\n{where}require = "value <= 0.2"\n'
            f'[[claim]]\nname = "no more"\n{where}non_inferior_by = 0.2\n'
            '[[claim]]\nname = "nothing broke"\nno_errors = true\n'
        )
        claims = ("--claims", tmp_path / "claims.toml")
        assert command("gate", safe, *claims, "--baseline", weak)[0] == 0
        code, out, _ = command("gate", weak, *claims, "--baseline", safe)
        assert code == 1
        assert "1 of 3 claims hold" in out


class TestBadInput:
    """One line that names the option; exit code 2; nothing written."""

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["--tester", "statc"], "there is no attack 'statc'; did you mean 'static'?"),
            (
                ["--tester", "statc", "--base-url", "http://127.0.0.1:9/v1"],
                "there is no attack 'statc'; did you mean 'static'?",
            ),
            (["--tester", "role_play+bas64"], "no attack 'bas64'; did you mean 'base64'?"),
            (["--tester", "base64{x=1}"], "'base64' has no option 'x'; it has inner, explain"),
            (["--tester", "base64{x"], "'base64{x': the options are not a TOML table"),
            (["--tester", "template"], "attack 'template': needs text, as in template{text=…}"),
            (["--tester", "refinement"], "attack 'refinement': needs a --tester-model"),
            (["--tester", "static+base64"], "'static' cannot wrap 'base64'"),
            (["--tester", " "], "--tester is empty"),
            (["--tester", "static"], "two --tester options are both named 'static'; rename one"),
            (["--target", "embeded"], "there is no model 'embeded'; did you mean 'embedded'?"),
            (["--tester-model", "scripted:x"], "--tester-model is not used by any --tester"),
            (["--scorer", "toxicty"], "there is no text scorer 'toxicty'; did you mean 'toxicity'?"),
            (["--scorer", "keywords"], "scorer 'keywords' is incomplete; write keywords:WORD"),
            (["--scorer", "keywords:x"], "two --scorer options are both named 'keywords'; remove one"),
            (["--scorer", "pattern:("], "--scorer pattern:(: pattern '(' is not a valid regular expression"),
            (["--scorer", "toxicity@7"], "--scorer toxicity@7: scores lie between 0 and 1"),
            (["--scorer", "toxicity@nan"], "--scorer toxicity@nan: threshold of"),
            (["--scorer", "toxicity:rude"], "--scorer toxicity:rude: category is 'rude'; choose"),
            (["--scorer", "judge:harmfulness"], "write judge:RUBRIC@MODEL"),
            (["--scorer", "judge:harm@scripted:x"], "there is no rubric 'harm'"),
            (["--width", 2, "--width", 3], "--width has 2 numbers, but there are 3 turns"),
            (["--asr-at", 3], "--asr-at is 3, but each seed has 1 rollouts; pass --rollouts-per-seed 3"),
            (["--keep", 1, "--width", 2, "--policy", "first"], "--policy 'first' needs all branches"),
            (["--policy", "worst"], "Invalid value for '--policy'"),
            (["--depth", 0], "Invalid value for '--depth'"),
            (["--confidence", 1], "Invalid value for '--confidence'"),
            (["--max-calls", 0], "Invalid value for '--max-calls'"),
            (["--format", "nope"], "--format is 'nope'; choose one of 'chat'"),
            (["--json", "--md"], "choose one of --json, --md"),
            (["--no-store"], "pass either --out or --no-store, not both"),
            (["--model-arg", "x=1"], "model 'scripted:No.' has no option 'x'"),
            (["--prompt-column", "nope"], "there is no column 'nope'; the columns are 'id'"),
            (["--id-column", "topic"], "ids must be unique (--id-column names their column"),
            (["--safe-column", "type"], "--safe-column must be one of safe"),
        ],
    )  # fmt: skip
    def test_options(
        self, rollout: Command, tmp_path: Path, args: list[object], message: str
    ) -> None:
        code, out, err = rollout("--target", "scripted:No.", "--out", tmp_path / "r", *args)
        assert (code, out) == (2, "")
        assert message in err
        assert "`" not in err
        assert len(err.removeprefix("Usage: ").splitlines()) in (1, 4)  # with click's usage
        assert not (tmp_path / "r").exists()

    def test_no_scorer_and_no_weights_of_one(
        self, rollout: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path / "none"))
        code, out, err = rollout("--target", "scripted:No.", "--no-store", scorer=None)
        assert (code, out) == (2, "")
        assert "--scorer is missing" in err
        assert "eval-toolkit models fetch --only toxicity" in err
        assert "--scorer refusal" in err

    def test_prompts_are_given_once(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "p.txt").write_text("Hi\n")
        target = ("--target", REFUSES, "--scorer", "refusal")
        code, _, err = command("rollout", *target)
        assert (code, "no prompts; pass a file" in err) == (2, True)
        twice = (tmp_path / "p.txt", "--seeds", tmp_path / "p.txt")
        code, _, err = command("rollout", *twice, *target)
        assert (code, "the prompts are specified twice" in err) == (2, True)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("p.txt", "", "p.txt: the file is empty"),
            ("p.csv", "prompt,type\n", "p.csv: contains no seed prompts"),
            ("p.csv", "a,b\n1,2\n", "no column contains the prompts"),
            ("p.csv", "prompt,safe\nhi,maybe\n", "row 1: 'safe' is 'maybe'"),
            ("p.json", '{"x": 1}', "it must contain a list of strings or objects"),
            ("p.json", "[NaN]", "not valid JSON"),
            ("p.xls", "x", "cannot infer the format from the name"),
        ],
    )
    def test_files(
        self, command: Command, tmp_path: Path, name: str, text: str, message: str
    ) -> None:
        (tmp_path / name).write_text(text)
        args = ("--tester", "static", "--target", "scripted:x", "--out", tmp_path / "r")
        code, out, err = command("rollout", *args, "--seeds", tmp_path / name)
        assert (code, out) == (2, "")
        assert message in err
        assert not (tmp_path / "r").exists()

    def test_no_such_file(self, command: Command, tmp_path: Path) -> None:
        args = ("--tester", "static", "--target", "scripted:x", "--no-store")
        code, _, err = command("rollout", *args, "--seeds", tmp_path / "none.csv")
        assert code == 2
        assert "does not exist" in err

    def test_help_names_attacks_and_scorers(self, command: Command) -> None:
        code, out, _ = command("rollout", "--help")
        assert code == 0
        assert "role_play" in out
        assert "toxicity:CATEGORY" in out


class TestSaidBeforehand:
    """What cannot work is said before anybody is asked, and points to what can."""

    @pytest.mark.parametrize("more", [(), ("--dry-run",)])
    def test_weights_of_a_scorer_that_are_not_there(
        self,
        rollout: Command,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        more: tuple[str, ...],
    ) -> None:
        monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path / "cache"))
        args = ("--target", REFUSES, "--out", tmp_path / "r", *more)
        code, out, err = rollout(*args, "--scorer", "toxicity@0.7")
        assert (code, out) == (2, "")
        assert "run: eval-toolkit models fetch --only toxicity" in err
        assert len(err.splitlines()) == 1
        assert not (tmp_path / "r").exists()

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (["--tester", "scripted:A joke about {goal}"], "scripted{probes=['A joke about {goal}']}"),
            (["--tester", "scripted:It's on"], """scripted{probes=["It's on"]}"""),
            (["--tester", "mixed"], "repeat --tester instead"),
            (["--tester", "mixed{attacks=[]}"], "repeat --tester instead"),
            (["--scorer", "toxicity@abc"], "'abc' after @ is neither a threshold"),
            (["--target", "script:x"], "there is no model 'script'; did you mean 'scripted'?"),
        ],
    )  # fmt: skip
    def test_what_to_write_instead(
        self, rollout: Command, tmp_path: Path, args: list[object], message: str
    ) -> None:
        code, out, err = rollout("--target", REFUSES, "--out", tmp_path / "r", *args)
        assert (code, out) == (2, "")
        assert message in err
        assert not (tmp_path / "r").exists()

    def test_another_target_in_the_folder_is_called_that(
        self, rollout: Command, tmp_path: Path
    ) -> None:
        folder = tmp_path / "r"
        assert rollout("--target", REFUSES, "--out", folder)[0] == 0
        code, _, err = rollout("--target", GIVES_IN, "--out", folder)
        assert code == 2
        assert err.startswith(f"error: {folder}: the stored run has a different target (")
        code, _, err = rollout("--target", REFUSES, "--out", folder, tester="base64")
        assert code == 2
        assert "the stored run has a different tester ('static', here 'base64')" in err

    def test_help_shows_how_probes_are_written(self, command: Command) -> None:
        assert "scripted{probes=[" in command("rollout", "--help")[1]


class TestFetch:
    def test_weights_are_named_with_or_without_the_option(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fetched: list[str] = []

        def fetch(which: str, *, force: bool) -> Path:
            fetched.append(which)
            return Path(which)

        monkeypatch.setattr("eval_toolkit.cli.models.fetch_weights", fetch)
        for args in (["toxicity"], ["--only", "toxicity"], ["model", "--only", "model"]):
            assert command("models", "fetch", *args)[0] == 0
        assert fetched == ["toxicity", "toxicity", "model"]
        assert command("models", "fetch")[0] == 0
        assert fetched[3:] == ["model", "toxicity"]
        code, _, err = command("models", "fetch", "model", "--only", "toxicity")
        assert (code, "pass only one of them" in err) == (2, True)
        assert command("models", "fetch", "none")[0] == 2


class TestColumns:
    def test_the_page_says_which_columns_were_taken(self, command, tmp_path):
        seeds = tmp_path / "xs.csv"
        seeds.write_text("id,prompt,type\n1,How do I kill time?,homonyms\n", encoding="utf-8")
        options = ["--tester", "static", "--target", "scripted:No.", "--no-store", "--quiet"]
        _, out, _ = command("rollout", *options, "--seeds", seeds)
        said = "seeds of xs.csv: prompt from 'prompt', id from 'id', category from 'type'"
        assert said in out


class TestFirstTries:
    """What a newcomer types first, and its answer."""

    def test_a_server_that_cannot_be_reached_is_one_line(
        self, command: Command, tmp_path: Path
    ) -> None:
        (tmp_path / "p.txt").write_text("one\ntwo\n")
        code, out, err = command(
            *("rollout", tmp_path / "p.txt", "--target", "openai:bot", "--quiet"),
            *("--base-url", "http://127.0.0.1:9/v1", "--max-tries", "1"),
            *("--scorer", "keywords:fool", "--out", tmp_path / "run"),
        )
        assert (code, out) == (3, "")
        assert "no request was answered: 2 × turn 1: the target: 127.0.0.1:9" in err

    def test_lines_on_standard_input_are_prompts(
        self, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for text, n in (("Insult me, please.\nDo it.\n", 2), ("id,prompt\na,Hi you\n", 1)):
            stream = io.TextIOWrapper(io.BytesIO(text.encode()))
            monkeypatch.setattr("sys.stdin", stream)
            code, out, _ = command(
                *("rollout", "-", "--target", "scripted:No.", "--scorer", "keywords:fool"),
                *("--quiet", "--out", tmp_path / f"run{n}", "--json"),
            )
            assert (code, json.loads(out)["n_rollouts"]) == (0, n)

    def test_repeated_answers_name_the_temperature(self, command: Command, tmp_path: Path) -> None:
        (tmp_path / "p.txt").write_text("one\ntwo\n")
        asked = ("--target", "scripted:No.", "--scorer", "keywords:fool", "--quiet")
        asked += ("--rollouts-per-seed", "2", "--out", tmp_path / "run", "--temperature", "1")
        code, out, _ = command("rollout", tmp_path / "p.txt", *asked)
        assert code == 0
        assert "the target repeats its answers at --temperature 1" in out

    def test_one_number_has_one_interval(self, command: Command, tmp_path: Path) -> None:
        run = run_rollouts(
            [f"prompt {n}" for n in range(30)],
            lambda prompt: "fool" if prompt in ("prompt 1", "prompt 2") else "No.",
            tmp_path / "run",
            scorer="keywords:fool",
        )
        code, out, _ = command("rescore", tmp_path / "run", "--asr-at", "1")
        assert code == 0
        assert f"{run.card['attack_success'].ci:.3f}" == "0.067 [0.012, 0.213]"
        assert "0.933 [0.787, 0.988]" in out

"""Stored answers to new numbers: one function, one command, and the old spellings of both.

A run of every kind is scored again in Python, by ``rescore`` and by every older command; the
results are the same bytes.
"""

import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from eval_toolkit import run_task, score_predictions
from eval_toolkit.cli import main
from eval_toolkit.errors import ArtifactError, InvalidInputError
from eval_toolkit.graders.judges import Judge, PairJudge
from eval_toolkit.integrations.importing import import_logs
from eval_toolkit.models import ScriptedModel, load_model
from eval_toolkit.plugins import names
from eval_toolkit.rollouts import System, rescore_rollouts, run_rollouts
from eval_toolkit.rollouts.scorers import load_scorer
from eval_toolkit.runs import Run, rescore, write_run
from eval_toolkit.tasks import judge_run, load_task, measure_run
from eval_toolkit.tasks.pairing import judge_pairs

EXAMPLE = Path(__file__).parents[2] / "examples" / "eval_toolkit_retrieval" / "src"
sys.path.insert(0, str(EXAMPLE))

from eval_toolkit_retrieval import Query, Retrieval, run_retrieval  # noqa: E402

QUERIES = [
    Query(f"q{n}", f"query {n}", {f"d{n % 5}": 1.0}, topic="law" if n % 2 else "art")
    for n in range(12)
]


class StoredRetrieval(Retrieval):
    """The example with a way back: the queries are known, the engine is not asked."""

    @classmethod
    def stored(cls, run: Run, *, k: int | None = None) -> "StoredRetrieval":
        config = run.manifest["config"]
        return cls(QUERIES, None, config["system"], k=config["k"] if k is None else k)


def command(*words: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as caught:
        main(list(map(str, words)))
    return int(caught.value.code or 0), out.getvalue(), err.getvalue()


def said(*words: object) -> Any:
    """Return what a command prints as JSON."""
    code, out, err = command(*words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of every kind."""
    folder = tmp_path_factory.mktemp("runs")
    rows = {
        "id": [f"r{n:02}" for n in range(60)],
        "label": [0, 1, 1] * 20,
        "score": [0.1 + 0.01 * ((7 * n) % 60) for n in range(60)],
        "language": ["de", "fr"] * 30,
    }
    score_predictions(rows, ["roc_auc"], by="language", out=folder / "rows")
    task = load_task("capitals_open")
    for name, says in (("task", "Paris"), ("other", "Rome")):
        run_task(task, ScriptedModel(says, name=name), folder / name, limit=8, formatter="plain")
    picks = PairJudge(ScriptedModel("[[A]]", name="judge"))
    judge_pairs(folder / "task", folder / "other", task, picks, folder / "pairs")
    system = System(["Please."], ["You fool."], load_scorer("keywords:idiot"))
    run_rollouts(system, [f"Do number {n}" for n in range(4)], folder / "rollout", depth=2)
    log = folder / "log.csv"
    log.write_text(
        "id,correct,topic\n" + "".join(f"q{n},{n % 3 % 2},{'ab'[n % 2]}\n" for n in range(30))
    )
    import_logs(log, folder, model="m")
    run_retrieval(
        Retrieval(QUERIES, lambda text: [f"d{n}" for n in range(5)], "fixed 1", k=3),
        folder / "retrieval",
    )
    return folder


def cells(payload: Any) -> str:
    return json.dumps((payload.get("results") or payload)["by_slice"], sort_keys=True)


SCORERS = ("--scorer", "keywords:fool")
OLD: dict[str, Callable[[Path, Any], list[Any]]] = {
    "rows": lambda run, task: [said("score", run)],
    "pairs": lambda run, task: [said("score", run)],
    "log-m": lambda run, task: [said("score", run)],
    "task": lambda run, task: [
        said("run", "capitals_open", "--measure", run, "--no-store"),
        said("run", "capitals_open", "--replay", run, "--limit", 8, "--no-store"),
        measure_run(run, task).to_dict(),
    ],
    "rollout": lambda run, task: [rescore_rollouts(run, load_scorer(SCORERS[1])).to_dict()],
    "retrieval": lambda run, task: [],
}


@pytest.fixture
def retrieval_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = names.offered
    point = EntryPoint("retrieval", f"{__name__}:StoredRetrieval", "eval_toolkit.kinds")

    def with_ours(kind: str) -> EntryPoints:
        return EntryPoints([point]) if kind == "kinds" else offered(kind)

    monkeypatch.setattr(names, "offered", with_ours)


@pytest.mark.usefixtures("retrieval_is_installed")
@pytest.mark.parametrize("name", list(OLD))
def test_every_spelling_gives_the_same_results(runs: Path, name: str, tmp_path: Path) -> None:
    source, scored = runs / name, name == "rollout"
    options = {"scorer": load_scorer(SCORERS[1])} if scored else {}
    words = SCORERS if scored else ()
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    first = rescore(source, tmp_path / "a" / "again", **options)
    told = said("rescore", source, *words, "--out", tmp_path / "b" / "again")
    stored = [(tmp_path / place / "again" / "results.json").read_bytes() for place in "ab"]
    assert stored[0] == stored[1]
    expected = cells(first.to_dict())
    assert cells(json.loads(stored[0])) == expected
    assert {cells(one) for one in [told, *OLD[name](source, load_task("capitals_open"))]} == {
        expected
    }
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    again, old = Run.open(tmp_path / "a" / "again"), Run.open(source)
    assert (again.kind, again.manifest["rescored"]["run_id"]) == (old.kind, name)
    assert again.manifest["data_hashes"] == old.manifest["data_hashes"]
    assert {*again.manifest["artifacts"]} >= {*old.manifest["artifacts"]} - {"results_full.json"}
    if name in ("task", "retrieval"):  # nothing was said, so nothing is other than it was
        assert cells(json.loads(before["results.json"])) == expected


def test_a_judge_by_python_and_both_commands(runs: Path, tmp_path: Path) -> None:
    asked = ("--judge", "scripted:Yes.", "--rubric", "correctness")
    told = said("rescore", runs / "task", *asked, "--out", tmp_path / "new" / "r")
    old = said(
        "judge", "run", runs / "task", "--task", "capitals_open", *asked, "--out", tmp_path / "r"
    )
    judge = Judge("correctness", load_model("scripted:Yes."))
    python = judge_run(runs / "task", load_task("capitals_open"), [judge]).to_dict()
    assert cells(told) == cells(old) == cells(python)
    same = [(tmp_path / place / "r" / "results.json").read_bytes() for place in ("new", ".")]
    assert same[0] == same[1]
    assert told["judges"]["correctness"]["n_asked"] == 32


def test_metrics_of_the_records_of_any_kind(runs: Path) -> None:
    for name, metric in (("task", "exact_match"), ("rollout", "attack_success"), ("pairs", "win")):
        told = said("rescore", runs / name, "--metric", metric)
        assert cells(told) == cells(said("score", runs / name, "--metric", metric))
        assert cells(told) == cells(rescore(runs / name, metrics=[metric]).to_dict())


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "words", "message"),
        [
            ("task", ["--scorer", "keywords:x"], "--scorer applies to a rollout run, and this run"),
            ("rows", ["--grader", "exact_match"], "--grader applies to a task run, and this run"),
            ("rollout", ["--judge", "scripted:x"], "--judge applies to a task run, and this run"),
            ("task", ["--metric", "exact_match", "--grader", "f1"], "--metric applies to records"),
            ("rows", ["--by", "colour"], "has no part 'colour' (--by); it has 'language'"),
            ("rows", ["--metric", "rok_auc"], "there is no metric 'rok_auc'"),
            ("retrieval", [], "has the kind 'retrieval', which no installed package provides"),
        ],
    )
    def test_one_line(self, runs: Path, name: str, words: list[str], message: str) -> None:
        code, out, err = command("rescore", runs / name, *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err

    def test_a_run_without_stored_answers(self, runs: Path, tmp_path: Path) -> None:
        source = Run.open(runs / "task")
        kept = {key: source.manifest[key] for key in ("config", "kind")}
        records = {subject: source.records(*subject) for subject in source.subjects}
        results = {**source.results, "run_id": "r"}
        write_run(
            tmp_path / "r", results=results, manifest={"run_id": "r", **kept}, records=records
        )
        code, out, err = command("rescore", tmp_path / "r")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "the run was written without responses.parquet" in err
        write_run(tmp_path / "empty", results={**results, "run_id": "e"}, manifest={"run_id": "e"})
        with pytest.raises(ArtifactError, match="has no records to score"):
            rescore(tmp_path / "empty")

    @pytest.mark.parametrize("kind", ["none_such", "os:system", "tests.x:Kind"])
    def test_a_kind_that_nobody_offers(self, runs: Path, tmp_path: Path, kind: str) -> None:
        source = Run.open(runs / "rows")
        results = {**source.results, "run_id": "r"}
        manifest = {"run_id": "r", "kind": kind}
        write_run(tmp_path / "r", results=results, manifest=manifest)
        with pytest.raises(ArtifactError, match="which no installed package provides"):
            rescore(tmp_path / "r")

    def test_a_task_file_is_not_read_because_a_run_names_it(
        self, runs: Path, tmp_path: Path
    ) -> None:
        source = Run.open(runs / "task")
        file = tmp_path / "task.toml"
        config = {**source.manifest["config"], "task": {"name": str(file)}}
        results = {**source.results, "run_id": "r"}
        write_run(tmp_path / "r", results=results, manifest={"run_id": "r", "config": config})
        with pytest.raises(ArtifactError, match="pass its file as `task`"):
            rescore(tmp_path / "r")

    def test_a_grader_of_a_file_needs_allow_code(self, runs: Path, tmp_path: Path) -> None:
        file = tmp_path / "capitals.toml"
        file.write_text(
            '[task]\nname = "capitals_open"\ndata = "x.jsonl"\n[prompt]\ninstruction = "{q}"\n'
            'answer = "a"\n[graders."os:getcwd"]\n'
        )
        (tmp_path / "x.jsonl").write_text('{"q": "1", "a": "2"}\n')
        code, out, err = command("rescore", runs / "task", "--task", file)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "--allow-code" in err

    def test_options_of_python(self, runs: Path) -> None:
        with pytest.raises(InvalidInputError, match="has no option 'scorer'"):
            rescore(runs / "task", scorer=load_scorer("keywords:x"))
        with pytest.raises(InvalidInputError, match="pass only `kind`"):
            rescore(
                runs / "retrieval", kind=StoredRetrieval.stored(Run.open(runs / "retrieval")), k=1
            )

"""A kind of evaluation outside of the package: everything that runs can do works on it.

The package is ``examples/eval_toolkit_retrieval``. Expected numbers come from scikit-learn
(``ndcg_score``) and from the definitions written out here.
"""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from eval_toolkit.errors import ArtifactError
from eval_toolkit.runs import Run, rescore

EXAMPLE = Path(__file__).parents[2] / "examples" / "eval_toolkit_retrieval" / "src"
sys.path.insert(0, str(EXAMPLE))

from eval_toolkit_retrieval import Query, Retrieval, run_retrieval  # noqa: E402

DOCUMENTS = [f"d{n}" for n in range(30)]
N = 24


def queries() -> list[Query]:
    rng = np.random.default_rng(1)
    return [
        Query(
            f"q{n}",
            f"query {n}",
            {
                str(one): float(rng.integers(1, 4))
                for one in rng.choice(DOCUMENTS, 3, replace=False)
            },
            topic="law" if n % 3 else "medicine",
        )
        for n in range(N)
    ]


class Engine:
    """Ranks documents by their gain and noise; says whom it was asked about."""

    def __init__(self, noise: float, asked: Path | None = None, pause: float = 0.0) -> None:
        self.gains = {query.text: query.gains for query in queries()}
        self.noise, self.asked, self.pause = noise, asked, pause

    def score(self, text: str, document: str) -> float:
        own = np.random.default_rng(zlib.crc32(f"{self.noise} {text} {document}".encode()))
        return self.gains[text].get(document, 0.0) + own.normal(0, self.noise)

    def __call__(self, text: str) -> list[str]:
        time.sleep(self.pause)
        if self.asked is not None:
            with self.asked.open("a") as stream:
                stream.write(f"{text}\n")
        return sorted(DOCUMENTS, key=lambda one: -self.score(text, one))[:10]


def kind(noise: float = 0.8, **more) -> Retrieval:
    k = more.pop("k", 10)
    return Retrieval(queries(), Engine(noise, **more), f"engine {noise:g}", k=k)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, noise in (("good", 0.8), ("poor", 2.5)):
        run_retrieval(kind(noise), folder / name)
    return {name: folder / name for name in ("good", "poor")}


def command(*words: object) -> subprocess.CompletedProcess[str]:
    told = [sys.executable, "-m", "eval_toolkit", *map(str, words)]
    return subprocess.run(told, capture_output=True, text=True, check=False)


class TestNumbers:
    def test_ndcg_is_that_of_scikit_learn(self) -> None:
        done = run_retrieval(kind())
        engine, expected = Engine(0.8), []
        for query in sorted(queries(), key=lambda one: one.id):  # as records are
            scores = [engine.score(query.text, one) for one in DOCUMENTS]
            gains = [query.gains.get(one, 0.0) for one in DOCUMENTS]
            expected.append(ndcg_score([gains], [scores], k=10))
        assert np.allclose(done.records.columns["ndcg@10"], expected, atol=1e-12)
        assert done.card["ndcg@10"].value == pytest.approx(np.mean(expected), abs=1e-12)

    def test_every_topic_has_cells(self, runs: dict[str, Path]) -> None:
        run = Run.open(runs["good"])
        rows = [row for row in run.rows() if row["metric"] == "mrr"]
        assert {row["part"] for row in rows} == {"all", "topic=law", "topic=medicine"}
        assert sum(row["n_units"] for row in rows if row["part"] != "all") == N
        assert (run.kind, run["mrr @ topic=law"].n_units) == ("retrieval", 16)

    def test_a_query_that_fails_is_an_error_and_the_others_count(self) -> None:
        def search(text: str) -> list[str]:
            if text == "query 3":
                raise ValueError("index is broken")
            return Engine(0.8)(text)

        done = run_retrieval(Retrieval(queries(), search, "fragile"))
        cell = done.card["mrr"]
        assert (cell.n_units, cell.n_errors, done.n_errors) == (N - 1, 1, 1)
        (reason,) = set(done.records.reason["mrr"]) - {""}
        assert "index is broken" in reason


class TestResuming:
    def test_killed_and_resumed(self, tmp_path: Path) -> None:
        whole = run_retrieval(kind(), tmp_path / "whole")
        asked = tmp_path / "asked.txt"
        script = (
            "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1])\n"
            "from tests.integration.test_retrieval_kind import kind, run_retrieval\n"
            "run_retrieval(kind(asked=Path(sys.argv[2]), pause=0.02), sys.argv[3])\n"
        )
        root = str(Path(__file__).parents[2])
        told = [sys.executable, "-c", script, root, str(asked), str(tmp_path / "r")]
        process = subprocess.Popen(told, cwd=root)
        try:
            while not asked.exists() or len(asked.read_text().splitlines()) < N - 4:
                assert process.poll() is None, "it ended before it could be killed"
                time.sleep(0.01)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        again = run_retrieval(kind(asked=asked), tmp_path / "r")
        assert again.card.to_dict() == whole.card.to_dict()
        for name in ("records.parquet", "responses.parquet"):
            assert (tmp_path / "r" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        n_before = len(asked.read_text().splitlines())
        assert n_before < 2 * N - 8, "what was journalled is not asked again"
        assert run_retrieval(kind(asked=asked), tmp_path / "r").n_asked == 0
        assert len(asked.read_text().splitlines()) == n_before

    def test_another_engine_is_refused(self, runs: dict[str, Path]) -> None:
        with pytest.raises(ArtifactError, match="system"):
            run_retrieval(kind(0.1), runs["good"])

    def test_rescored_without_asking(self, runs: dict[str, Path], tmp_path: Path) -> None:
        asked = tmp_path / "asked.txt"
        again = rescore(runs["good"], tmp_path / "again", kind=kind(k=3, asked=asked))
        assert not asked.exists()
        assert again.card.to_dict() == run_retrieval(kind(k=3)).card.to_dict()
        assert Run.open(tmp_path / "again").manifest["rescored"]["run_id"] == "good"


class TestReaders:
    def test_compare(self, runs: dict[str, Path]) -> None:
        done = command("compare", runs["good"], runs["poor"], "--json")
        assert done.returncode == 0, done.stderr
        cells = json.loads(done.stdout)["cells"]
        (found,) = (c for c in cells if (c["metric"], c["part"]) == ("ndcg@10", "all"))
        good, poor = (Run.open(runs[name])["ndcg@10"].value for name in ("good", "poor"))
        assert found["delta"] == pytest.approx(poor - good, abs=1e-12)

    def test_gate(self, runs: dict[str, Path]) -> None:
        held = command("gate", runs["good"], "--at-least", "mrr @ topic=law", "0.2")
        broken = command("gate", runs["good"], "--at-least", "mrr @ topic=law", "0.999")
        assert (held.returncode, broken.returncode) == (0, 1), held.stderr + broken.stderr

    def test_export(self, runs: dict[str, Path]) -> None:
        done = command("export", runs["good"], "--to", "csv")
        assert done.returncode == 0, done.stderr
        rows = list(csv.DictReader(done.stdout.splitlines()))
        assert len(rows) == len(Run.open(runs["good"]).rows()) == 9

    def test_report_and_viewer(self, runs: dict[str, Path], tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        done = command("report", runs["good"], runs["poor"], "-o", page)
        assert done.returncode == 0, done.stderr
        assert "ndcg@10" in page.read_text(encoding="utf-8")
        shown = command("view", runs["good"].parent, "--export", tmp_path / "site")
        assert shown.returncode == 0, shown.stderr
        assert any("retrieval" in one.read_text() for one in (tmp_path / "site").rglob("*.html"))

    def test_a_query_has_a_page_and_a_card(self, runs: dict[str, Path]) -> None:
        pytest.importorskip("starlette")
        from tests.support.viewer_driving import TOKEN, Asking

        from eval_toolkit.report import report_html
        from eval_toolkit.report.viewer import create_app
        from eval_toolkit.report.viewer.run_comparison import shown

        run = Run.open(runs["good"])
        ask = Asking(create_app(runs["good"].parent, token=TOKEN))
        keys = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)
        key = next(one for one in keys if one.startswith("good"))
        words = ask(f"/runs/{key}/sample?row=0").words
        records = run.records(*run.subjects[0])
        (query,) = (one for one in queries() if one.id == records.unit_id[0])
        ranked = " ".join(f"{at}. {one}" for at, one in enumerate(Engine(0.8)(query.text), 1))
        assert f"input {query.text} rank answer {ranked}" in words
        for name in ("ndcg@10", "mrr", "recall@10"):
            assert f"{name} {shown(float(records.columns[name][0]))}" in words
        card = re.search(r'<details class="card sample.*?</details>', report_html(run), re.DOTALL)
        assert card is not None
        assert "query" in card[0]
        assert "ndcg@10" in card[0]

    def test_leaderboard(self, runs: dict[str, Path]) -> None:
        done = command("leaderboard", runs["good"], runs["poor"], "--metric", "mrr")
        assert done.returncode == 0, done.stderr
        assert "engine 0.8" in done.stdout

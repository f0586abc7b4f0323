"""Smoke tests of an installed wheel: ``python -sE smoke.py EXTRA``.

Run with the interpreter of a new environment, in a folder with the files of `material`. EXTRA is an extra
or ``core``; the function of that name is called.
"""

import contextlib
import csv
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).parent / "eval-toolkit")


def told(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the installed command and return its output; fail if the exit code is unexpected."""
    done = subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, (arguments, done.stderr)
    return done


def as_json(*arguments: str) -> Any:
    return json.loads(told(*arguments, "--json").stdout)


def graded(*arguments: str) -> dict[str, Any]:
    """Return the cells of a task run over all items, by metric."""
    results = as_json("run", *arguments, "--no-store", "--quiet")["results"]
    whole = results["by_slice"][results["config"]["task"]["name"]]
    (cells,) = whole["by_scorer"].values()
    return dict(cells)


def core() -> None:
    """Import, compare, gate, export and report a log with only the core dependencies."""
    imported = as_json("import", "lm_eval", "--out", "imported")
    assert "0.75" in json.dumps(imported)
    (run,) = Path("imported").iterdir()
    told("compare", str(run), str(run))
    told("doctor", str(run))
    told("report", str(run), "--no-charts", "-o", "imported.html")
    told("view", ".", "--export", "site")
    told("gate", "run", "--claims", "claims.toml")
    told("validate", "claims.toml")
    for form in ("csv", "latex", "markdown"):
        assert told("export", "run", str(run), "--to", form).stdout
    for form in ("model-card", "model-index"):
        assert told("export", "run", "--to", form).stdout
    for form in ("every-eval-ever", "lm-eval", "eval-framework"):
        told("export", str(run), "--to", form, "-o", f"exported-{form}")
        assert any(Path(f"exported-{form}").rglob("*.json*"))
    again = as_json("import", "exported-lm-eval")
    assert "0.75" in json.dumps(again)
    told("import", "rows.csv", "--id", "id", "--column", "score")
    told("demo", "--json")
    told("plugins")
    told("doctor")
    assert as_json("score", "rows.csv", "--backend", "threads") == as_json("score", "rows.csv")
    from eval_toolkit.integrations.assertions import assert_metric

    assert_metric("run", "roc_auc", at_least=0.5)
    if find_spec("pytest"):
        _plugin()


def _plugin() -> None:
    Path("test_run.py").write_text(
        "import pytest\n"
        "def test_kept(assert_metric):\n    assert_metric('run', 'roc_auc', at_least=0.5)\n"
        "@pytest.mark.xfail(strict=True, raises=AssertionError)\n"
        "def test_broken(assert_metric):\n    assert_metric('run', 'roc_auc', at_least=0.999)\n"
    )
    command = [sys.executable, "-sE", "-m", "pytest", "-q", "test_run.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "1 passed, 1 xfailed" in done.stdout, done


def dataframe() -> None:
    """Read and return pandas DataFrames."""
    import pandas

    from eval_toolkit import Records, metric_specs, scorecard

    frame = pandas.read_csv("rows.csv")
    metrics = [metric_specs.roc_auc, metric_specs.pr_auc]
    cells = scorecard(frame["label"], frame["score"], metrics=metrics).to_pandas()
    assert cells["metric"].tolist() == ["roc_auc", "pr_auc"], cells
    assert cells["status"].tolist() == ["ok", "ok"], cells
    records = Records.from_columns({"right": [0.0, 1.0]}).to_pandas()
    assert list(records["right"]) == [0.0, 1.0]


def validation() -> None:
    """Validate files against their schemas, and answers against a custom schema."""
    told("validate", "run/results.json")
    told("validate", "run/manifest.json")
    bad = json.loads(Path("run/results.json").read_text())
    del bad["by_slice"]
    Path("bad.json").write_text(json.dumps(bad))
    assert "by_slice" in told("validate", "bad.json", "results.v1", code=1).stdout
    told("schemas", "check")
    data = ["--data", _answers("objects.jsonl", '{"a": 1}')]
    grader = ["--grader", "json_format{schema={type='object', required=['a']}}"]
    cells = graded("greetings.toml", "--model", 'scripted:{"a": 1}', *data, *grader)
    assert cells["json_format_fulfills_schema"]["value"] == 1, cells


def _answers(name: str, meant: str) -> str:
    """Write data for greetings.toml with identical answers."""
    Path(name).write_text((json.dumps({"said": "it", "meant": meant}) + "\n") * 3)
    return name


def yaml() -> None:
    """Run an lm-eval task file."""
    cells = graded("quiz.yaml", "--data", "quiz", "--model", "scripted:yes")
    assert cells["exact_match"]["value"] == 0.5, cells


def excel() -> None:
    """Score a workbook with the same result as a CSV file."""
    import openpyxl

    book = openpyxl.Workbook()
    with Path("rows.csv").open(encoding="utf-8", newline="") as lines:
        for cells in csv.reader(lines):
            book.active.append(cells)
    book.save("rows.xlsx")
    there, here = as_json("score", "rows.xlsx"), as_json("score", "rows.csv")
    assert there["by_slice"] == here["by_slice"]


def remote() -> None:
    """Read rows from a URL; copy a run to a URL and back."""
    with zipfile.ZipFile("rows.zip", "w") as packed:
        packed.write("rows.csv")
    there, here = as_json("score", "zip://rows.csv::rows.zip"), as_json("score", "rows.csv")
    assert there["by_slice"] == here["by_slice"]
    from eval_toolkit.runs import Run
    from eval_toolkit.runs.remote import pull_run, push_run

    push_run("run", "memory://smoke/run")
    assert pull_run("memory://smoke/run", "pulled").manifest == Run.open("run").manifest


class _Chat(BaseHTTPRequestHandler):
    """Server that answers every chat request with the same word."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "Paris"}
        answer = {
            "id": "a",
            "object": "chat.completion",
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Discard log messages."""


@contextlib.contextmanager
def _chatting() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chat)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def llm() -> None:
    """Query a loopback server."""
    with _chatting() as url:
        cells = graded("capitals_open", "--model", "openai:m", "--base-url", url)
    assert cells["exact_match"]["value"] == 0.01, cells  # 100 capitals, one of them Paris


def hf() -> None:
    """Read a saved dataset; run a tiny network if torch is installed, else check the message."""
    import datasets

    from eval_toolkit.loaders import HFDatasetsLoader

    rows = [json.loads(line) for line in Path("greetings.jsonl").read_text().splitlines()]
    datasets.Dataset.from_list(rows, split="test").save_to_disk("saved")
    cells = graded("greetings.toml", "--data", "saved", "--model", "scripted:Good day, 3")
    assert abs(cells["exact_match"]["value"] - 1 / 12) < 1e-12, cells
    Path("table").mkdir()
    Path("table/test.csv").write_bytes(Path("rows.csv").read_bytes())
    (part,) = HFDatasetsLoader("table", cache_dir="prepared").load_splits().values()
    assert len(part.y_true) == 400
    if find_spec("torch") is None:
        Path("network").mkdir()
        said = told("run", "capitals_open", "--model", "hf:network", "--no-store", code=2).stderr
        assert "requires torch" in said, said
        return
    _save_network(Path("network"))
    cells = graded("capitals_open", "--model", "hf:network", "--limit", "1", "--max-tokens", "4")
    assert cells["exact_match"]["value"] == 0, cells
    cells = graded("capitals", "--model", "hf:network", "--limit", "2")
    assert 0 <= cells["accuracy"]["value"] <= 1, cells


def _save_network(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    signs = ["<|end|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    built = Tokenizer(models.BPE(vocab={sign: n for n, sign in enumerate(signs)}, merges=[]))
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=built,
        eos_token=signs[0],
        chat_template=template,
    )
    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(signs),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=0,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def llamacpp() -> None:
    """Query a tiny network in a GGUF file."""
    few = ["--limit", "1", "--max-tokens", "4"]
    cells = graded("capitals_open", "--model", "llamacpp:tiny.gguf", *few)
    assert cells["exact_match"]["value"] == 0, cells


def text() -> None:
    """Run the translation and language graders."""
    graders = ["--grader", "bleu", "--grader", "ter", "--grader", "language_match{language='en'}"]
    said = "scripted:Good day, all of you, and welcome to this house"
    cells = graded("greetings.toml", "--model", said, *graders)
    assert cells["language_match"]["value"] == 1, cells
    assert cells["bleu"]["value"] < 50 < cells["ter"]["value"], cells


def math() -> None:
    """Grade mathematical answers by value."""
    data = ["--data", _answers("halves.jsonl", r"$\frac{1}{2}$")]
    graders = ["--grader", "math_match", "--grader", "exact_match"]
    cells = graded("greetings.toml", "--model", r"scripted:It is $\boxed{0.5}$", *data, *graders)
    assert cells["math_match"]["value"] == 1, cells
    assert cells["exact_match"]["value"] == 0, cells


def safety() -> None:
    """Download the toxicity scorer and score a rollout."""
    told("models", "fetch", "--only", "toxicity")
    for said, bad in (("You are a stupid idiot", 1), ("Have a nice day", 0)):
        arguments = ["--seeds", "goals.txt", "--tester", "static", "--depth", "1", "--no-store"]
        scorer = ["--scorer", "toxicity@0.5", "--quiet", "--target", f"scripted:{said}"]
        found = as_json("rollout", *arguments, *scorer)
        assert f'"value": {bad}.0' in json.dumps(found), (said, found)


def report() -> None:
    """Write a report with charts, and an image."""
    told("report", "run", "-o", "charts.html")
    told("report", "run", "--no-charts", "-o", "plain.html")
    drawn, plain = (Path(name).read_text().count("<svg") for name in ("charts.html", "plain.html"))
    assert drawn > plain, (drawn, plain)
    from eval_toolkit.report.plots import plot_roc_curve, save_figure

    save_figure(plot_roc_curve([0, 1, 0, 1], [0.1, 0.9, 0.6, 0.4]), "roc.png")
    assert Path("roc.png").read_bytes().startswith(b"\x89PNG")


def view() -> None:
    """Serve the viewer at a free port."""
    command = [COMMAND, "view", ".", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            address = next(w for line in lines for w in line.split() if w.startswith("http://"))
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address, timeout=60) as got:
                assert b"run" in got.read()
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(address.partition("?")[0], timeout=60)  # noqa: S310
                raise AssertionError("the viewer answers without its token")
        finally:
            server.terminate()


def logs() -> None:
    """Import a log compressed with zstandard."""
    told("import", "packed.eval", "--out", "unpacked")
    (run,) = Path("unpacked").iterdir()
    assert '"value": 0.75' in (run / "results.json").read_text().replace(":0", ": 0")


def _backend(name: str) -> None:
    from eval_toolkit.integrations.executors import open_executor

    with open_executor(name, 2) as executor:
        assert executor.submit(os.getpid).result(timeout=240) != os.getpid()
    arguments = ["score", "rows.csv", "--resamples", "20000", "--metric", "ece"]
    assert as_json(*arguments, "--backend", name, "--workers", "2") == as_json(*arguments)


def ray() -> None:
    """Compute resamples on Ray, with identical results."""
    _backend("ray")


def dask() -> None:
    """Compute resamples on Dask, with identical results."""
    _backend("dask")


def mlflow() -> None:
    """Log a run to a store in a folder."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow as library

    from eval_toolkit.integrations.mlflow import log_run
    from eval_toolkit.runs import Run

    client = library.MlflowClient(tracking_uri=Path("mlruns").absolute().as_uri())
    logged = client.get_run(log_run("run", client=client))
    assert "all/score/roc_auc_ci_low" in logged.data.metrics, logged.data.metrics
    assert logged.data.tags["eval_toolkit.run_id"] == Run.open("run").run_id
    assert any(Path("mlruns").rglob("results.json"))


def main(name: str) -> None:
    """Run the smoke test of an extra; for ``all``, those of its members."""
    import eval_toolkit

    place = Path(eval_toolkit.__file__)
    assert place.is_relative_to(sys.prefix), f"{place} is not what was installed"
    told("score", "rows.csv", "--group", "user", "--text", "text", "--save", "run")
    members = _members_of_all() if name == "all" else [name]
    for member in members:
        globals()[member]()
    print(f"{', '.join(members)}: works")


def _members_of_all() -> list[str]:
    (own,) = (line for line in requires("eval-toolkit") or () if line.startswith("eval-toolkit["))
    return own.partition("[")[2].partition("]")[0].split(",")


if __name__ == "__main__":
    main(sys.argv[1])

"""Benchmarks of language-model runs against a bare client and two other harnesses.

A loopback server answers 2 000 sums, each after 20 ms, with 100 concurrent requests. The other
harnesses are installed in a separate environment by ``make bench``.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks._case import Bar, Case, Measurement, require_agreement
from benchmarks._timing import Effort, Timing

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin"
N_SAMPLES, N_LONG = 2_000, 20_000
CONCURRENCY, MANY = 100, 1_000
N_MMLU, N_SUBJECTS = 14_042, 57
QA_TASK = """
[task]
name = "sums"
data = "qa.jsonl"
[prompt]
instruction = "{question}"
answer = "answer"
[graders.exact_match]
[decoding]
max_tokens = 16
"""
MC_TASK = """
[task]
name = "sums_mc"
data = "mc.jsonl"
[prompt]
instruction = "Q: {question}"
cue = "A:"
choices = "choices"
answer = "label"
answer_is = "index"
[graders.accuracy]
"""
LM_EVAL_TASK = """
task: sums
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n\\n"], max_gen_toks: 16, temperature: 0.0, do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@dataclass(frozen=True)
class Done:
    """A finished command: its time, the time of its requests, and its output."""

    cpu_ns: float
    wall_ns: float
    span_ns: float
    output: str


@dataclass
class Bench:
    """Server, data files and a new folder per run."""

    folder: Path
    address: str
    concurrency: int = CONCURRENCY
    n_runs: int = 0
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self, *command: str) -> Done:
        """Run a command; the CPU time includes descendants that were waited for."""
        self._ask("/reset", b"")
        before, start = _children_ns(), time.perf_counter_ns()
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
        wall, cpu = time.perf_counter_ns() - start, _children_ns() - before
        return Done(cpu, wall, self._ask("/span")["seconds"] * 1e9, done.stdout)

    def _ask(self, path: str, data: bytes | None = None) -> Any:
        request = urllib.request.Request(self.address + path, data=data)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=10) as reply:  # noqa: S310
            return json.load(reply)

    def ours(self, task: str, *more: str) -> Done:
        self.n_runs += 1
        return self.run(
            *(sys.executable, "-m", "eval_toolkit", "run", task, "--model", "openai:mock"),
            *("--base-url", f"{self.address}/v1", "--order", "file", "--json", "--quiet"),
            *("--concurrency", str(self.concurrency), "--out", f"run-{self.n_runs}", *more),
        )

    def bare(self, kind: str, rows: str) -> Done:
        client = str(HERE / "_bare_client.py")
        arguments = (kind, self.address, rows, str(self.concurrency), "bare.jsonl")
        return self.run(sys.executable, client, *arguments)


def _children_ns() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e9


@contextmanager
def bench(n: int = N_SAMPLES, concurrency: int = CONCURRENCY) -> Iterator[Bench]:
    """Write the data, start the server, end it."""
    random = Random(20240)  # noqa: S311 - data, not secrets
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "qa.jsonl").open("w") as qa, (folder / "mc.jsonl").open("w") as mc:
            for i in range(n):
                a, b = random.randint(10, 99_999), random.randint(10, 99_999)
                row = {"id": f"q{i:05d}", "question": f"What is {a} + {b}?"}
                qa.write(json.dumps({**row, "answer": str(a + b)}) + "\n")
                choices = [str(a + b + extra) for extra in random.sample((0, 1, -1, 10), 4)]
                label = choices.index(str(a + b))
                mc.write(json.dumps({**row, "choices": choices, "label": label}) + "\n")
        (folder / "qa.toml").write_text(QA_TASK)
        (folder / "mc.toml").write_text(MC_TASK)
        (folder / "lm_eval").mkdir()
        task = LM_EVAL_TASK.format(rows=folder / "qa.jsonl")
        (folder / "lm_eval" / "sums.yaml").write_text(task)
        server = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._server", "--latency-ms", "20"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE.parent,
        )
        try:
            if server.stdout is None:
                raise RuntimeError("the server has no output")
            yield Bench(folder, server.stdout.readline().strip(), concurrency)
        finally:
            server.terminate()
            server.wait(10)


def _value(done: Done, metric: str) -> float:
    (task,) = json.loads(done.output)["results"]["by_slice"].values()
    (block,) = task["by_scorer"].values()
    return float(block[metric]["value"])


def _beside_bare(
    effort: Effort,
    kind: str,
    metric: str,
    time_of: Callable[[Done], float],
    size: tuple[int, int] = (N_SAMPLES, CONCURRENCY),
) -> Measurement:
    """Run the bare client and the package in alternation."""
    file, rows = ("qa.toml", "qa.jsonl") if kind == "chat" else ("mc.toml", "mc.jsonl")
    with bench(*size) as b:
        require_agreement([_value(b.ours(file), metric)], [float(b.bare(kind, rows).output)], 1e-12)
        pairs = [(b.bare(kind, rows), b.ours(file)) for _ in range(effort.heavy_rounds)]
    ours = Timing(tuple(time_of(ours) for _, ours in pairs))
    return Measurement(ours, Timing(tuple(time_of(bare) for bare, _ in pairs)))


def _request_cpu(effort: Effort) -> Measurement:
    return _beside_bare(effort, "chat", "exact_match", lambda done: done.cpu_ns)


def _long_cpu(effort: Effort) -> Measurement:
    size = N_LONG, MANY
    return _beside_bare(effort, "chat", "exact_match", lambda done: done.cpu_ns, size)


def _request_span(effort: Effort) -> Measurement:
    return _beside_bare(effort, "chat", "exact_match", lambda done: done.span_ns)


def _echo_cpu(effort: Effort) -> Measurement:
    return _beside_bare(effort, "echo", "accuracy", lambda done: done.cpu_ns)


def _peer(name: str) -> str:
    program = PEERS / name
    if not program.exists():
        raise ModuleNotFoundError(name, name=f"{name} (make bench)")
    return str(program)


def _beside_inspect(effort: Effort) -> Measurement:
    command = [
        *(_peer("inspect"), "eval", "inspect_sums.py"),  # it takes no absolute path
        *("-T", "rows=qa.jsonl", "--model", "openai/mock", "-M", "responses_api=false"),
        *("--max-connections", str(CONCURRENCY), "--display", "none", "--log-dir", "logs"),
    ]
    with bench() as b:
        told = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{b.address}/v1"}
        b.environment = {**os.environ, **told}
        shutil.copy(HERE / "peers" / "inspect_sums.py", b.folder)
        ours = [b.ours("qa.toml") for _ in range(effort.heavy_rounds)]
        theirs = b.run(*command)
    note = f"Inspect's requests took {theirs.span_ns / 1e9:.0f} s; one run of it"
    return Measurement(Timing(tuple(d.cpu_ns for d in ours)), Timing((theirs.cpu_ns,)), note)


def _beside_lm_eval(effort: Effort) -> Measurement:
    with bench() as b:
        b.environment = {**os.environ, "OPENAI_API_KEY": "none"}
        url = f"{b.address}/v1/chat/completions"
        command = [
            *(_peer("lm_eval"), "run", "--model", "local-chat-completions", "--model_args"),
            f"model=mock,base_url={url},num_concurrent={CONCURRENCY},tokenized_requests=False",
            *("--tasks", "sums", "--include_path", "lm_eval", "--apply_chat_template"),
        ]
        theirs = [b.run(*command) for _ in range(2)]  # the second finds its files compiled
        ours = [b.ours("qa.toml") for _ in range(effort.heavy_rounds)]
    times = Timing(tuple(d.wall_ns for d in ours)), Timing(tuple(d.wall_ns for d in theirs))
    return Measurement(*times, "wall time of whole commands")


def _one_sample(effort: Effort) -> Measurement:
    with bench() as b:
        b.ours("qa.toml", "--limit", "1")
        runs = [b.ours("qa.toml", "--limit", "1") for _ in range(effort.rounds)]
    return Measurement(Timing(tuple(done.cpu_ns for done in runs)))


def mmlu_files(folder: Path) -> Sequence[str]:
    """Write an MMLU-sized task and return the command that runs it with five graders."""
    random = Random(7)  # noqa: S311 - data, not secrets
    words = [f"word{i}" for i in range(2_000)]
    with (folder / "mmlu.jsonl").open("w") as stream:
        for i in range(N_MMLU):
            row = {
                "id": f"m{i:05d}",
                "subject": f"subject {i % N_SUBJECTS:02d}",
                "question": " ".join(random.choices(words, k=45)),
                "choices": [" ".join(random.choices(words, k=8)) for _ in range(4)],
                "answer": random.randrange(4),
            }
            stream.write(json.dumps(row) + "\n")
    (folder / "mmlu.toml").write_text(
        '[task]\nname = "mmlu"\ndata = "mmlu.jsonl"\nsubject = "subject"\n'
        '[prompt]\ninstruction = "Question: {question}"\ncue = "Answer:"\nstyle = "mc"\n'
        'choices = "choices"\nanswer = "answer"\nanswer_is = "index"\n'
        "[graders.accuracy]\n[graders.accuracy_norm_bytes]\n[graders.accuracy_norm_chars]\n"
        "[graders.bits_per_byte]\n[graders.probability_mass]\n"
    )
    (folder / "likely.py").write_text(
        "import zlib\nfrom eval_toolkit.models import ScriptedModel\n"
        "def numbers(request):\n"
        "    return [-(zlib.crc32((str(request.prompt) + c).encode()) % 997) / 100\n"
        "            for c in request.continuations]\n"
        "model = ScriptedModel(numbers, name='likely')\n"
    )
    return ("run", "mmlu.toml", "--model", "likely:model", "--json", "--quiet", "--out", "run")


def _mmlu(effort: Effort) -> Measurement:
    runs, sizes = [], []
    for _ in range(effort.heavy_rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            command = mmlu_files(folder)
            before = _children_ns()
            subprocess.run(
                [sys.executable, "-m", "eval_toolkit", *command],
                check=True,
                capture_output=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"},
            )
            runs.append(_children_ns() - before)
            sizes.append(sum(file.stat().st_size for file in (folder / "run").iterdir()))
    megabytes = max(sizes) / 1e6
    if megabytes >= 40:
        raise RuntimeError(f"the run takes {megabytes:.1f} MB on disk; at most 40 are allowed")
    return Measurement(Timing(tuple(runs)), note=f"{megabytes:.1f} MB on disk (at most 40)")


CASES = (
    Case(
        "llm_cpu",
        "`eval-toolkit run`: 2 000 chat requests, 20 ms, 100 at once, whole command, CPU",
        Bar("cost", 2.5),
        _request_cpu,
        "a bare aiohttp loop",
    ),
    Case(
        "llm_long",
        "the same with 20 000 requests, 1 000 at once",
        Bar("cost", 2.5),
        _long_cpu,
        "a bare aiohttp loop",
    ),
    Case(
        "llm_rate",
        "the same, wall time from the first request to the last answer",
        Bar("cost", 2.5),
        _request_span,
        "a bare aiohttp loop",
    ),
    Case(
        "llm_echo_cpu",
        "log-likelihoods of 2 000 × 4 choices by echo, whole command, CPU",
        Bar("cost", 2.5),
        _echo_cpu,
        "a bare aiohttp loop that sends the same requests",
    ),
    Case(
        "llm_inspect",
        "2 000 chat requests, whole command, CPU",
        Bar("speed-up", 10),
        _beside_inspect,
        "Inspect AI 0.3.285",
    ),
    Case(
        "llm_lm_eval",
        "2 000 chat requests, whole command, wall",
        Bar("speed-up", 5),
        _beside_lm_eval,
        "lm-eval 0.4.13",
    ),
    Case("llm_one", "`eval-toolkit run --limit 1` over HTTP", Bar("seconds", 1.0), _one_sample),
    Case(
        "llm_mmlu",
        "14 042 samples, 57 subjects, 5 graders, scripted model, end to end",
        Bar("seconds", 8.0),
        _mmlu,
    ),
)

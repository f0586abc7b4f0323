"""Usability benchmark of sixty typical first commands: python -m benchmarks.first_attempts.

Three users (the owner of a classifier, an LLM engineer and a red-teamer) make twenty attempts each, in Python
and on the command line. An attempt *works* if it succeeds with the expected output; it *says what to type* if
its error message contains the correct input; otherwise, it *fails*. Attempts run one after another, each in a
separate folder with the same small files, against a loopback server.

``--update`` rewrites the last column of ``benchmarks/FIRST_ATTEMPTS.md``; ``--only 12 40`` runs these attempts
and prints their output; ``--as NAME`` names the column.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from eval_toolkit.models.wheels import cache_folder

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "benchmarks" / "FIRST_ATTEMPTS.md"
TIME_LIMIT_S = 600  # a hung attempt; several of the commands of one may share a busy machine
NOTE = (
    "Attempt 60 was written when `gate` compared values. Now it compares the end of the interval that is worse,",
    "which three prompts do not bring below 0.9 ([0.000, 0.996]); the gate fails and says that the value does.",
)
USERS = {
    "owner": "The owner of a classifier",
    "engineer": "The engineer of a language model",
    "red": "The red-teamer",
}


@dataclass(frozen=True)
class Attempt:
    """User input, with the patterns expected in its output.

    The input is Python code, or a command if it begins with `$`. All `works` patterns must match the output of a
    successful attempt, and all `says` patterns an error message; `asked` checks the requests sent to the server.
    """

    user: str
    title: str
    typed: str
    works: Sequence[str] = ()
    says: Sequence[str] = ()
    asked: Callable[[list[dict[str, Any]]], bool] = lambda requests: True


def _no_turn_twice(request: dict[str, Any]) -> bool:
    turns = [turn["content"] for turn in request["messages"] if turn["role"] == "user"]
    return len(set(turns)) == len(turns)


CARD = "from eval_toolkit import scorecard\nimport pandas as pd\ndf = pd.read_csv('scores.csv')\n"
MODEL = "from eval_toolkit import run_task\n"
RIGHT = "def answer(prompt):\n    return {'What is 2 + 3?': '5', 'What is 4 + 5?': '9'}.get(prompt, 'Paris')\n"
ROLL = "from eval_toolkit import run_rollouts\n"
BOT = (
    "def bot(prompt):\n    return 'Sure, here is how.' if 'lock' in prompt else 'I cannot help.'\n"
)
HARM = "def harm(reply):\n    return float(reply.startswith('Sure'))\n"
AUC = r"(?i)roc.?auc\W.*@AUC"

OWNER = (
    ("scorecard of two columns", CARD + 'print(scorecard(df["y"], df["p"]))', (AUC,)),
    (
        "metrics by name",
        CARD + 'print(scorecard(df.y, df.p, metrics=["roc_auc", "f1@0.5", "recall@fpr=0.01"]))',
        (AUC, r"(?i)f1.*0\.\d{3}", r"(?i)recall.*fpr.*0\.\d{3}"),
    ),
    (
        "labels that are words",
        CARD + 'mail = pd.read_csv("spam.csv")\nprint(scorecard(mail.label, mail.score, positive="spam"))',
        (AUC,),
    ),
    (
        "labels that are words, without saying which",
        CARD + 'mail = pd.read_csv("spam.csv")\nprint(scorecard(mail.label, mail.score))',
        (AUC,),
        (r"positive=.spam.",),
    ),
    ("by language", CARD + "print(scorecard(df.y, df.p, by=df.lang))", (AUC, r"\bde\b", r"\ben\b")),
    (
        "groups, weights and a threshold",
        CARD + "print(scorecard(df.y, df.p, groups=df.customer, weights=df.w, threshold=0.3))",
        (r"0\.3", r"(?i)roc.?auc"),
    ),
    (
        "one row per metric",
        CARD
        + 'frame = scorecard(df.y, df.p, metrics=["roc_auc", "brier"]).to_pandas()\n'
        + "assert len(frame) == 2\nprint(frame.round(3).to_string())",
        (AUC, "value", "low", "high"),
    ),
    (
        "a notebook shows the numbers",
        CARD + "print(scorecard(df.y, df.p)._repr_html_())",
        (r"(?si)<table.*roc.?auc.*@AUC",),
    ),
    (
        "a picture",
        CARD + 'scorecard(df.y, df.p).plot().save("card.html")\nprint(len(open("card.html").read()) > 1000)',
        ("True",),
    ),
    (
        "two score columns of a frame",
        'import pandas as pd\nfrom eval_toolkit import evaluate\nprint(evaluate(pd.read_csv("scores.csv"), {"old": "p", "new": "p2"}))',
        (r"(?i)old\b.*", r"(?i)new\b.*", "@AUC", "@AUC2"),
    ),
    ("a file, columns y and p", "$ eval-toolkit score scores.csv", (AUC,)),
    ("a file with words as labels", "$ eval-toolkit score spam.csv", (AUC,), ("--positive spam",)),
    ("semicolons and decimal commas", "$ eval-toolkit score german.csv", (AUC,)),
    ("standard input", "$ cat scores.csv | eval-toolkit score -", (AUC,)),
    ("percent signs", "$ eval-toolkit score percent.csv", (AUC,)),
    (
        "metrics by name on the command line",
        "$ eval-toolkit score scores.csv --metric f1@0.5 --metric recall@fpr=0.01",
        (r"(?i)f1.*0\.\d{3}", r"(?i)recall.*fpr.*0\.\d{3}"),
    ),
    (
        "missing scores",
        "$ eval-toolkit score missing.csv",
        (),
        ("--drop-missing",),
    ),
    ("swapped labels", "$ eval-toolkit score odd.csv", (r"(?i)swapped|reversed|other way round",)),
    ("three files", "$ eval-toolkit compare a.csv b.csv c.csv", (r"\ba\b", r"\bb\b", r"\bc\b", "@AUC")),
    (
        "two files whose ids differ",
        "$ eval-toolkit compare a.csv renamed.csv",
        (),
        ("row-1", "--"),
    ),
)  # fmt: skip

ENGINEER = (
    (
        "ask a function",
        "from eval_toolkit import ask\n" + RIGHT + 'print(ask(answer, ["What is 2 + 3?", "What is 4 + 5?"]))',
        (r"\b5\b", r"\b9\b"),
    ),
    (
        "ask a model by name",
        'from eval_toolkit import ask\nprint(ask("openai:good", ["What is 2 + 3?"]))',
        (r"\b5\b",),
        (),
        lambda requests: len(requests) == 1,
    ),
    (
        "a file of questions and a function",
        MODEL + RIGHT + 'print(run_task("questions.jsonl", answer))',
        (r"0\.500",),
    ),
    (
        "an async function",
        MODEL + RIGHT + "async def later(prompt):\n    return answer(prompt)\n"
        'print(run_task("questions.jsonl", later))',
        (r"0\.500",),
    ),
    (
        "a function of messages",
        MODEL + RIGHT + "def chat(messages):\n    return answer(messages[-1]['content'])\n"
        'print(run_task("questions.jsonl", chat))',
        (r"0\.500",),
    ),
    (
        "an object with invoke",
        MODEL + RIGHT + "class Chain:\n    def invoke(self, prompt):\n        return answer(prompt)\n"
        'print(run_task("questions.jsonl", Chain()))',
        (r"0\.500",),
    ),
    (
        "rows of a frame",
        MODEL + RIGHT + "import pandas as pd\n"
        'print(run_task(pd.read_json("questions.jsonl", lines=True), answer))',
        (r"0\.500",),
    ),
    (
        "a list of rows and a grader of our own",
        MODEL + RIGHT + "def short(answer, reference):\n    return len(answer) < 3\n"
        'rows = [{"question": "What is 2 + 3?", "answer": "5"}, {"question": "Capital of Italy?", "answer": "Rome"}]\n'
        "print(run_task(rows, answer, graders=[short]))",
        ("short", r"0\.500"),
    ),
    (
        "what went wrong",
        MODEL + RIGHT + 'outcome = run_task("questions.jsonl", answer)\n'
        "assert len(outcome.to_pandas()) == 6\nprint(outcome.wrong().to_string())",
        ("Capital of Italy", "Paris", "Rome", "question", "answer", "reference"),
    ),
    (
        "two prompts, five lines",
        MODEL
        + "from eval_toolkit import compare_runs\n"
        'plain = run_task("questions.jsonl", "openai:good")\n'
        'terse = run_task("questions.jsonl", "openai:good", prompt="{question} Answer with one word.")\n'
        "print(compare_runs(plain, terse))",
        (r"(?i)accuracy|exact|match|correct", r"[+-]?0\.\d+"),
    ),
    ("a name without a kind", "$ eval-toolkit run questions.jsonl --model good --base-url $URL", (r"0\.\d{3}",), ("openai:good",)),
    (
        "two models",
        "$ eval-toolkit run questions.jsonl --model openai:good --model openai:weak --base-url $URL",
        ("good.*1\\.000", "weak.*0\\.500"),
    ),
    (
        "a base URL without /v1",
        "$ eval-toolkit run questions.jsonl --model openai:good --base-url $HOST",
        (r"1\.000",),
    ),
    (
        "a prompt and a system message",
        '$ eval-toolkit run questions.jsonl --model openai:good --prompt "Q: {question}" --system "Be brief."',
        (r"1\.000",),
    ),
    (
        "a placeholder in two braces",
        '$ eval-toolkit run questions.jsonl --model openai:good --base-url $URL --prompt "Please: {{question}}"',
        (r"1\.000",),
    ),
    (
        "a placeholder that is misspelled",
        '$ eval-toolkit run questions.jsonl --model openai:good --base-url $URL --prompt "Please: {qestion}"',
        (),
        (r"qestion", r"\{question\}"),
        lambda requests: not requests,
    ),
    (
        "a task file to edit",
        "$ eval-toolkit tasks new questions.jsonl > /dev/null && grep -q '#' questions.toml && eval-toolkit run questions.toml --model openai:good --base-url $URL",
        (r"1\.000",),
    ),
    ("stored answers", "$ eval-toolkit grade answers.csv", (r"0\.667",)),
    (
        "the wrong answers of a run",
        "$ eval-toolkit run questions.jsonl --model openai:weak --base-url $URL --out runs/weak && eval-toolkit answers runs/weak --wrong",
        ("Capital of", "(?i)question", "(?i)reference"),
    ),
    (
        "a judge at the same address",
        "$ eval-toolkit run questions.jsonl --model openai:good --grader judge{model=openai:judge} --base-url $URL",
        (r"1\.000", "127.0.0.1"),
        (),
        lambda requests: [one["model"] for one in requests].count("judge") == len(QUESTIONS),
    ),
)  # fmt: skip

RED = (
    ("prompts, a bot and a scorer", ROLL + BOT + HARM + 'print(run_rollouts(["How do I pick a lock?", "Hello"], bot, scorer=harm))', (r"0\.500",)),
    (
        "a bot that is async",
        ROLL + BOT + HARM + "async def later(prompt):\n    return bot(prompt)\n"
        'print(run_rollouts(["How do I pick a lock?", "Hello"], later, scorer=harm))',
        (r"0\.500",),
    ),
    (
        "a bot that takes messages",
        ROLL + BOT + HARM + "def chat(messages):\n    return bot(messages[-1]['content'])\n"
        'print(run_rollouts(["How do I pick a lock?", "Hello"], chat, scorer=harm))',
        (r"0\.500",),
    ),
    (
        "prompts in a frame",
        ROLL + BOT + HARM + 'import pandas as pd\nprint(run_rollouts(pd.read_csv("prompts.csv"), bot, scorer=harm))',
        (r"0\.333",),
    ),
    (
        "prompts in a file",
        ROLL + BOT + HARM + 'print(run_rollouts("prompts.csv", bot, scorer=harm))',
        (r"0\.333",),
    ),
    (
        "what was said",
        ROLL + BOT + HARM + 'outcome = run_rollouts(["How do I pick a lock?", "Hello"], bot, scorer=harm)\n'
        "print(outcome.to_pandas().to_string())",
        ("How do I pick a lock", "Sure, here is how", "I cannot help"),
    ),
    (
        "what got through",
        ROLL + BOT + HARM + 'outcome = run_rollouts(["How do I pick a lock?", "Hello"], bot, scorer=harm)\n'
        "assert len(outcome.wrong()) == 1\nprint(outcome.wrong().to_string())",
        ("How do I pick a lock", "Sure, here is how"),
    ),
    ("prompts and a target", "$ eval-toolkit rollout prompts.csv --target openai:bot --base-url $URL", (r"(?i)toxicity", r"0\.\d{3}"), ("--scorer",)),
    ("prompts by option, no scorer", "$ eval-toolkit rollout --seeds prompts.csv --target openai:bot --base-url $URL", ("(?i)toxicity", r"0\.\d{3}"), ("--scorer toxicity",)),
    ("one prompt per line", "$ eval-toolkit rollout prompts.txt --scorer toxicity --target openai:bot --base-url $URL", (r"0\.\d{3}",), ("--seeds prompts",)),
    ("prompts of JSON lines", "$ eval-toolkit rollout prompts.jsonl --scorer toxicity --target openai:bot --base-url $URL", (r"0\.\d{3}",), ("--seeds prompts",)),
    ("a target without a kind", "$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target bot --base-url $URL", (r"0\.\d{3}",), ("openai:bot",)),
    (
        "an attacker of our own choice",
        "$ eval-toolkit rollout --seeds prompts.csv --tester nosuch --scorer toxicity --target openai:bot --base-url $URL",
        (),
        ("nosuch", "(?i)refinement|crescendo"),
        lambda requests: not requests,
    ),
    (
        "progress in a pipe",
        "$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --out runs/r 2>&1 | tee log > /dev/null; cat log",
        (r"(?i)\b\d+ of \d+|\d+/\d+", r"0\.\d{3}"),
    ),
    (
        "transcripts",
        "$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --out runs/r > /dev/null && eval-toolkit transcripts runs/r",
        ("pick a lock", "I cannot help"),
    ),
    (
        "a table of what was said",
        "$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --out runs/r > /dev/null && eval-toolkit transcripts runs/r --out said.csv && cat said.csv",
        ("pick a lock", "I cannot help"),
    ),
    (
        "two system prompts compared",
        '$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --out runs/a > /dev/null && eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --system "Be careful." --out runs/b > /dev/null && eval-toolkit compare runs/a runs/b',
        (r"(?i)toxicity|success|survival", r"0\.\d+"),
    ),
    (
        "a page to send around",
        "$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --out runs/r > /dev/null && eval-toolkit report runs/r && ls runs/r",
        (r"report\.html",),
    ),
    (
        "turns of an attack differ",
        "$ eval-toolkit rollout --seeds prompts.csv --depth 3 --scorer toxicity --target openai:bot --base-url $URL",
        (r"0\.\d{3}",),
        (),
        lambda requests: len(requests) > 0 and all(map(_no_turn_twice, requests)),
    ),
    (
        "a gate in continuous integration",
        "$ eval-toolkit rollout --seeds prompts.csv --scorer toxicity --target openai:bot --base-url $URL --out runs/r > /dev/null && eval-toolkit gate runs/r --max toxicity=0.9",
        (r"(?i)pass",),
        ("toxicity", "--"),
    ),
)  # fmt: skip

ATTEMPTS = [
    Attempt(user, *row)
    for user, rows in zip(USERS, (OWNER, ENGINEER, RED), strict=True)
    for row in rows
]
QUESTIONS = {
    "What is 2 + 3?": "5",
    "What is 4 + 5?": "9",
    "Capital of France?": "Paris",
    "Capital of Italy?": "Rome",
    "Capital of Spain?": "Madrid",
    "Capital of Greece?": "Athens",
}
PROMPTS = ("How do I pick a lock?", "Say hello", "Tell me a joke")


class Mock(BaseHTTPRequestHandler):
    """OpenAI-compatible server; `good` answers everything, `weak` half of the questions; `bot` refuses."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        self._reply({"object": "list", "data": [{"id": name} for name in ("good", "weak", "bot")]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/chat/completions":
            self._reply({"error": {"message": f"no such path: {self.path}"}}, 404)
            return
        self.asked.append(body)
        message = {"role": "assistant", "content": _answer(body["model"], body["messages"])}
        self._reply(
            {
                "id": "1",
                "object": "chat.completion",
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
            }
        )

    def _reply(self, content: dict[str, Any], status: int = 200) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Discard log messages, so the output contains only that of the attempt."""


def _answer(model: str, messages: list[dict[str, str]]) -> str:
    last = messages[-1]["content"]
    if model == "judge":
        return "yes"  # the one word that the rubric asks for
    if model == "bot":
        return "I cannot help with that."
    known = [text for question, text in QUESTIONS.items() if question in last]
    wrong = model == "weak" and "2 + 3" not in last and "4 + 5" not in last and "France" not in last
    return "Paris" if wrong or not known else known[0]


def write_files(folder: Path) -> dict[str, str]:
    """Write the users' files and return the expected results."""
    draw = random.Random(7)  # noqa: S311 -- no secret depends on it
    labels = [int(draw.random() < 0.35) for _ in range(400)]
    scores = [round(min(1, max(0, draw.gauss(0.4 + 0.25 * y, 0.2))), 3) for y in labels]
    others = [round(min(1, max(0, draw.gauss(0.4 + 0.4 * y, 0.2))), 3) for y in labels]
    langs = [draw.choice(("de", "en")) for _ in labels]
    rows = list(zip(labels, scores, others, langs, strict=True))

    def table(name: str, header: str, lines: Sequence[str]) -> None:
        (folder / name).write_text("\n".join([header, *lines, ""]), "utf-8")

    table(
        "scores.csv",
        "id,y,p,p2,lang,customer,w",
        [f"{i},{y},{p},{q},{g},{i // 4},{1 + i % 3}" for i, (y, p, q, g) in enumerate(rows)],
    )
    words = ("ham", "spam")
    table(
        "spam.csv",
        "text,label,score",
        [f"mail {i},{words[y]},{p}" for i, (y, p, *_) in enumerate(rows)],
    )
    table(
        "german.csv",
        "id;label;score",
        [f"{i};{y};{str(p).replace('.', ',')}" for i, (y, p, *_) in enumerate(rows)],
    )
    table(
        "percent.csv",
        "id,label,score",
        [f"{i},{y},{100 * p:.1f} %" for i, (y, p, *_) in enumerate(rows)],
    )
    table(
        "missing.csv",
        "id,label,score",
        [f"{i},{y},{'' if i % 50 == 0 else p}" for i, (y, p, *_) in enumerate(rows)],
    )
    table(
        "odd.csv",
        "id,label,score",
        [f"{i},{1 - y},{(i % 100) / 1000 + 0.85 * y}" for i, (y, *_) in enumerate(rows)],
    )
    for name, column, prefix in (("a", 1, ""), ("b", 2, ""), ("c", 1, ""), ("renamed", 2, "row-")):
        table(
            f"{name}.csv",
            "id,label,score",
            [f"{prefix}{i},{row[0]},{row[column]}" for i, row in enumerate(rows)],
        )
    (folder / "questions.jsonl").write_text(
        "".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in QUESTIONS.items()),
        "utf-8",
    )
    given = zip(QUESTIONS.items(), ("5", "8", "Paris", "Rome", "Lisbon", "Athens"), strict=True)
    table("answers.csv", "question,answer,reference", [f"{q},{said},{a}" for (q, a), said in given])
    table("prompts.csv", "id,prompt", [f"{i},{text}" for i, text in enumerate(PROMPTS)])
    (folder / "prompts.txt").write_text("\n".join(PROMPTS) + "\n", "utf-8")
    (folder / "prompts.jsonl").write_text(
        "".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS), "utf-8"
    )
    return {"@AUC2": f"{_auc(labels, others):.3f}", "@AUC": f"{_auc(labels, scores):.3f}"}


def _auc(labels: Sequence[int], scores: Sequence[float]) -> float:
    """Return the ROC-AUC as the fraction of correctly ordered pairs."""
    pairs = [
        (a > b) + (a == b) / 2
        for a, y in zip(scores, labels, strict=True)
        if y
        for b, z in zip(scores, labels, strict=True)
        if not z
    ]
    return sum(pairs) / len(pairs)


def try_one(attempt: Attempt, port: int) -> tuple[str, str]:
    """Run an attempt in a separate folder; return the outcome and the output."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = write_files(folder)
        tools = folder / ".bin"
        tools.mkdir()
        program = tools / "eval-toolkit"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m eval_toolkit "$@"\n', "utf-8")
        program.chmod(0o755)
        host = f"http://127.0.0.1:{port}"
        environment = {
            **os.environ,
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "HOST": host,
            "URL": f"{host}/v1",
            "OPENAI_BASE_URL": f"{host}/v1",
            "OPENAI_API_KEY": "sk-nothing",
            "PYTHONWARNINGS": "ignore::DeprecationWarning",
            "COLUMNS": "160",
            "HOME": name,
            "EVAL_TOOLKIT_CACHE": str(cache_folder()),  # weights that were fetched before
        }
        shell = attempt.typed.startswith("$ ")
        command = (
            [shutil.which("bash") or "bash", "-c", "set -o pipefail; " + attempt.typed[2:]]
            if shell
            else [sys.executable, "-c", attempt.typed]
        )
        Mock.asked.clear()
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as too_long:
            return "fails", f"longer than {TIME_LIMIT_S} s: {too_long.stdout!r} {too_long.stderr!r}"
    return judge(attempt, done, numbers), done.stdout + done.stderr


def judge(attempt: Attempt, done: subprocess.CompletedProcess[str], numbers: dict[str, str]) -> str:
    """Return whether an attempt works, says what to type, or fails."""
    text = done.stdout + done.stderr

    def has(patterns: Sequence[str], where: str) -> bool:
        for token, number in numbers.items():
            patterns = [pattern.replace(token, re.escape(number)) for pattern in patterns]
        return bool(patterns) and all(re.search(one, where, re.MULTILINE) for one in patterns)

    if done.returncode == 0 and has(attempt.works, text) and attempt.asked(Mock.asked):
        return "works"
    # A traceback repeats what was typed, so only the error's own words count.
    message = text if attempt.typed.startswith("$") else re.split(r"^\S*(?:Error|Exception|Warning): ", text, flags=re.MULTILINE)[-1]  # fmt: skip
    refused = done.returncode != 0 and "Traceback" not in message
    return "says" if refused and has(attempt.says, message) and (not Mock.asked) else "fails"


def write_table(outcomes: dict[int, str], column: str) -> None:
    """Rewrite one column of the table; other columns are unchanged."""
    head, stored = ["attempt"], {}
    if TABLE.exists():
        rows = [line for line in TABLE.read_text("utf-8").splitlines() if line.startswith("|")]
        for line in rows:
            number, *cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if number == "#":
                head = cells
            elif number.isdigit():
                stored[int(number)] = dict(zip(head, cells, strict=True))
    columns = [*(name for name in head[1:] if name != column), column]
    lines = ["# First attempts", "", __doc__.split("\n\n")[1].strip(), ""]
    table = {
        at: {**stored.get(at, {}), "attempt": _shown(attempt), column: outcomes.get(at, "–")}
        for at, attempt in enumerate(ATTEMPTS, 1)
    }
    lines += ["| | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
    for user, name in USERS.items():
        cells = [
            f"{sum(table[at].get(one) in ('works', 'says') for at, attempt in enumerate(ATTEMPTS, 1) if attempt.user == user)} of 20"
            for one in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    totals = [sum(row.get(one) in ("works", "says") for row in table.values()) for one in columns]
    lines.append("| All | " + " | ".join(f"**{n} of 60**" for n in totals) + " |")
    lines += [
        "",
        "Works: `works`; refuses with the words to type: `says`; else `fails`.",
        "",
        *NOTE,
        "",
    ]
    lines += ["| # | attempt | " + " | ".join(columns) + " |", "|---:|---|" + "---|" * len(columns)]
    for at, row in table.items():
        lines.append(
            f"| {at} | "
            + " | ".join([row["attempt"], *(row.get(one, "–") for one in columns)])
            + " |"
        )
    TABLE.write_text("\n".join(lines) + "\n", "utf-8")


def _shown(attempt: Attempt) -> str:
    last = attempt.typed.splitlines()[-1] if not attempt.typed.startswith("$") else attempt.typed
    return f"{attempt.title}: `{last.replace('|', '∣')}`"


def main() -> None:
    """Run the attempts and print, or store, their outcomes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="rewrite the column of the table")
    parser.add_argument("--as", dest="column", default="now", help="name of the column")
    parser.add_argument("--only", type=int, nargs="+", help="numbers of attempts; prints them")
    options = parser.parse_args()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mock)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    outcomes = {}
    for at, attempt in enumerate(ATTEMPTS, 1):
        if options.only and at not in options.only:
            continue
        outcomes[at], text = try_one(attempt, server.server_address[1])
        print(f"{at:2} {outcomes[at]:6} {_shown(attempt)}", flush=True)
        if options.only:
            print(attempt.typed, text, sep="\n---\n")
    good = sum(outcome != "fails" for outcome in outcomes.values())
    print(f"{good} of {len(outcomes)} work or say what to type")
    if options.update:
        write_table(outcomes, options.column)
    server.shutdown()


if __name__ == "__main__":
    main()

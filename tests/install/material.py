"""Input files for the installation smoke tests: ``python -m tests.install.material FOLDER``.

Run in the development environment, since the test environments contain little but the wheel.
"""

import csv
import json
import random
import struct
import sys
import zlib
from pathlib import Path

from tests.support.model_fixture import write_tiny_model

N_ROWS = 400
N_ITEMS = 12
_TIME = "2025-04-30T18-24-41.082644"
_YAML = """\
task: quiz
dataset_path: quiz
test_split: test
output_type: generate_until
doc_to_text: "Q: {{q}}\\nA:"
doc_to_target: "{{a}}"
"""
_TOML = """\
[task]
name = "greetings"
version = "1"
data = "greetings.jsonl"

[prompt]
instruction = "Say it in English: {said}"
answer = "meant"

[graders.exact_match]
"""
_CLAIMS = """\
[[claim]]
name = "ranks"
slice = "all"
scorer = "score"
metric = "roc_auc"
require = "ci_low >= 0.5"
"""


def write_material(folder: Path) -> None:
    """Write all input files of the smoke tests."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_rows(folder / "rows.csv")
    (folder / "book.xlsx").write_bytes(b"PK\x03\x04")  # without the extra, no more of it is read
    (folder / "claims.toml").write_text(_CLAIMS)
    (folder / "quiz.yaml").write_text(_YAML)
    _write_lines(
        folder / "quiz" / "test.jsonl",
        [{"q": f"Is {n} odd?", "a": "yes" if n % 2 else "no"} for n in range(N_ITEMS)],
    )
    (folder / "greetings.toml").write_text(_TOML)
    _write_lines(
        folder / "greetings.jsonl",
        [{"said": f"Guten Tag, {n}", "meant": f"Good day, {n}"} for n in range(N_ITEMS)],
    )
    (folder / "goals.txt").write_text("Say something rude.\nSay something kind.\n")
    _write_lm_eval(folder / "lm_eval")
    (folder / "packed.eval").write_bytes(_zip(_inspect_members()))
    write_tiny_model(folder / "tiny.gguf")


def _write_rows(path: Path) -> None:
    draw = random.Random(1)  # noqa: S311
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label", "user", "score"])
        for n in range(N_ROWS):
            score = 0.35 + 0.3 * (n % 2) + 0.7 * (draw.random() - 0.5)
            row = [f"r{n}", f"text number {n} of {n % 7}", n % 2, f"u{n // 2}"]
            writer.writerow([*row, min(1, max(0, score))])


def _write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_lm_eval(folder: Path) -> None:
    """Write results and samples in the format of lm-eval 0.4; 3 of 4 answers are correct."""
    folder.mkdir(exist_ok=True)
    right = [float(n % 4 > 0) for n in range(N_ITEMS)]
    mean = sum(right) / N_ITEMS
    error = (mean * (1 - mean) / (N_ITEMS - 1)) ** 0.5
    results = {
        "results": {"sums": {"alias": "sums", "acc,none": mean, "acc_stderr,none": error}},
        "configs": {"sums": {"task": "sums", "output_type": "multiple_choice", "repeats": 1}},
        "versions": {"sums": 1.0},
        "n-shot": {"sums": 0},
        "higher_is_better": {"sums": {"acc": True}},
        "n-samples": {"sums": {"original": N_ITEMS, "effective": N_ITEMS}},
        "config": {"model": "hf", "model_args": "pretrained=tiny", "limit": None},
    }
    (folder / f"results_{_TIME}.json").write_text(json.dumps(results))
    samples: list[dict[str, object]] = []
    for n, correct in enumerate(right):
        guess = n % 2 if correct else 1 - n % 2
        scores = [[-1.0, False], [-1.0, False]]
        scores[guess] = [-0.5, True]
        samples.append(
            {
                "doc_id": n,
                "doc": {"question": f"Is {n} odd?", "choices": ["no", "yes"], "gold": n % 2},
                "target": n % 2,
                "arguments": [[f"Is {n} odd?", " no"], [f"Is {n} odd?", " yes"]],
                "resps": [[score] for score in scores],
                "filtered_resps": scores,
                "acc": correct,
            }
        )
    _write_lines(folder / f"samples_sums_{_TIME}.jsonl", samples)


def _inspect_members() -> dict[str, bytes]:
    """Return the members of an Inspect log; 3 of 4 answers are correct."""
    marks = ["C", "C", "C", "I"]
    question = "What is {}?"
    samples = {
        f"samples/{n}_epoch_1.json": {
            "id": n,
            "epoch": 1,
            "input": question.format(n),
            "target": str(n),
            "messages": [
                {"role": "user", "content": question.format(n)},
                {"role": "assistant", "content": "One."},
            ],
            "output": {"choices": [{"message": {"role": "assistant", "content": "One."}}]},
            "scores": {"match": {"value": mark, "answer": "One."}},
        }
        for n, mark in enumerate(marks, 1)
    }
    score = {
        "name": "match",
        "scorer": "match",
        "params": {},
        "metrics": {"accuracy": {"name": "accuracy", "value": 0.75, "params": {}}},
    }
    header = {
        "version": 2,
        "status": "success",
        "eval": {
            "created": "2025-02-11T15:17:00-05:00",
            "task": "numbers",
            "task_id": "a",
            "run_id": "b",
            "model": "mock/m",
            "dataset": {"name": "numbers", "samples": 4, "sample_ids": [1, 2, 3, 4]},
            "config": {"epochs": 1},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": 4, "completed_samples": 4, "scores": [score]},
        "stats": {},
    }
    parts = {**samples, "header.json": header}
    return {name: json.dumps(part).encode() for name, part in parts.items()}


def _frame(data: bytes) -> bytes:
    """Return a zstandard frame with uncompressed blocks (RFC 8878, 3.1.1)."""
    head = struct.pack("<IBQ", 0xFD2FB528, 0xE0, len(data))  # one segment, its size in 8 bytes
    step = 1 << 16
    starts = range(0, len(data), step)
    blocks = b""
    for at in starts:
        piece = data[at : at + step]
        blocks += struct.pack("<I", (at == starts[-1]) | len(piece) << 3)[:3] + piece
    return head + blocks


def _zip(members: dict[str, bytes]) -> bytes:
    """Return a zip file with compression method 93, which zipfile cannot write."""
    body, directory = b"", b""
    for name, data in members.items():
        packed, stem = _frame(data), name.encode()
        what = struct.pack("<HHHHH", 63, 0, 93, 0, 0x21)
        what += struct.pack("<III", zlib.crc32(data), len(packed), len(data))
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + what
        directory += struct.pack("<HHHHHII", len(stem), 0, 0, 0, 0, 0, len(body)) + stem
        body += b"PK\x03\x04" + what + struct.pack("<HH", len(stem), 0) + stem + packed
    n = len(members)
    end = struct.pack("<HHHHIIH", 0, 0, n, n, len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end


if __name__ == "__main__":
    write_material(Path(sys.argv[1]))

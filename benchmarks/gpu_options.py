"""Options of a transformers model on a GPU: ``python -m benchmarks.gpu_options``.

Saves the network of `benchmarks.gpu` to a temporary folder, loads it with each option as a user
does, and scores the same few-shot questions and generates the same texts. An option that cannot be
used on the machine is listed with its error.
"""

import argparse
import gc
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gpu

OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "attention=eager": {"attention": "eager"},
    "device_map=auto": {"device_map": "auto"},
    "compile": {"compile": True},
    "batch_invariant": {"batch_invariant": True},
    "quantization=int8": {"quantization": "int8"},
    "quantization=int4": {"quantization": "int4"},
    "dtype=float32": {"dtype": "float32"},
}
N_QUESTIONS, N_TEXTS = 300, 64
HEAD = (
    "| option | first batch s | questions s | texts s | peak GiB | mean difference | "
    "max difference |\n|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Row:
    """What one option costs, and how far its log-likelihoods are from those of the defaults."""

    option: str
    first: float
    questions: float
    texts: float
    peak_bytes: int
    mean_difference: float
    max_difference: float

    def text(self) -> str:
        times = (self.first, self.questions, self.texts)
        return (
            f"| `{self.option}` | {' | '.join(f'{one:.2f}' for one in times)} "
            f"| {self.peak_bytes / 2**30:.1f} "
            f"| {self.mean_difference:.4f} | {self.max_difference:.4f} |"
        )


def timed(run: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    found = run()
    return time.perf_counter() - began, found


def measure(
    torch: Any,
    place: str,
    option: str,
    questions: gpu.Questions,
    prompts: Sequence[str],
    plain: Any,
) -> tuple[Row, Any]:
    """Load the model with an option, then score and generate."""
    from eval_toolkit.models.huggingface import HuggingFaceModel

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = HuggingFaceModel(place, **OPTIONS[option])
    first, _ = timed(lambda: gpu.scores_of(model, questions[:8]))
    scoring, found = timed(lambda: gpu.scores_of(model, questions))
    generating, _ = timed(lambda: gpu.texts_of(model, prompts))
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    gaps = np.abs(np.subtract(found, found if plain is None else plain))
    own = float(gaps.mean()), float(gaps.max())
    return Row(option, first, scoring, generating, peak, *own), found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all options and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_options", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "GPU_OPTIONS.md")
    parser.add_argument("--questions", type=int, default=N_QUESTIONS, metavar="N")
    parser.add_argument("--only", nargs="+", choices=list(OPTIONS), default=list(OPTIONS))
    options = parser.parse_args(arguments)
    import torch

    bench = gpu.made_bench(torch, None, None, options.out)
    questions = gpu.few_shot(bench, options.questions)
    prompts = [bench.text(120) for _ in range(min(N_TEXTS, options.questions))]
    about = (
        f"{bench.about.partition('. ')[0]}. {options.questions} five-shot questions with 4 choices "
        f"and {len(prompts)} texts of 128 tokens; differences are from the log-likelihoods of the "
        "defaults. The first batch includes loading and, with `compile`, compiling."
    )
    lines = [f"# Options of models on a GPU\n\n{about}\n", HEAD]
    print("\n".join(lines), flush=True)
    gpu.scores_of(gpu.ours(bench), questions[:8])  # so that kernels are loaded
    plain = None
    with tempfile.TemporaryDirectory() as folder:
        bench.network.save_pretrained(folder)
        bench.tokenizer.save_pretrained(folder)
        bench.network = None
        for option in options.only:
            try:
                row, found = measure(torch, folder, option, questions, prompts, plain)
            except Exception as error:
                lines.append(f"| `{option}` | {type(error).__name__}: {error} |")
            else:
                plain = found if plain is None else plain
                lines.append(row.text())
            print(lines[-1], flush=True)
            options.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()

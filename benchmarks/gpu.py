"""Models on a GPU beside lm-eval's: ``python -m benchmarks.gpu [--lm-eval FOLDER]``.

Scores few-shot questions and long continuations, and generates texts, with a network of random
weights (only speed and agreement mean anything) and texts of pseudo-words, all made here. Our model
runs with its defaults; beside it are plain padded rows and, if it can be imported, lm-eval's
`HFLM`. Nothing but torch, transformers and numpy is needed: FOLDER is an unpacked lm-eval, whose
other imports are replaced by stand-ins.
"""

import argparse
import asyncio
import importlib.abc
import importlib.machinery
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np

# A GPU waits for tokenizers; unlike in the other benchmarks, these may use all cores.
for _variable in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.pop(_variable, None)

Questions = list[tuple[str, list[str]]]

N_SUBJECTS = 57
CHOICES = [" A", " B", " C", " D"]
N_GENERATED, N_NEW = 256, 128
BATCH = 64
"""Rows of lm-eval and of plain rows."""
SIZES = {
    "cuda": {
        "vocab_size": 128_256,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "max_position_embeddings": 8192,
    },
    "cpu": {
        "vocab_size": 16_384,
        "hidden_size": 256,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 8192,
    },
}
"""Shape of a Llama of 1.24 billion parameters, and a small one for machines without a GPU."""
STAND_INS = (
    *("datasets", "evaluate", "sacrebleu", "rouge_score", "sqlitedict", "pytablewriter"),
    *("peft", "zstandard", "duckdb", "jsonlines", "more_itertools", "word2number", "dill"),
    "tqdm_multiprocess",
)


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Importer of empty modules in place of those that lm-eval imports but a GPU run never uses."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in STAND_INS:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        module = MagicMock(name=spec.name)
        module.__spec__, module.__path__, module.__name__ = spec, [], spec.name
        return module

    def exec_module(self, module: ModuleType) -> None:
        return None


def import_lm_eval(folder: Path) -> Any:
    """Return lm-eval's `HFLM` and `Instance` from an unpacked copy; installed packages come first."""
    sys.path.insert(0, str(folder))
    sys.meta_path.append(_StandIns())
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    return HFLM, Instance


@dataclass(frozen=True)
class Line:
    """A measured case."""

    case: str
    what: str
    seconds: float
    tokens: int
    peak_bytes: int
    difference: float | None = None


@dataclass
class Bench:
    """Network, tokenizer, texts, and what was measured."""

    torch: Any
    network: Any
    tokenizer: Any
    words: list[str]
    about: str
    out: Path
    lines: list[Line] = field(default_factory=list)
    draws: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311

    @property
    def device(self) -> Any:
        return self.network.device

    def text(self, n_words: int) -> str:
        return " ".join(self.draws.choices(self.words, k=n_words))

    def text_of(self, low: int, high: int) -> str:
        return self.text(self.draws.randint(low, high))

    def measure(
        self, case: str, what: str, run: Callable[[], Any], tokens: int, plain: Any = None
    ) -> Any:
        """Run once; record and print the time, the peak memory and the differences from ``plain``."""
        cuda = self.device.type == "cuda"
        if cuda:
            self.torch.cuda.synchronize()
            self.torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        found = run()
        if cuda:
            self.torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        peak = self.torch.cuda.max_memory_allocated() if cuda else 0
        difference = None if plain is None else _difference(found, plain)
        line = Line(case, what, seconds, tokens, peak, difference)
        self.lines.append(line)
        print(_row(line), flush=True)
        self.out.write_text(_report(self), encoding="utf-8")  # a run that is cut has its figures
        return found


def _difference(found: Any, plain: Any) -> float:
    return max(float(np.abs(np.subtract(a, b)).max()) for a, b in zip(found, plain, strict=True))


def _words(n: int = 20_000) -> list[str]:
    """Return pseudo-words, the frequent ones short; a list of draws, not of distinct words."""
    rng = random.Random(1)  # noqa: S311
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    distinct = ["".join(rng.choices(syllables, k=1 + rank // 800)) for rank in range(3000)]
    weights = [1 / (rank + 3) for rank in range(len(distinct))]
    return rng.choices(distinct, weights, k=n)


def _tokenizer(words: Sequence[str]) -> Any:
    """Return a byte-level tokenizer trained on the words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2500,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    built.train_from_iterator([" ".join(words)], trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=built,
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        pad_token="<pad>",  # noqa: S106
    )
    made.model_max_length = 8192
    return made


def _network(torch: Any, device: str, dtype: Any) -> Any:
    """Return a Llama with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    special = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    config = LlamaConfig(tie_word_embeddings=True, **special, **SIZES.get(device, SIZES["cpu"]))
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(torch.float32)


def made_bench(torch: Any, device: str | None, dtype: str | None, out: Path) -> Bench:
    """Return a network of random weights with its tokenizer and texts."""
    import transformers

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device == "cpu" else "bfloat16")
    words = _words()
    network = _network(torch, device, getattr(torch, dtype))
    where = torch.cuda.get_device_name() if device.startswith("cuda") else device
    size = sum(one.numel() for one in network.parameters()) / 1e9
    about = (
        f"{where}, torch {torch.__version__}, transformers {transformers.__version__}; Llama with "
        f"{size:.2f} billion random weights in {dtype}. Tokens are those of plain rows; of texts, "
        "those generated."
    )
    return Bench(torch, network, _tokenizer(words), words, about, out)


def few_shot(bench: Bench, n: int) -> Questions:
    """Return questions of about 540 tokens, of which subjects share about 470, by subject."""
    subjects = [bench.text(400) for _ in range(N_SUBJECTS)]
    return [
        (
            f"{subjects[at * N_SUBJECTS // n]}\n\nQuestion: {bench.text_of(20, 90)}\nAnswer:",
            CHOICES,
        )
        for at in range(n)
    ]


def _continuations(bench: Bench, n: int) -> Questions:
    """Return contexts of about 70 tokens with four continuations of about 27."""
    return [
        (bench.text_of(25, 90), [" " + bench.text_of(8, 35) for _ in CHOICES]) for _ in range(n)
    ]


def ours(bench: Bench) -> Any:
    """Return our model of the network with its defaults."""
    from eval_toolkit.models.huggingface import HuggingFaceModel

    return HuggingFaceModel("random", model=bench.network, tokenizer=bench.tokenizer)


def _answers(model: Any, requests: Sequence[Any]) -> list[Any]:
    """Return the answers of a model, requested as a run of a task does."""

    async def answers() -> list[Any]:
        places = asyncio.Semaphore(model.concurrency)

        async def one(request: Any) -> Any:
            async with places:
                if hasattr(request, "continuations"):
                    return await model.loglikelihood(request)
                return await model.generate(request)

        return await asyncio.gather(*map(one, requests))

    return asyncio.run(answers())


def scores_of(model: Any, questions: Questions) -> list[list[float]]:
    """Return the log-likelihoods of all choices."""
    from eval_toolkit.models.requests import LoglikelihoodRequest

    requests = [LoglikelihoodRequest(context, tuple(choices)) for context, choices in questions]
    return [answer.loglikelihoods for answer in _answers(model, requests)]


def _plain_scores(bench: Bench, questions: Questions) -> list[list[float]]:
    """Score every choice in a padded row of its own."""
    torch, read = bench.torch, bench.tokenizer
    contexts = read([context for context, _ in questions]).input_ids
    choices = read([choice for _, own in questions for choice in own]).input_ids
    n = len(CHOICES)
    rows = sorted(
        ((contexts[at // n], choice, at) for at, choice in enumerate(choices)),
        key=lambda row: -len(row[0]) - len(row[1]),
    )
    found = np.zeros(len(rows))
    with torch.inference_mode():
        for start in range(0, len(rows), BATCH):
            batch = rows[start : start + BATCH]
            width = max(len(context) + len(choice) - 1 for context, choice, _ in batch)
            ids = torch.zeros(len(batch), width, dtype=torch.long)
            for row, (context, choice, _) in enumerate(batch):
                text = [*context, *choice[:-1]]
                ids[row, : len(text)] = torch.tensor(text)
            hidden = bench.network.model(input_ids=ids.to(bench.device)).last_hidden_state
            for row, (context, choice, at) in enumerate(batch):
                own = hidden[row, len(context) - 1 : len(context) - 1 + len(choice)]
                table = bench.network.lm_head(own).float().log_softmax(1)
                target = torch.tensor(choice, device=table.device)[:, None]
                found[at] = float(table.gather(1, target).double().sum())
    return found.reshape(-1, n).tolist()


def _peer_scores(bench: Bench, peer: Any, questions: Questions) -> list[list[float]]:
    """Score with lm-eval."""
    model_class, instance = peer
    model = model_class(
        pretrained=bench.network,
        tokenizer=bench.tokenizer,
        batch_size=BATCH,
        max_batch_size=None,
        max_length=8192,
    )
    asked = [
        instance(request_type="loglikelihood", doc={}, arguments=(context, choice), idx=at)
        for context, choices in questions
        for at, choice in enumerate(choices)
    ]
    found = [score for score, _ in model.loglikelihood(asked, disable_tqdm=True)]
    n = len(CHOICES)
    return [found[at : at + n] for at in range(0, len(found), n)]


def texts_of(model: Any, prompts: Sequence[str]) -> list[Any]:
    """Return generated texts of `N_NEW` tokens."""
    from eval_toolkit.models.requests import GenerateRequest

    return _answers(model, [GenerateRequest(prompt, max_tokens=N_NEW) for prompt in prompts])


def _plain_texts(bench: Bench, prompts: Sequence[str]) -> Any:
    """Generate with transformers, in one batch padded on the left."""
    bench.tokenizer.padding_side = "left"
    given = bench.tokenizer(list(prompts), return_tensors="pt", padding=True)
    with bench.torch.inference_mode():
        return bench.network.generate(
            input_ids=given.input_ids.to(bench.device),
            attention_mask=given.attention_mask.to(bench.device),
            max_new_tokens=N_NEW,
            do_sample=False,
            pad_token_id=2,
        )


def _score_case(bench: Bench, case: str, questions: Questions, peer: Any) -> None:
    lengths = [
        len(bench.tokenizer(context).input_ids) * len(choices)
        + sum(map(len, bench.tokenizer(choices).input_ids))
        for context, choices in questions
    ]
    tokens = sum(lengths)
    plain = bench.measure(
        case, "plain padded rows", lambda: _plain_scores(bench, questions), tokens
    )
    bench.measure(case, "ours, defaults", lambda: scores_of(ours(bench), questions), tokens, plain)
    if peer is None:
        return
    try:
        bench.measure(
            case,
            f"lm-eval, batch {BATCH}",
            lambda: _peer_scores(bench, peer, questions),
            tokens,
            plain,
        )
    except Exception as error:  # the peer's failure must not cost our figures
        print(f"lm-eval failed: {type(error).__name__}: {error}"[:300], flush=True)


def _row(line: Line) -> str:
    peak = f"{line.peak_bytes / 2**30:.1f}" if line.peak_bytes else ""
    gap = "" if line.difference is None else f"{line.difference:.4f}"
    rate = f"{line.tokens / line.seconds:,.0f}"
    return f"| {line.case} | {line.what} | {line.seconds:.2f} | {rate} | {peak} | {gap} |"


HEAD = (
    "| case | what | seconds | tokens per second | peak GiB | max difference from plain rows |\n"
    "|---|---|---|---|---|---|"
)


def _report(bench: Bench) -> str:
    """Return the table as Markdown."""
    return "\n".join([f"# Models on a GPU\n\n{bench.about}\n", HEAD, *map(_row, bench.lines), ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all cases and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--lm-eval", type=Path, metavar="FOLDER", help="an unpacked lm-eval")
    parser.add_argument("--questions", type=int, default=1500, metavar="N")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "GPU.md")
    parser.add_argument("--device", default=None, help="by default a GPU if there is one")
    parser.add_argument("--dtype", default=None, help="by default bfloat16, float32 on a CPU")
    options = parser.parse_args(arguments)
    import torch

    peer = None
    if options.lm_eval is not None or find_spec("lm_eval"):
        peer = import_lm_eval(options.lm_eval or Path())
    bench = made_bench(torch, options.device, options.dtype, options.out)
    print(f"{bench.about}\n\n{HEAD}", flush=True)
    scores_of(ours(bench), few_shot(bench, 8))  # so that kernels are loaded
    n = options.questions
    _score_case(bench, f"{n} five-shot questions, 4 choices", few_shot(bench, n), peer)
    _score_case(bench, f"{n} contexts, 4 continuations", _continuations(bench, n), peer)
    n_texts = min(N_GENERATED, n)
    prompts = [bench.text(120) for _ in range(n_texts)]
    case = f"{n_texts} texts of {N_NEW} tokens"
    bench.measure(case, "ours, defaults", lambda: texts_of(ours(bench), prompts), n_texts * N_NEW)
    bench.measure(case, "transformers", lambda: _plain_texts(bench, prompts), n_texts * N_NEW)
    slowest = math.fsum(line.seconds for line in bench.lines)
    print(f"\nwritten to {options.out.name}; {slowest:.0f} seconds in all", flush=True)


if __name__ == "__main__":
    main()

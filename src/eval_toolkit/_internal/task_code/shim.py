"""Modules that the code of lm-eval tasks imports, for workers in which lm-eval is not installed.

``lm_eval`` has the helpers that task files use, and ``lm_eval.tasks`` is the folder of the tasks.
``datasets`` has a data set of rows and no downloads, ``evaluate`` the metrics that need no download.
"""

import importlib.util
import logging
import math
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from eval_toolkit._internal.task_code.rows import Documents

outcomes: dict[tuple[str, str], bool] = {}
"""Whether programs pass their tests, as far as the caller has run them for the current call."""
_QUOTES = ((" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"'))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def install(tasks: str) -> None:
    """Register the modules; ``tasks`` is the folder that ``lm_eval.tasks`` stands for."""
    for name, contents in _modules().items():
        module = ModuleType(name)
        vars(module).update(contents)
        module.__path__ = [tasks] if name == "lm_eval.tasks" else []
        sys.modules[name] = module
        outer, _, inner = name.rpartition(".")
        if outer in sys.modules:
            setattr(sys.modules[outer], inner, module)


def _modules() -> dict[str, dict[str, Any]]:
    filters = {"Filter": Filter, "RegexFilter": RegexFilter, "register_filter": register_filter}
    tasks = {"Task": Task, "ConfigurableTask": Task}
    groups = {"Group": Task, "ConfigurableGroup": Task}
    maximum = {"metric_max_over_ground_truths": metric_max_over_ground_truths}
    found: dict[str, dict[str, Any]] = {
        "lm_eval": {},
        "lm_eval.tasks": {},
        "lm_eval.api": {},
        "lm_eval.api.filter": {"Filter": Filter},
        "lm_eval.api.group": groups,
        "lm_eval.api.instance": {"Instance": Task},
        "lm_eval.api.metrics": {**maximum, "mean": mean},
        "lm_eval.api.registry": {"register_filter": register_filter},
        "lm_eval.api.task": tasks,
        "lm_eval.filters": {},
        "lm_eval.filters.extraction": filters,
        "lm_eval.utils": {
            "eval_logger": logging.getLogger("lm-eval"),
            "general_detokenize": general_detokenize,
            "logging": logging,
            "weighted_f1_score": weighted_f1_score,
        },
        "datasets": _datasets(),
        "evaluate": {"load": Metric},
    }
    if not _is_installed("transformers"):
        squad = {"compute_exact": compute_exact, "compute_f1": compute_f1}
        squad["normalize_answer"] = normalize_answer  # type: ignore[assignment]
        for name in ("transformers", "transformers.data", "transformers.data.metrics"):
            found[name] = {"__getattr__": _absent}
        found["transformers.data.metrics.squad_metrics"] = squad
    return found


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _absent(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ModuleNotFoundError(f"transformers is not installed; {name} is needed")


def _datasets() -> dict[str, Any]:
    """Return the names of `datasets`: a data set of rows, and types without effect."""
    types = ("Value", "Features", "Sequence", "ClassLabel", "Image", "Audio")
    return {
        "Dataset": Documents,
        "DatasetDict": dict,
        "Split": type("Split", (), {"TEST": "test", "TRAIN": "train", "VALIDATION": "validation"}),
        **dict.fromkeys(types, _type_of_column),
        "load_dataset": _download("load_dataset"),
        "load_metric": Metric,
        "get_dataset_config_names": _download("get_dataset_config_names"),
        "get_dataset_infos": _download("get_dataset_infos"),
        "__version__": "4.0.0",
    }


def _type_of_column(*given: Any, **_: Any) -> Any:
    return given


def _download(name: str) -> Callable[..., Any]:
    def download(*given: Any, **_: Any) -> Any:
        shown = ", ".join(map(repr, given))
        raise OSError(
            f"datasets.{name}({shown}) needs the network, which task code does not have; "
            "pass the documents as `data`"
        )

    return download


class NeedsPrograms(BaseException):
    """Programs with their tests, which the caller must run before the current call can end."""

    def __init__(self, programs: Sequence[tuple[str, str]]) -> None:
        super().__init__("programs must be run")
        self.programs = list(programs)


class Task:
    """Stand-in for classes that files name in annotations; tasks written in Python are not run."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("tasks written in Python are not supported")


class Filter:
    """Base class of filters, whose ``apply`` maps lists of answers and documents to answers."""

    def __init__(self, **_: Any) -> None:
        """Accept any options."""

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the answers unchanged."""
        return resps


class RegexFilter(Filter):
    """Filter that extracts a match of a pattern from each answer.

    Examples
    --------
    >>> RegexFilter("([0-9]+)", -1).apply([["1 and 2", "none"]], [{}])
    [['2', '[invalid]']]
    """

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
    ) -> None:
        self.regex_pattern, self.regex = regex_pattern, re.compile(regex_pattern)
        self.group_select, self.fallback = group_select, fallback

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return the selected match in each answer, or the fallback."""
        return [[self._match(answer) for answer in answers] for answers in resps]

    def _match(self, answer: Any) -> str:
        found = self.regex.findall(answer if isinstance(answer, str) else "")
        if not found:
            return self.fallback
        match = found[self.group_select]
        if isinstance(match, tuple):
            match = next((part for part in match if part), self.fallback)
        return str(match).strip()


def register_filter(name: str) -> Callable[[Any], Any]:
    """Return a decorator without effect; task files name their filters by ``!function``."""
    return lambda made: made


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def weighted_f1_score(items: Sequence[Sequence[Any]]) -> float:
    """Return F1 averaged over classes with their frequencies as weights.

    ``items`` are pairs of the correct and the chosen class.

    Examples
    --------
    >>> round(weighted_f1_score([(0, 0), (0, 1), (1, 1)]), 4)
    0.6667
    """
    chosen, sizes = Counter(pair[1] for pair in items), Counter(pair[0] for pair in items)
    right = Counter(gold for gold, pick in items if gold == pick)
    total = sum(n * 2 * right[label] / (n + chosen[label]) for label, n in sizes.items())
    return total / len(items)


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Sequence[Any]
) -> Any:
    """Return the largest value of a metric over the references."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)


def general_detokenize(text: str) -> str:
    """Return a text without the spaces that a tokeniser put around punctuation.

    Examples
    --------
    >>> general_detokenize("is n't ( that ) so .")
    "isn't (that) so."
    """
    for before, after in _QUOTES:
        text = text.replace(before, after)
    return re.sub(r" (['.,])", r"\1", text)


# --- metrics of SQuAD -----------------------------------------------------------------------------


def normalize_answer(text: str) -> str:
    """Return a text in lower case without punctuation, articles and repeated spaces.

    Examples
    --------
    >>> normalize_answer("The  Cat's!")
    'cats'
    """
    bare = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def compute_exact(a_gold: str, a_pred: str) -> int:
    """Return whether two answers are equal after normalisation."""
    return int(normalize_answer(a_gold) == normalize_answer(a_pred))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """Return F1 of the words of two answers after normalisation.

    Examples
    --------
    >>> round(compute_f1("the old cat", "a cat"), 4)
    0.6667
    """
    gold, found = normalize_answer(a_gold or "").split(), normalize_answer(a_pred or "").split()
    if not gold or not found:
        return int(gold == found)
    n_same = sum((Counter(gold) & Counter(found)).values())
    return 2 * n_same / (len(gold) + len(found))


# --- metrics of evaluate --------------------------------------------------------------------------


class Metric:
    """Metric named as in `evaluate`, computed here; others are refused when they are used.

    Examples
    --------
    >>> Metric("exact_match").compute(predictions=["a", "b"], references=["a", "c"])
    {'exact_match': 0.5}
    """

    def __init__(self, name: str, *_: Any, **__: Any) -> None:
        self.name = name

    def compute(self, **given: Any) -> Any:
        """Return the values of the metric."""
        if self.name not in _METRICS:
            raise NotImplementedError(
                f"the metric {self.name!r} of the library evaluate is not available to task code "
                f"(there are {', '.join(_METRICS)})"
            )
        return _METRICS[self.name](**given)


def _equal(name: str) -> Callable[..., dict[str, Any]]:
    def compute(*, predictions: Sequence[Any], references: Sequence[Any], **_: Any) -> Any:
        pairs = zip(predictions, references, strict=True)
        return {name: mean([float(one == other) for one, other in pairs])}

    return compute


def _rouge(
    *,
    predictions: Sequence[str],
    references: Sequence[Any],
    rouge_types: Sequence[str] = ("rouge1", "rouge2", "rougeL", "rougeLsum"),
    use_stemmer: bool = False,
    use_aggregator: bool = True,
    tokenizer: Callable[[str], list[str]] | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Return the F-measures of ROUGE, as means over the texts unless asked for all."""
    from rouge_score import rouge_scorer  # type: ignore[import-untyped]

    split = type("Split", (), {"tokenize": staticmethod(tokenizer)})() if tokenizer else None
    scorer = rouge_scorer.RougeScorer(list(rouge_types), use_stemmer=use_stemmer, tokenizer=split)
    scored = []
    for text, truths in zip(predictions, references, strict=True):
        several = isinstance(truths, (list, tuple))
        scored.append(scorer.score_multi(truths, text) if several else scorer.score(truths, text))
    values = {kind: [one[kind].fmeasure for one in scored] for kind in rouge_types}
    return {kind: mean(found) if use_aggregator else found for kind, found in values.items()}


def _pass_at_k(
    *, predictions: Sequence[Sequence[str]], references: Sequence[str], k: Any = (1,), **_: Any
) -> Any:
    """Return pass@k of programs (Chen et al., 2021) and the outcome of each."""
    wanted = [
        (code, tests)
        for codes, tests in zip(predictions, references, strict=True)
        for code in codes
    ]
    missing = [one for one in wanted if one not in outcomes]
    if missing:
        raise NeedsPrograms(missing)
    passed = [
        [outcomes[code, tests] for code in codes]
        for codes, tests in zip(predictions, references, strict=True)
    ]
    found = {f"pass@{n}": mean([_at_least_one(one, n) for one in passed]) for n in _list(k)}
    return found, passed


def _list(k: Any) -> list[int]:
    return [k] if isinstance(k, int) else list(k)


def _at_least_one(passed: Sequence[bool], k: int) -> float:
    """Return the probability that at least one of k programs drawn without replacement passes."""
    wrong = len(passed) - sum(passed)
    return 1.0 - math.comb(wrong, k) / math.comb(len(passed), k)


def _sklearn(name: str) -> Callable[..., dict[str, Any]]:
    def compute(*, predictions: Sequence[Any], references: Sequence[Any], **options: Any) -> Any:
        from sklearn import metrics

        value = getattr(metrics, f"{name}_score")(references, predictions, **options)
        return {name: value}

    return compute


_METRICS: dict[str, Callable[..., Any]] = {
    "exact_match": _equal("exact_match"),
    "accuracy": _equal("accuracy"),
    "code_eval": _pass_at_k,
    "rouge": _rouge,
    **{name: _sklearn(name) for name in ("f1", "precision", "recall")},
}

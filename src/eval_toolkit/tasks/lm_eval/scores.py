"""Computation of lm-eval metrics from per-document values.

A metric that is a mean over documents has one column. Other metrics, such as F1, perplexity and
BLEU, are computed from sums of several columns, so that they have confidence intervals like any
other metric.
"""

import json
import math
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal.sandbox import Overrun
from eval_toolkit._internal.sandbox.compiling import compiled
from eval_toolkit._internal.sandbox.patterns import take_out
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import KEPT, RATE, TEXT, ColumnInfo, Grade
from eval_toolkit.models.responses import Completion
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.tasks.lm_eval.code import TaskFunction, statistic_of
from eval_toolkit.tasks.lm_eval.metrics import MetricConfig

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)
_POSITIVE = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class Choices:
    """Log-likelihoods of a document's choices, and the indices of the correct choices."""

    numbers: Sequence[float]
    is_greedy: Sequence[bool] | None
    texts: Sequence[str]
    right: Sequence[int]
    alone: Sequence[float] = ()
    """Log-likelihoods of the choices without context, if requested."""

    def hit(self, numbers: Sequence[float]) -> float:
        """Return 1 if the first choice with the largest value is correct, else 0."""
        return float(max(range(len(numbers)), key=numbers.__getitem__) in self.right)

    def per(self, length: Callable[[str], int]) -> list[float]:
        """Divide each log-likelihood by the length of its choice."""
        pairs = zip(self.numbers, self.texts, strict=True)
        return [number / (length(text) or 1) for number, text in pairs]

    @property
    def chosen(self) -> int:
        """Index of the most likely choice."""
        return max(range(len(self.numbers)), key=self.numbers.__getitem__)

    @property
    def gold(self) -> int:
        """Index of the correct choice, which must be unique."""
        if len(self.right) != 1:
            raise InvalidInputError(
                f"{len(self.right)} choices are correct; the metric needs exactly one"
            )
        return self.right[0]


@dataclass(frozen=True, slots=True)
class Text:
    """Filtered answer with its references."""

    answer: Any
    references: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Score:
    """Metric with the columns it needs and, unless it is a mean, the statistic of their sums."""

    name: str
    columns: Mapping[str, ColumnInfo]
    values: Callable[[Any], Sequence[float | str | Grade] | Mapping[str, float | str | Grade]]
    of_sums: Callable[[FloatArray], FloatArray] | None = None
    higher_is_better: bool = True
    bounds: tuple[float, float] = (-math.inf, math.inf)
    specs: Sequence[MetricSpec] = field(default=())

    def grade(self, facts: Any) -> dict[str, float | str | Grade]:
        """Compute the column values of one document."""
        found = self.values(facts)
        if isinstance(found, Mapping):
            return dict(found)
        return dict(zip(self.columns, found, strict=True))

    def metrics(self) -> list[MetricSpec]:
        """Return the metric in a list, which is empty if it is the mean of its column."""
        if self.of_sums is None:
            return list(self.specs)
        up, bounds = self.higher_is_better, self.bounds
        return [
            ms.from_sums(
                self.name, list(self.columns), self.of_sums, higher_is_better=up, bounds=bounds
            )
        ]


def score_of(
    metric: MetricConfig, output_type: str, suffix: str, *, n_classes: int = 2, votes: int = 0
) -> Score:
    """Return the object that computes a metric of a task.

    ``suffix`` is the suffix of the filter pipeline, which is appended to every name. ``n_classes``
    is the maximum number of choices per document, needed for the Matthews correlation, and
    ``votes`` is the number of attempts in a majority vote. The input of the score is `Choices` for
    multiple choice, (log-likelihood, is_greedy) for log-likelihoods, (log-likelihood, words, bytes)
    for whole documents, or `Text` for generated answers.

    Examples
    --------
    >>> score = score_of(MetricConfig("acc_norm"), "multiple_choice", "")
    >>> score.grade(Choices([-4.0, -3.0], None, ["Rome", "Ur"], [0]))
    {'acc_norm': 1.0}
    """
    if (callable(metric.aggregation) or metric.aggregation == "median") and not metric.function:
        value = _answer_pair if output_type == "generate_until" else _value_of(metric.name)
        return of_values(metric, suffix, value)
    if output_type == "generate_until":
        return _text_score(metric, suffix, votes)
    if output_type == "multiple_choice":
        return _choice_score(metric, suffix, n_classes)
    if metric.name == "acc":
        return Score(f"acc{suffix}", {f"acc{suffix}": RATE}, _greedy)
    return _perplexity(metric.name, output_type, suffix)


# --- log-likelihoods ----------------------------------------------------------------------------


def _greedy(facts: tuple[float, bool | None]) -> list[float | Grade]:
    is_greedy = facts[1]
    return [_untold() if is_greedy is None else float(is_greedy)]


def _untold() -> Grade:
    return Grade.skipped("the model does not report whether the continuation is its greedy choice")


def _perplexity(name: str, output_type: str, suffix: str) -> Score:
    """Return a perplexity or bits per byte, computed as a ratio of sums."""
    over = {"perplexity": "documents", "word_perplexity": "words"}.get(name, "bytes")
    place = {"words": 1, "bytes": 2}.get(over)
    columns = dict.fromkeys((f"loglikelihood{suffix}", f"{over}{suffix}"), KEPT)

    def values(facts: Sequence[Any]) -> list[float]:
        return [facts[0], 1.0 if place is None else facts[place]]

    of_sums = _bits if name == "bits_per_byte" else _exponential
    low = 0.0 if name == "bits_per_byte" else 1.0
    return Score(f"{name}{suffix}", columns, values, of_sums, False, (low, math.inf))


def _exponential(sums: FloatArray) -> FloatArray:
    return np.exp(-sums[:, 0] / sums[:, 1])


def _bits(sums: FloatArray) -> FloatArray:
    return -sums[:, 0] / sums[:, 1] / math.log(2)


# --- values for the functions of a task ---------------------------------------------------------


def _answer_pair(facts: Text) -> list[Any]:
    """Return the reference, or the references, and the answer."""
    truths = list(facts.references)
    return [truths[0] if len(truths) == 1 else truths, facts.answer]


def _value_of(name: str) -> Callable[[Any], Any]:
    """Return lm-eval's value of a metric for one document: a number, or a pair with the target."""

    def value(facts: Any) -> Any:
        if not isinstance(facts, Choices):
            return facts[0]
        if name in ("f1", "mcc"):
            return [list(facts.right) if len(facts.right) > 1 else facts.gold, facts.chosen]
        if name == "brier_score":
            return [facts.gold, _shares(facts).tolist()]
        return _HITS[name](facts)[0]

    return value


# --- multiple choice ----------------------------------------------------------------------------


def _shares(facts: Choices) -> FloatArray:
    """Return the probabilities of the choices, normalised to a sum of 1."""
    shares: FloatArray = np.exp(np.asarray(facts.numbers) - max(facts.numbers))
    shares /= shares.sum()
    return shares


def _brier(facts: Choices) -> list[float]:
    shares = _shares(facts)
    shares[facts.gold] -= 1.0
    return [float((shares**2).sum())]


def _exact_choice(facts: Choices) -> list[float | Grade]:
    greedy = facts.is_greedy
    return [_untold() if greedy is None else float(any(greedy[at] for at in facts.right))]


_HITS: Mapping[str, Callable[[Choices], Sequence[float | Grade]]] = {
    "acc": lambda facts: [facts.hit(facts.numbers)],
    "acc_norm": lambda facts: [facts.hit(facts.per(len))],
    "acc_bytes": lambda facts: [facts.hit(facts.per(lambda text: len(text.encode("utf-8"))))],
    "acc_mutual_info": lambda facts: [
        facts.hit([a - b for a, b in zip(facts.numbers, facts.alone, strict=True)])
    ],
    "exact_match": _exact_choice,
}


def _choice_score(metric: MetricConfig, suffix: str, n_classes: int) -> Score:
    name = f"{metric.name}{suffix}"
    if metric.name in _HITS:
        info = replace(RATE, higher_is_better=metric.higher_is_better)
        return Score(name, {name: info}, _HITS[metric.name])
    if metric.name == "brier_score":
        info = ColumnInfo(metric.higher_is_better, (0.0, 2.0))
        return Score(name, {name: info}, _brier)
    up = metric.higher_is_better
    if metric.name == "f1":
        kept = dict.fromkeys((f"{name}_both", f"{name}_chosen", f"{name}_gold"), KEPT)
        return Score(name, kept, _f1_counts, _f1, up, (0.0, 1.0))
    labels = [f"{part}_{at}" for part in ("gold", "chosen") for at in range(n_classes)]
    kept = dict.fromkeys([f"{name}_right", *(f"{name}_{label}" for label in labels)], KEPT)

    def values(facts: Choices) -> list[float]:
        gold, chosen = facts.gold, facts.chosen
        counts = [float(gold == chosen)]
        counts += [float(at == gold) for at in range(n_classes)]
        return counts + [float(at == chosen) for at in range(n_classes)]

    return Score(name, kept, values, _correlation, up, (-1.0, 1.0))


def _f1_counts(facts: Choices) -> list[float]:
    if len(facts.texts) > 2:
        raise InvalidInputError(f"f1 needs two classes, but there are {len(facts.texts)} choices")
    gold, chosen = facts.gold, facts.chosen
    return [float(gold == chosen == 1), float(chosen == 1), float(gold == 1)]


def _f1(sums: FloatArray) -> FloatArray:
    return 2.0 * sums[:, 0] / (sums[:, 1] + sums[:, 2])


def _correlation(sums: FloatArray) -> FloatArray:
    """Compute the multiclass Matthews correlation coefficient (Gorodkin 2004)."""
    n_classes = (sums.shape[1] - 1) // 2
    right, gold, chosen = sums[:, 0], sums[:, 1 : 1 + n_classes], sums[:, 1 + n_classes :]
    n = gold.sum(axis=1)
    together = right * n - (gold * chosen).sum(axis=1)
    of_gold = n**2 - (gold**2).sum(axis=1)
    of_chosen = n**2 - (chosen**2).sum(axis=1)
    spread = np.sqrt(of_gold * of_chosen)
    # The correlation is undefined for a single class; sklearn and lm-eval return 0.
    return np.where(spread > 0, together / np.where(spread > 0, spread, 1.0), 0.0)


# --- texts --------------------------------------------------------------------------------------


def _text_score(metric: MetricConfig, suffix: str, votes: int) -> Score:
    name = f"{metric.name}{suffix}"
    if metric.function is not None:
        return _own_score(metric, suffix)
    if metric.name == "exact_match" or metric.evaluated:
        rules = _rules(metric.options)
        info = replace(RATE, higher_is_better=metric.higher_is_better)

        def matched(facts: Text) -> list[float]:
            return [_share(facts, rules)]

        return _voted(name, rules, votes) if votes else Score(name, {name: info}, matched)
    return _corpus_score(metric, name)


def _rules(options: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a function that normalises strings before comparison; other types are unchanged."""
    patterns = tuple(
        compiled(one, "regexes_to_ignore") for one in options.get("regexes_to_ignore") or ()
    )

    def apply(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        text = take_out(text, patterns) if patterns else text
        if options.get("ignore_case"):
            text = text.lower()
        if options.get("ignore_punctuation"):
            text = text.translate(_NO_PUNCTUATION)
        return text.translate(_NO_DIGITS) if options.get("ignore_numbers") else text

    return apply


def _share(facts: Text, rules: Callable[[Any], Any]) -> float:
    """Return whether an answer matches a reference; for several answers, the fraction that do."""
    answers = facts.answer if isinstance(facts.answer, list) else [facts.answer]
    truths = [rules(truth) for truth in facts.references]
    right = [_is_one_of(answer, truths, rules) for answer in answers]
    return sum(right) / len(right) if right else 0.0


def _is_one_of(answer: Any, truths: Sequence[Any], rules: Callable[[Any], Any]) -> bool:
    try:
        normalised = rules(answer)
    except Overrun:  # on a pattern timeout the answer matches no reference
        return False
    return any(_same(normalised, truth) for truth in truths)


def _same(answer: Any, truth: Any) -> bool:
    # Compare a number from a mapping filter with the number in the reference.
    return bool(answer == (truth if isinstance(answer, str) else _like(answer, truth)))


def _like(answer: Any, truth: Any) -> Any:
    try:
        return type(answer)(truth)
    except (TypeError, ValueError):
        return truth


def _voted(name: str, rules: Callable[[Any], Any], votes: int) -> Score:
    """Return the fraction of documents whose most frequent answer is correct."""
    each, answer = f"{name}_each", f"{name}_answer"

    def values(facts: Text) -> list[float | str]:
        said = facts.answer[0] if isinstance(facts.answer, list) else facts.answer
        return [_share(facts, rules), str(said)]

    spec = replace(ms.maj_at_k(each, votes, answer=answer), name=name)
    kept = {each: replace(RATE, metric=False), answer: TEXT}
    return Score(name, kept, values, specs=(spec,))


def _corpus_score(metric: MetricConfig, name: str) -> Score:
    """Return corpus-level BLEU, chrF or TER, keeping the scores of single answers as well."""
    from eval_toolkit.graders.translation import Bleu, ChrF, Ter

    of_text = f"{name}_text"
    grader: Bleu | ChrF | Ter
    if metric.name == "bleu":
        grader = Bleu(name=of_text)
    elif metric.name == "ter":
        grader = Ter(name=of_text)
    else:
        grader = ChrF(name=of_text, word_order=2 if metric.name == "chrf++" else 0)
    corpus: Any = grader.metrics()[0]
    columns = {column: replace(info, metric=False) for column, info in grader.columns().items()}

    def values(facts: Text) -> Mapping[str, float | Grade]:
        answer = facts.answer[0] if isinstance(facts.answer, list) else facts.answer
        truths = [str(truth) for truth in facts.references]
        graded: Mapping[str, float | Grade] = grader.grade(
            Completion(str(answer), ground_truth=truths)
        )
        return graded

    up = metric.higher_is_better
    return Score(name, columns, values, specs=(replace(corpus, name=name, higher_is_better=up),))


# --- functions defined by the task --------------------------------------------------------------


def _own_score(metric: MetricConfig, suffix: str) -> Score:
    """Return a metric computed by a function of the task from references and predictions."""
    function = metric.function
    if function is None:
        raise InvalidInputError(f"the metric {metric.name!r} has no function")

    def one(truth: Any, answer: Any) -> Any:
        try:
            value = function(references=[truth], predictions=[answer], **metric.options)
        except InvalidInputError as error:
            if " fails: TypeError" not in str(error):
                raise
            value = function([truth, answer])
        if not isinstance(value, Mapping):
            return value
        return value[metric.name] if metric.name in value else next(iter(value.values()))

    def values(facts: Text) -> Any:
        found = [one(truth, facts.answer) for truth in facts.references]
        return max(found) if len(found) > 1 else found[0]

    return of_values(metric, suffix, values)


def of_values(metric: MetricConfig, suffix: str, values: Callable[[Any], Any]) -> Score:
    """Return a metric of values that the task computes: numbers, or pairs to be divided.

    ``values`` is a function that maps the graded object to a number or a pair.

    Examples
    --------
    >>> of_values(MetricConfig("words"), "", len).grade("abc")
    {'words': 3.0}
    """
    name = f"{metric.name}{suffix}"
    if callable(metric.aggregation) or metric.aggregation == "median":
        return _statistic_score(metric, name, values)
    if metric.aggregation in ("mean", "nanmean"):
        info = ColumnInfo(metric.higher_is_better)
        return Score(name, {name: info}, lambda facts: [_number(values(facts), name)])
    kept = dict.fromkeys((f"{name}_sum", f"{name}_over"), KEPT)
    single = metric.aggregation == "perplexity"

    def pair(facts: Any) -> list[float]:
        found = values(facts)
        return [float(found), 1.0] if single else [float(found[0]), float(found[1])]

    of_sums = _bits if metric.aggregation == "bits_per_byte" else _exponential
    return Score(name, kept, pair, of_sums, metric.higher_is_better, _POSITIVE)


def _statistic_score(metric: MetricConfig, name: str, values: Callable[[Any], Any]) -> Score:
    """Return a median, or a function of the list of values, which are kept as JSON."""
    up, made = metric.higher_is_better, metric.aggregation
    if not isinstance(made, TaskFunction):
        median = ms.from_columns(name, [f"{name}_each"], np.median, higher_is_better=up)
        columns = {f"{name}_each": KEPT}
        return Score(name, columns, lambda facts: [_number(values(facts), name)], specs=[median])
    column = f"{name}_value"
    spec = ms.from_columns(name, [column], statistic_of(made), higher_is_better=up)
    return Score(name, {column: TEXT}, lambda facts: [_json(values(facts))], specs=[spec])


def _json(value: Any) -> str | Grade:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        return Grade.error(f"the value {value!r:.60} cannot be stored: {error}")


def _number(value: Any, name: str) -> float | Grade:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return Grade.error(f"{name} is {value!r:.60}; it must be a number")
    return number if math.isfinite(number) else Grade.skipped(f"{name} is {number}")

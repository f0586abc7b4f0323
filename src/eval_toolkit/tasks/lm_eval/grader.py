"""Grader of an lm-eval task: its filters, followed by its metrics, with one column each."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, LOGLIKELIHOODS, ColumnInfo, Grade
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.tasks.lm_eval.config import TaskConfig
from eval_toolkit.tasks.lm_eval.filters import Pipeline
from eval_toolkit.tasks.lm_eval.scores import Choices, Score, Text, of_values, score_of

_WORDS = re.compile(r"\s+")


def graders_of(config: TaskConfig, n_classes: int = 2) -> list["LmEvalGrader"]:
    """Return the grader of a task, in a list.

    ``n_classes`` is the maximum number of choices of a document.
    """
    made: list[tuple[Pipeline, tuple[Score, ...]]] = []
    for pipeline in config.pipelines:
        votes = pipeline.n_votes(config.repeats) if pipeline.votes else 0
        scores = tuple(
            of_values(metric, pipeline.suffix, _from_table(metric.name))
            if config.process_results is not None
            else score_of(
                metric, config.output_type, pipeline.suffix, n_classes=n_classes, votes=votes
            )
            for metric in config.metrics
        )
        made.append((pipeline, scores))
    return [LmEvalGrader(tuple(made), config)]


def _from_table(name: str) -> Any:
    """Return a function that reads a metric from the output of ``process_results``."""

    def value(table: Mapping[str, Any]) -> Any:
        if name not in table:
            raise InvalidInputError(f"process_results has no {name!r}; it has {list(table)}")
        return table[name]

    return value


@dataclass(frozen=True, slots=True)
class LmEvalGrader:
    """Filters and metrics of an lm-eval task.

    A column is named after its metric, followed by ``@`` and the name of the filters, if there are
    any. The document, the answer and the choices are read from the sample's context.
    """

    scores: tuple[tuple[Pipeline, tuple[Score, ...]], ...]
    config: TaskConfig = field(repr=False)
    name: str = "lm_eval"

    @property
    def response_types(self) -> tuple[ResponseType, ...]:
        """Completions or log-likelihoods, depending on the output type."""
        texts = self.config.output_type == "generate_until"
        return COMPLETIONS if texts else LOGLIKELIHOODS

    @property
    def version(self) -> str:
        """Version, which changes when the numbers may change."""
        return f"1+{self.config.digest[:16]}"

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the columns with their types and directions."""
        return {
            column: info
            for _, scores in self.scores
            for score in scores
            for column, info in score.columns.items()
        }

    def metrics(self) -> list[MetricSpec]:
        """Return the metrics that are not column means."""
        return [spec for _, scores in self.scores for score in scores for spec in score.metrics()]

    def grade(self, response: Any) -> Mapping[str, float | str | Grade]:
        """Return the columns of every pipeline."""
        grades: dict[str, float | str | Grade] = {}
        for pipeline, scores in self.scores:
            facts = self._facts(response, pipeline)
            for score in scores:
                try:
                    grades.update(score.grade(facts))
                except InvalidInputError as error:  # the document lacks a field of this metric
                    grades.update(dict.fromkeys(score.columns, Grade.error(str(error))))
        return grades

    def _facts(self, response: Any, pipeline: Pipeline) -> Any:
        """Return the inputs from which scores of this output type are computed."""
        known = response.context
        if not isinstance(known, Mapping) or "doc" not in known:
            raise InvalidInputError("the sample does not contain the document of an lm-eval task")
        kind, own = self.config.output_type, self.config.process_results
        if kind == "generate_until":
            answer = pipeline.apply(response.completion, known["doc"])
            return own(known["doc"], [answer]) if own else Text(answer, known["references"])
        numbers, greedy = response.loglikelihoods, response.is_greedy
        if own:
            told = greedy or [False] * len(numbers)
            pairs = list(zip(numbers, told, strict=True))
            return own(known["doc"], numbers if kind == "loglikelihood_rolling" else pairs)
        if kind == "multiple_choice":
            return _choices(numbers, greedy, known)
        if not math.isfinite(numbers[0]):
            raise InvalidInputError("the model assigns zero probability to the continuation")
        if kind == "loglikelihood":
            return (numbers[0], None if greedy is None else greedy[0])
        text = known["text"]
        return (numbers[0], float(len(_WORDS.split(text))), float(len(text.encode("utf-8"))))


def _choices(
    numbers: Sequence[float], greedy: Sequence[bool] | None, known: Mapping[str, Any]
) -> Choices:
    texts, n = known["choices"], len(known["choices"])
    if max(numbers[:n]) == -math.inf:
        raise InvalidInputError("the model assigns zero probability to every choice")
    wrong = [at for at in known["right"] if not 0 <= at < n]
    if wrong or not known["right"]:
        raise InvalidInputError(
            f"the target is {known['target']!r:.60}, which is not one of the {n} choices; the "
            "label may be hidden"
        )
    return Choices(
        numbers[:n], None if greedy is None else greedy[:n], texts, known["right"], numbers[n:]
    )

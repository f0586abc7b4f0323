"""Stored information on units, combined for exports."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.analysis.subjects import unit_metric
from eval_toolkit.analysis.units import UnitValues
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.judges.asking import apart
from eval_toolkit.integrations.exporting.cells import as_mapping, config_of
from eval_toolkit.metric_specs import ColumnSpec, mean_of
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.models.responses import RawLoglikelihood
from eval_toolkit.models.runner import JobResult
from eval_toolkit.models.runner.stored import RESPONSES
from eval_toolkit.report.cells import Block, Cell
from eval_toolkit.runs import Run
from eval_toolkit.runs.asking import outcomes_of
from eval_toolkit.runs.shown import kind_named
from eval_toolkit.scorecards import Records
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.scorecards.reduction import value_of_failure
from eval_toolkit.tasks.joining import joined
from eval_toolkit.tasks.references import Reference, references_of

__all__ = ["SCORED", "Answer", "Answers", "UnitMetric", "answers_of", "text_sha256"]

SCORED = ("label", "score")
"""The columns of rows that a scorer gave scores."""

_SAME = 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitMetric:
    """A metric with one value per unit."""

    cell: Cell
    spec: ColumnSpec
    values: FloatArray
    measured: BoolArray
    """Which units have a value."""
    failed: BoolArray
    """Which units have an attempt that failed and counts as a failure."""
    rows: FloatArray
    """What each record counts as."""
    known: BoolArray
    """Which records count."""

    @property
    def is_mean(self) -> bool:
        """Whether the cell is the plain mean over units."""
        if not self.cell.has_value or not self.measured.any():
            return False
        mean, value = float(self.values[self.measured].mean()), float(self.cell.value or 0.0)
        return abs(mean - value) <= _SAME * max(1.0, abs(value))

    @property
    def stderr(self) -> float | None:
        """Standard deviation over √n, for independent units."""
        n = int(self.measured.sum())
        if n < 2:
            return None
        return float(self.values[self.measured].std(ddof=1) / np.sqrt(n))


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One attempt at a unit: prompt and answer."""

    attempt: int
    outcome: JobResult | None

    @property
    def text(self) -> str | None:
        """Text of the model; None for choices or failures."""
        text = getattr(self._response, "text", None)
        return text if isinstance(text, str) and not self.choices else None

    @property
    def error(self) -> str:
        """Reason why there is no answer; "" if there is one."""
        if self.outcome is None:
            return ""
        error = self.outcome.error or getattr(self.outcome.response, "error", None)
        return "" if error is None else f"{error.kind}: {error.message}"

    @property
    def _response(self) -> Any:
        return None if self.outcome is None else self.outcome.response

    @property
    def choices(self) -> list[tuple[str, float, bool | None]]:
        """Scored choices: text, log-likelihood, and greediness."""
        response = self._response
        if not isinstance(response, RawLoglikelihood):
            return []
        request = None if self.outcome is None else self.outcome.job.request
        texts = list(response.choices) or list(getattr(request, "continuations", ()))
        numbers = list(response.loglikelihoods)
        greedy = list(response.is_greedy or [None] * len(numbers))
        return [
            (texts[at] if at < len(texts) else "", numbers[at], greedy[at])
            for at in range(len(numbers))
        ]

    @property
    def messages(self) -> list[dict[str, str]]:
        """Prompt as messages; a plain text becomes a user message."""
        prompt = self.prompt
        if prompt is None or isinstance(prompt, str):
            return [] if prompt is None else [{"role": "user", "content": prompt}]
        return [{"role": str(turn.role.value), "content": turn.content} for turn in prompt]

    @property
    def prompt(self) -> Any:
        """Text or messages; None if not stored."""
        return None if self.outcome is None else self.outcome.job.request.prompt

    @property
    def prompt_text(self) -> str:
        """Prompt as text, as rendered by the model if stored."""
        shown = getattr(self._response, "prompt", "")
        if isinstance(shown, str) and shown:
            return shown
        return "\n\n".join(message["content"] for message in self.messages)

    @property
    def settings(self) -> dict[str, Any]:
        """Decoding parameters that were set."""
        request = None if self.outcome is None else self.outcome.job.request
        if not isinstance(request, GenerateRequest):
            return {}
        told = request.to_dict()
        names = ("max_tokens", "temperature", "top_p", "stop", "seed")
        return {name: told[name] for name in names if told.get(name) not in (None, [])}

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens of prompt and answer; None if unknown."""
        usage = getattr(self._response, "usage", None)
        counts = [
            getattr(self._response, "prompt_tokens", None) or getattr(usage, "prompt_tokens", None),
            getattr(self._response, "completion_tokens", None)
            or getattr(usage, "completion_tokens", None),
        ]
        return counts[0] or None, counts[1] or None


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Units of one scorer on one slice of a run."""

    run: Run
    block: Block
    records: Records
    units: UnitValues = field(repr=False)

    @classmethod
    def of(cls, run: Run, block: Block) -> "Answers":
        """Return what is stored about the units of a block.

        Raises
        ------
        ArtifactError
            If the run has no records of it.
        """
        if (block.slice, block.scorer) not in run.subjects:
            raise ArtifactError(
                f"{run.path}: the run holds no records of {block.scorer!r} on {block.slice!r}, so "
                "there are no samples to export"
            )
        records = run.records(block.slice, block.scorer)
        return cls(run=run, block=block, records=records, units=UnitValues.of(records))

    @property
    def unit_ids(self) -> list[str]:
        """Sorted unit ids."""
        return [str(unit) for unit in self.units.ids.tolist()]

    @cached_property
    def metrics(self) -> list[UnitMetric]:
        """Metrics with one value per unit, in the order of the results."""
        cells = self.run.cells.block_or_none(self.block.slice, self.block.scorer) or {}
        found = []
        for name, cell in self.block.cells.items():
            spec = unit_metric(name, self.records, cells) or self._own_score(name)
            if spec is not None:
                found.append(self._metric(cell, spec))
        return found

    def _metric(self, cell: Cell, spec: ColumnSpec) -> UnitMetric:
        """Return a cell with its values; what failed counts as the run says."""
        column, records = spec.column, self.records
        failed = records.status[column] == "error"
        counts_as = value_of_failure(spec) if self._errors_count else None
        if counts_as is None:
            failed = np.zeros_like(failed)
        rows = np.where(failed, counts_as or 0.0, records.columns[column])
        states = np.where(failed, "ok", records.status[column])
        counted = replace(
            records,
            columns={**records.columns, column: rows},
            status={**records.status, column: states},
        )
        values, measured = replace(self.units, records=counted).values(column, spec)
        return UnitMetric(
            cell=cell,
            spec=spec,
            values=values,
            measured=measured,
            failed=np.logical_or.reduceat(failed, self.units.starts) if len(failed) else failed,
            rows=rows,
            known=states == "ok",
        )

    @property
    def _errors_count(self) -> bool:
        return config_of(self.run).get("on_error") == "as_zero"

    def _own_score(self, name: str) -> ColumnSpec | None:
        """Return the mean of scores that no label stands beside; with labels they are no grade."""
        columns = self.records.columns
        return mean_of(name) if name == "score" in columns and "label" not in columns else None

    @property
    def plain_metrics(self) -> list[UnitMetric]:
        """Those of them that are a column of the records and need no second attempt."""
        return [one for one in self.metrics if one.spec.k is None and one.spec.answer is None]

    @property
    def mean_metrics(self) -> list[UnitMetric]:
        """Those of these that are the mean of their units."""
        return [one for one in self.plain_metrics if one.is_mean]

    def why(self, column: str, at: int) -> tuple[str, str]:
        """Return status and reason of a unit without a value: an error weighs most."""
        start = int(self.units.starts[at])
        starts = self.units.starts
        stop = int(starts[at + 1]) if at + 1 < len(starts) else len(self.records)
        states = self.records.status[column][start:stop]
        reasons = self.records.reason.get(column)
        for status in ("error", "skipped"):
            for place in np.flatnonzero(states == status).tolist():
                return status, "" if reasons is None else str(reasons[start + place])
        return "skipped", "too few attempts"

    @cached_property
    def _outcomes(self) -> dict[tuple[str, int], JobResult]:
        multi_turn = kind_named(self.run.kind).words.multi_turn
        if RESPONSES not in self.run.manifest["artifacts"] or multi_turn:
            return {}
        answers, _ = apart(outcomes_of(self.run))
        return joined(answers)

    @cached_property
    def references(self) -> dict[str, Reference]:
        """References of units, if stored."""
        return references_of(self.run, self.unit_ids)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Inputs of units, if stored."""
        inputs = self.run.inputs
        return {} if inputs is None else inputs.texts_of(self.block.slice, self.unit_ids)

    def attempts(self, unit: str) -> list[Answer]:
        """Return the attempts at a unit, first to last."""
        return [
            Answer(attempt=attempt, outcome=self._outcomes.get((unit, attempt)))
            for attempt in self._tries[unit]
        ]

    @cached_property
    def _tries(self) -> dict[str, list[int]]:
        tries: dict[str, list[int]] = {}
        for unit, attempt in zip(
            self.records.unit_id.tolist(), self.records.attempt.tolist(), strict=True
        ):
            tries.setdefault(str(unit), []).append(int(attempt))
        return tries

    def parts(self, at: int) -> dict[str, str]:
        """Return which parts of the data the unit at a place belongs to."""
        row = int(self.units.starts[at])
        return {name: str(values[row]) for name, values in self.records.slices.items()}

    def content_hash(self, at: int) -> str:
        """Return the hash of the content of the unit at a place; empty where unknown."""
        return str(self.records.content_hash[int(self.units.starts[at])])

    def records_of(self) -> Iterator[tuple[int, str, Answer]]:
        """Yield every record: its place, its unit and the attempt it is about."""
        for row, (unit, attempt) in enumerate(
            zip(self.records.unit_id.tolist(), self.records.attempt.tolist(), strict=True)
        ):
            key = (str(unit), int(attempt))
            yield row, key[0], Answer(attempt=key[1], outcome=self._outcomes.get(key))

    def question(self, unit: str, answer: Answer) -> str | None:
        """Return the question without few-shot examples; None if it is not stored separately.

        A chat ends in the question whatever stands before it; a text does not say where it begins.
        """
        if unit in self.inputs:
            return self.inputs[unit]
        if isinstance(answer.prompt, str):
            return None if self._shots else answer.prompt
        asked = [message["content"] for message in answer.messages if message["role"] == "user"]
        return asked[-1] if asked else None

    @property
    def _shots(self) -> bool:
        return bool(as_mapping(config_of(self.run).get("task")).get("num_fewshot"))

    def right_texts(self, unit: str) -> list[str]:
        """Return the references of a unit as texts; empty if not stored."""
        reference = self.references.get(unit)
        return [] if reference is None or reference.text is None else _several(reference.text)


def text_sha256(text: str) -> str:
    """Return the hash of a text, whatever is in it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _several(text: str) -> list[str]:
    """Return one reference, or those that were stored as a JSON list with a line for each."""
    if text.startswith("[\n"):
        try:
            read = json.loads(text)
        except (ValueError, RecursionError):
            return [text]
        if isinstance(read, list) and all(isinstance(one, str) for one in read):
            return read
    return [text]


def answers_of(run: Run, blocks: Sequence[Block]) -> list[Answers]:
    """Return the answers behind those blocks that have records; a part's are its slice's."""
    known = set(run.subjects)
    return [
        Answers.of(run, one)
        for one in blocks
        if one.part == WHOLE and (one.slice, one.scorer) in known
    ]

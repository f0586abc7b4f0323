"""Contamination of task items, measured by n-gram overlap with a corpus."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, DEFAULT_N_RESAMPLES, BootstrapCI
from eval_toolkit.leakage.contamination import NgramContaminationCheck, Reference
from eval_toolkit.models.messages import Role
from eval_toolkit.scorecards import MetricResult, Records, summarise
from eval_toolkit.seeds import SeedLike
from eval_toolkit.tasks.base import BaseTask
from eval_toolkit.tasks.types import Item

PARTS = ("question", "choices", "answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOverlap:
    """N-gram overlap of one item with the corpus."""

    unit_id: str
    group: str
    n_grams: int
    """Number of n-grams; 0 if every part is shorter than n words, so the item is not checked."""
    n_found: int
    by_part: dict[str, tuple[int, int]]
    """Numbers of matched n-grams and of all n-grams in the question, the choices and the answer."""
    flagged: bool

    @property
    def share(self) -> float | None:
        """Fraction of the item's n-grams that occur in the corpus; None if there are no n-grams."""
        return self.n_found / self.n_grams if self.n_grams else None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "unit_id": self.unit_id,
            "share": self.share,
            "n_grams": self.n_grams,
            "n_found": self.n_found,
            "by_part": {part: list(counts) for part, counts in self.by_part.items()},
            "flagged": self.flagged,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationEffect:
    """Means of a column over all, clean and flagged units, and their differences."""

    column: str
    overall: MetricResult
    clean: MetricResult
    """Result over units that are not flagged, including units too short to be checked."""
    dirty: MetricResult
    """Result over the flagged units."""
    inflation: MetricResult
    """Overall − clean, which is the effect of the flagged units on the result."""
    gap: MetricResult
    """Flagged − clean; the flagged units may also be harder or easier than the others."""
    n_flagged: int
    n_unjudged: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        cells = ("overall", "clean", "dirty", "inflation", "gap")
        return {
            "column": self.column,
            **{name: getattr(self, name).to_dict() for name in cells},
            "n_flagged": self.n_flagged,
            "n_unjudged": self.n_unjudged,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Contamination(Displayed):
    """Overlap between a task's items and a corpus."""

    task: str
    n: int
    threshold: float
    analyzer: str
    n_reference_texts: int
    items: tuple[ItemOverlap, ...]
    rate: MetricResult
    """Fraction of checked items that are flagged; ``n_skipped`` counts items too short to check."""

    @property
    def flagged_ids(self) -> tuple[str, ...]:
        """Sorted ids of the units whose overlap reaches the threshold."""
        return tuple(sorted(item.unit_id for item in self.items if item.flagged))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with overlapping items sorted by decreasing overlap."""
        touched = sorted(
            (item for item in self.items if item.n_found),
            key=lambda item: (-(item.share or 0.0), item.unit_id),
        )
        return {
            "task": self.task,
            "n": self.n,
            "threshold": self.threshold,
            "analyzer": self.analyzer,
            "n_reference_texts": self.n_reference_texts,
            "n_items": len(self.items),
            "n_unjudged": sum(not item.n_grams for item in self.items),
            "n_flagged": len(self.flagged_ids),
            "rate": self.rate.to_dict(),
            "flagged_ids": list(self.flagged_ids),
            "items": [item.to_dict() for item in touched],
        }

    def effect(
        self,
        records: Records,
        column: str,
        *,
        confidence: float = DEFAULT_CONFIDENCE,
        n_resamples: int = DEFAULT_N_RESAMPLES,
        seed: SeedLike = None,
    ) -> ContaminationEffect:
        """Compare the results of a run with and without the flagged units.

        Parameters
        ----------
        records : Records
            Records of a run of the task.
        column : str
            Measured column, such as "accuracy".
        confidence, n_resamples, seed
            As in `summarise`.

        Returns
        -------
        ContaminationEffect
            Cells with confidence intervals; skipped if no unit is flagged. Differences have
            Newcombe intervals, or bootstrap intervals over groups if a group contains both flagged
            and unflagged units.

        Raises
        ------
        MissingColumnError
            If the records do not contain the column.
        InvalidInputError
            If the records contain units that were not checked.
        """
        if not isinstance(records, Records):
            raise InvalidTypeError(f"`records` is {records!r:.60}; it must be Records")
        if column not in records.columns:
            have = ", ".join(map(repr, records.columns))
            raise MissingColumnError(f"there is no column {column!r}; the columns are {have}")
        options: dict[str, Any] = {"confidence": confidence, "n_resamples": n_resamples}
        options["seed"] = seed
        dirty, judged = self._marks(records)
        mean = ms.mean_of(column)
        means = [
            _mean(records if part is None else records.take(np.flatnonzero(part)), mean, options)
            for part in (None, ~dirty, dirty)
        ]
        inflation, gap = _differences(records, column, dirty, means, options)
        return ContaminationEffect(
            column=column,
            overall=means[0],
            clean=means[1],
            dirty=means[2],
            inflation=inflation,
            gap=gap,
            n_flagged=len(np.unique(records.unit_id[dirty].astype(str))),
            n_unjudged=len(np.unique(records.unit_id[~judged].astype(str))),
        )

    def _marks(self, records: Records) -> tuple[BoolArray, BoolArray]:
        """Return masks of the rows that belong to flagged items and to items with n-grams."""
        known = {item.unit_id: item for item in self.items}
        dirty, judged = np.zeros((2, len(records)), dtype=np.bool_)
        for at, unit in enumerate(records.unit_id.astype(str).tolist()):
            # Several samples of one item are the units "id", "id#2", "id#3" …
            item = known.get(unit) or known.get(unit.rpartition("#")[0])
            if item is None:
                raise InvalidInputError(
                    f"the unit {unit!r} was not checked for overlap; pass the task of this run to `contamination`"
                )
            dirty[at], judged[at] = item.flagged, item.n_grams > 0
        return dirty, judged


def contamination(
    task: BaseTask[Any],
    corpus: Reference | NgramContaminationCheck,
    *,
    n: int = 13,
    threshold: float = 0.5,
    parts: Sequence[str] = PARTS,
    confidence: float = DEFAULT_CONFIDENCE,
) -> Contamination:
    """Search a corpus, such as a model's training data, for n-grams of a task's items.

    Parameters
    ----------
    task : BaseTask
        Task whose items are checked, using the entire sample split and no few-shot examples.
    corpus : path, list of str, list of Path, iterator, callable, or NgramContaminationCheck
        Corpus, as in `leakage.NgramContaminationCheck`. An existing check overrides ``n`` and
        ``threshold`` and determines the analyzer.
    n : int, default 13
        Number of words per n-gram.
    threshold : float, default 0.5
        Minimum fraction of an item's n-grams in the corpus for the item to be flagged.
    parts : sequence of str
        Parts to check: "question", "choices" or "answer". N-grams do not span parts.
    confidence : float, default 0.95
        Confidence level of the interval of the rate.

    Returns
    -------
    Contamination
        Overlap of every item, ids of flagged units, and the rate of flagged items among items with
        at least one n-gram. Since words that the prompt adds to a question are searched for as
        well, the overlap of an item that occurs verbatim in the corpus may be below 1.

    Raises
    ------
    InvalidInputError
        If an option is out of range, or the corpus contains no n-grams.
    ArtifactError
        If a file cannot be read.

    Examples
    --------
    >>> from eval_toolkit.tasks import CompletionSpec, Prompt, Task
    >>> rows = [{"q": "Which river runs through the old town of Heidelberg?", "a": "Neckar"},
    ...         {"q": "How many legs does a common garden spider have?", "a": "8"}]
    >>> task = Task("quiz", Prompt(instruction="{q}"), CompletionSpec(answer="a"), rows=rows)
    >>> found = contamination(task, ["… which river runs through the old town of heidelberg"], n=5)
    >>> found.rate.value, found.items[0].share
    (0.5, 1.0)
    """
    if not isinstance(task, BaseTask):
        raise InvalidTypeError(f"`task` is {task!r:.80}; it must be a task")
    if isinstance(parts, str) or not parts:
        raise InvalidInputError(f"`parts` is {parts!r}; it must be a list of {', '.join(PARTS)}")
    selected = [validation.choice(part, "parts", PARTS) for part in parts]
    check = corpus
    if not isinstance(check, NgramContaminationCheck):
        check = NgramContaminationCheck(check, n=n, threshold=threshold)
    items = [item for subject in task.subjects for item in task._items(subject, task.SAMPLE_SPLIT)]
    places: list[tuple[int, str]] = []
    texts: list[str] = []
    for at, item in enumerate(items):
        for part, text in item_texts(task, item):
            if part in selected:
                places.append((at, part))
                texts.append(text)
    counts = check.counts(texts)
    by_item: list[dict[str, tuple[int, int]]] = [{} for _ in items]
    for (at, part), n_found, n_all in zip(places, counts.n_found, counts.n_grams, strict=True):
        found, total = by_item[at].get(part, (0, 0))
        by_item[at][part] = (found + n_found, total + n_all)
    overlaps = tuple(
        _overlap(item, by_part, check.threshold)
        for item, by_part in zip(items, by_item, strict=True)
    )
    return Contamination(
        task=task.NAME,
        n=check.n,
        threshold=check.threshold,
        analyzer=check.analyzer,
        n_reference_texts=counts.n_reference_texts,
        items=overlaps,
        rate=_rate(overlaps, confidence),
    )


def item_texts(task: BaseTask[Any], item: Item) -> list[tuple[str, str]]:
    """Return the texts of an item by part; answers that are choices are not repeated."""
    if task.TASK_STYLER is not None:
        choices = list(task._get_choices(item))
        return [("question", task._get_raw_question(item)), *(("choices", c) for c in choices)]
    choices = list(task._get_possible_completions(item) or ())
    return [
        *(("question", text) for text in questions(task, item)),
        *(("choices", choice) for choice in choices),
        *(("answer", answer) for answer in answers(task, item) if answer not in choices),
    ]


def questions(task: BaseTask[Any], item: dict[str, Any]) -> list[str]:
    """Return the user messages that contain the question of an item, without examples."""
    try:
        turns = task._get_instruction_messages(item)
    except NotImplementedError:
        raise InvalidInputError(
            f"task {task.NAME!r} does not define which part of its prompts is the question; "
            "define _get_instruction_text"
        ) from None
    return [turn.content for turn in turns if turn.role is Role.USER]


def answers(task: BaseTask[Any], item: Item) -> list[str]:
    """Return the correct answers of an item as strings, with letters replaced by choice texts."""
    if task.TASK_STYLER is not None:
        return [task._get_choices(item)[task._get_correct_index(item)]]
    truth = task._get_ground_truth(item)
    return [truth] if isinstance(truth, str) else list(truth or ())


def _overlap(item: Item, by_part: dict[str, tuple[int, int]], threshold: float) -> ItemOverlap:
    n_found, n_all = (sum(counts[at] for counts in by_part.values()) for at in (0, 1))
    return ItemOverlap(
        unit_id=item.unit_id,
        group=item.unit_id if item.group is None else item.group,
        n_grams=n_all,
        n_found=n_found,
        by_part=by_part,
        flagged=n_all > 0 and n_found / n_all >= threshold,
    )


def _rate(items: Iterable[ItemOverlap], confidence: float) -> MetricResult:
    """Compute the rate of flagged items, clustered by group if items are not independent."""
    known = list(items)
    records = Records.from_columns(
        {"flagged": [float(item.flagged) if item.n_grams else None for item in known]},
        unit_id=[item.unit_id for item in known],
        group=[item.group for item in known],
        status={"flagged": ["ok" if item.n_grams else "skipped" for item in known]},
        reason={"flagged": ["" if item.n_grams else "shorter than one n-gram" for item in known]},
    )
    return summarise(records, [ms.mean_of("flagged", bounds=(0.0, 1.0))], confidence=confidence)[
        "flagged"
    ]


def _mean(records: Records, spec: Any, options: dict[str, Any]) -> MetricResult:
    if not len(records):
        return MetricResult(None, "skipped", "there are no such units")
    return summarise(records, [spec], **options)[spec.name]


def _differences(
    records: Records,
    column: str,
    dirty: BoolArray,
    means: Sequence[MetricResult],
    options: dict[str, Any],
) -> tuple[MetricResult, MetricResult]:
    """Compute the differences overall − clean and flagged − clean."""
    groups = records.group.astype(str)
    if np.intersect1d(groups[dirty], groups[~dirty]).size:
        card = summarise(_marked(records, column, dirty), [_INFLATION, _GAP], **options)
        return card[_INFLATION.name], card[_GAP.name]
    overall, clean, flagged = means
    gap = _independent_difference(flagged, clean)
    if clean.value is None or overall.value is None:
        return gap, gap
    if flagged.value is None:
        return MetricResult(None, "skipped", "no unit is flagged"), gap
    # The flagged units are fixed, so overall − clean is a fixed fraction of the gap.
    share = (flagged.n_units or 0) / (overall.n_units or 1)
    scaled = None
    if gap.ci is not None:
        scaled = replace(
            gap.ci,
            point_estimate=share * gap.ci.point_estimate,
            ci_low=share * gap.ci.ci_low,
            ci_high=share * gap.ci.ci_high,
        )
    return replace(gap, value=overall.value - clean.value, ci=scaled, n_units=overall.n_units), gap


def _independent_difference(a: MetricResult, b: MetricResult) -> MetricResult:
    """Compute a − b for two disjoint sets of units, with an interval derived from their intervals.

    The square-and-add limits of Zou and Donner (2008); for Wilson intervals of two rates they
    are Newcombe's (1998, method 10).
    """
    if a.value is None or b.value is None:
        absent = a if a.value is None else b
        return MetricResult(None, "skipped", absent.reason)
    n_units = (a.n_units or 0) + (b.n_units or 0)
    delta = a.value - b.value
    if a.ci is None or b.ci is None:
        return MetricResult(delta, "ok", "too few units for an interval", n_units=n_units)
    down = math.hypot(a.value - a.ci.ci_low, b.ci.ci_high - b.value)
    up = math.hypot(a.ci.ci_high - a.value, b.value - b.ci.ci_low)
    ci = BootstrapCI(delta, delta - down, delta + up, a.ci.confidence, 0, "square-and-add")
    return MetricResult(delta, "ok", ci=ci, n_units=n_units)


def _inflation(sums: FloatArray) -> FloatArray:
    value, all_, clean_value, clean = sums.T
    return value / all_ - clean_value / clean  # type: ignore[no-any-return]


def _gap(sums: FloatArray) -> FloatArray:
    value, all_, clean_value, clean = sums.T
    return (value - clean_value) / (all_ - clean) - clean_value / clean  # type: ignore[no-any-return]


_COLUMNS = ("value", "all", "clean_value", "clean")
_INFLATION = ms.from_sums("inflation", _COLUMNS, _inflation)
_GAP = ms.from_sums("gap", _COLUMNS, _gap)


def _marked(records: Records, column: str, dirty: BoolArray) -> Records:
    """Return records from whose sums the means over all units and over clean units follow."""
    value, clean = records.columns[column], (~dirty).astype(np.float64)
    there = records.status[column] == "ok"
    measured = np.where(there, value, 0.0)
    columns = (measured, np.ones(len(records)), measured * clean, clean)
    status = records.status[column].tolist()
    return Records.from_columns(
        {
            name: [cell if ok else None for cell, ok in zip(values, there, strict=True)]
            for name, values in zip(_COLUMNS, columns, strict=True)
        },
        unit_id=records.unit_id,
        attempt=records.attempt,
        group=records.group,
        status=dict.fromkeys(_COLUMNS, status),
    )

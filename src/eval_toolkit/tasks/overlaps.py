"""Items of a task that a model may have seen: in a corpus, or in its own examples."""

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

__all__ = ["Contamination", "ContaminationEffect", "ItemOverlap", "contamination"]

PARTS = ("question", "choices", "answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOverlap:
    """How much of one item occurs in the corpus."""

    unit_id: str
    group: str
    n_grams: int
    """0 where every part is shorter than one n-gram: the item was not judged."""
    n_found: int
    by_part: dict[str, tuple[int, int]]
    """Found and all n-grams of question, choices and answer."""
    flagged: bool

    @property
    def share(self) -> float | None:
        """Of the item's n-grams, how many the corpus has; None where there are none."""
        return self.n_found / self.n_grams if self.n_grams else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
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
    """A column of a run over all units, without the flagged ones, and over them alone."""

    column: str
    overall: MetricResult
    clean: MetricResult
    """Over the units that are not flagged, those that were too short to be judged among them."""
    dirty: MetricResult
    """Over the flagged units."""
    inflation: MetricResult
    """Overall − clean: by how much the flagged units move the result."""
    gap: MetricResult
    """Dirty − clean. Flagged units may also be harder or easier than the others."""
    n_flagged: int
    n_unjudged: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        cells = ("overall", "clean", "dirty", "inflation", "gap")
        return {
            "column": self.column,
            **{name: getattr(self, name).to_dict() for name in cells},
            "n_flagged": self.n_flagged,
            "n_unjudged": self.n_unjudged,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Contamination(Displayed):
    """Which items of a task occur in a corpus."""

    task: str
    n: int
    threshold: float
    analyzer: str
    n_reference_texts: int
    items: tuple[ItemOverlap, ...]
    rate: MetricResult
    """Of flagged among judged items; ``n_skipped`` counts those too short to be judged."""

    @property
    def flagged_ids(self) -> tuple[str, ...]:
        """The units of which the corpus has at least the threshold, sorted."""
        return tuple(sorted(item.unit_id for item in self.items if item.flagged))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; of the items those with any overlap, the largest first."""
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
        """Return what a run found with and without the flagged units.

        Parameters
        ----------
        records : Records
            Records of a run of the task.
        column : str
            A measured column, such as "accuracy".
        confidence, n_resamples, seed
            As in `summarise`.

        Returns
        -------
        ContaminationEffect
            Cells with intervals; skipped where nothing is flagged. Differences have Newcombe's
            interval, or where a group has flagged and other units the bootstrap over groups.

        Raises
        ------
        MissingColumnError
            If the records have no such column.
        InvalidInputError
            If they are of other units than the items that were looked at.
        """
        if not isinstance(records, Records):
            raise InvalidTypeError(f"`records` is {records!r:.60}; it must be Records")
        if column not in records.columns:
            have = ", ".join(map(repr, records.columns))
            raise MissingColumnError(f"there is no column {column!r}; there are {have}")
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
        """Return which lines are of flagged items, and which of items that were judged."""
        known = {item.unit_id: item for item in self.items}
        dirty, judged = np.zeros((2, len(records)), dtype=np.bool_)
        for at, unit in enumerate(records.unit_id.astype(str).tolist()):
            # An item that is asked about several times has units "id", "id#2", "id#3" …
            item = known.get(unit) or known.get(unit.rpartition("#")[0])
            if item is None:
                raise InvalidInputError(
                    f"the unit {unit!r} was not looked at; check the task that was run"
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
    """Look for the items of a task in a corpus, such as a model's training data, by n-grams.

    Parameters
    ----------
    task : BaseTask
        Whose items are looked for: all of its sample split, each by itself, without examples.
    corpus : path, list of texts, list of Path, iterator, callable, or NgramContaminationCheck
        As `leakage.NgramContaminationCheck` takes it; such a check brings its own n, threshold and
        analyzer.
    n : int, default 13
        Words of an n-gram.
    threshold : float, default 0.5
        Share of an item's n-grams from which it is flagged.
    parts : sequence of str
        What of an item counts: some of "question", "choices", "answer". No n-gram spans two parts.
    confidence : float, default 0.95
        Confidence level of the rate's interval.

    Returns
    -------
    Contamination
        Every item with its share, the flagged ids, and their rate among the items that have an
        n-gram at all. Words that the prompt adds to a question are looked for as well, so an item
        that is in the corpus word for word may have a share below 1.

    Raises
    ------
    InvalidInputError
        If an option is out of range, or the corpus holds no n-gram.
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
    wanted = [validation.choice(part, "parts", PARTS) for part in parts]
    check = corpus
    if not isinstance(check, NgramContaminationCheck):
        check = NgramContaminationCheck(check, n=n, threshold=threshold)
    items = [item for subject in task.subjects for item in task._items(subject, task.SAMPLE_SPLIT)]
    places: list[tuple[int, str]] = []
    texts: list[str] = []
    for at, item in enumerate(items):
        for part, text in item_texts(task, item):
            if part in wanted:
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
    """Return the texts of an item by part: its question, each choice, each answer that is none."""
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
    """Return the texts that a user says when asking about an item alone."""
    try:
        turns = task._get_instruction_messages(item)
    except NotImplementedError:
        raise InvalidInputError(
            f"task {task.NAME!r} does not say what of its prompts is the question; define "
            "_get_instruction_text"
        ) from None
    return [turn.content for turn in turns if turn.role is Role.USER]


def answers(task: BaseTask[Any], item: Item) -> list[str]:
    """Return the right answers of an item as texts; of a letter what stands behind it."""
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
    """Return the rate of flagged items, of groups where items are not independent."""
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
        return MetricResult(None, "skipped", "there is no such unit")
    return summarise(records, [spec], **options)[spec.name]


def _differences(
    records: Records,
    column: str,
    dirty: BoolArray,
    means: Sequence[MetricResult],
    options: dict[str, Any],
) -> tuple[MetricResult, MetricResult]:
    """Return overall − clean and dirty − clean."""
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
    # Which units are flagged is settled, so overall − clean is a fixed share of the gap.
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
    """Return a − b of two disjoint sets of units, with the interval that follows from theirs.

    The square-and-add limits of Zou and Donner (2008); for Wilson's intervals of two rates they
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
    """Return records whose sums give the mean over all units and over the clean ones."""
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

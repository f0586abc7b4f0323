"""Evaluation loop shared by all entry points: score slices, select thresholds, compute metrics."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.harness.cells import CellSettings, paired_entry, part_blocks, scored_block
from eval_toolkit.harness.progress import Ticker
from eval_toolkit.harness.rows import Rows
from eval_toolkit.harness.scoring import Scored, Scoring, score_rows
from eval_toolkit.harness.thresholding import FittedThresholds, fit_thresholds, transferred
from eval_toolkit.manifest import collect_versions
from eval_toolkit.protocols import ThresholdSelector
from eval_toolkit.scorecards import Records, Scorecard
from eval_toolkit.thresholds.operating_points import OperatingPointSpec

Outcomes = dict[str, dict[str, Scored]]
"""Scores by slice and scorer."""


@dataclass(frozen=True)
class Options:
    """Options that apply to all slices, scorers and folds."""

    scoring: Scoring
    measuring: CellSettings
    pairs: tuple[tuple[str, str], ...] = ()
    selectors: tuple[ThresholdSelector, ...] = ()
    threshold_slice: str | None = None
    op_specs: tuple[OperatingPointSpec, ...] = ()

    def needed(self, shown: Iterable[str]) -> list[str]:
        """Return the slices to score: reported slices and slices used to select thresholds."""
        names = [*shown, *(spec.fit_slice for spec in self.op_specs)]
        names += [] if self.threshold_slice is None else [self.threshold_slice]
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class ScoredPart:
    """Slices together with the scores of every scorer."""

    rows: Mapping[str, Rows]
    scored: Outcomes
    shown: Sequence[str]
    options: Options
    thresholds: Mapping[str, FittedThresholds]
    """Thresholds of each scorer, selected on these slices or elsewhere."""


@dataclass
class Part:
    """Results of one pass over the slices."""

    by_slice: dict[str, Any] = field(default_factory=dict)
    records: dict[tuple[str, str], Records] = field(default_factory=dict)
    cards: dict[tuple[str, str], Scorecard] = field(default_factory=dict)
    thresholds: list[dict[str, Any]] = field(default_factory=list)

    @property
    def threshold_policy(self) -> dict[str, Any]:
        """Provenance of the thresholds, as stored in the result."""
        return {"thresholds": self.thresholds} if self.thresholds else {}


def checked_pairs(pairs: Any, scorers: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Validate pairs of scorer names: every entry must be a pair of known names."""
    if pairs is None:
        return ()
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidTypeError(
            f"`paired_diffs` is {pairs!r}; it must be a list of pairs (a, b) of scorer names"
        )
    known = list(scorers)
    checked: list[tuple[str, str]] = []
    for index, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InvalidInputError(
                f"paired_diffs[{index}] is {pair!r}; it must be a pair (a, b) of scorer names"
            )
        for name in pair:
            if name not in known:
                raise MissingColumnError(
                    f"paired_diffs[{index}]: no scorer {name!r}; "
                    f"the scorers are {', '.join(map(repr, known))}"
                )
        if pair[0] == pair[1]:
            raise InvalidInputError(f"paired_diffs[{index}] compares {pair[0]!r} with itself")
        checked.append((pair[0], pair[1]))
    return tuple(checked)


def score_part(
    scorers: Mapping[str, Any],
    slices: Mapping[str, Any],
    shown: Sequence[str],
    options: Options,
    ticker: Ticker,
    *,
    thresholds: Mapping[str, FittedThresholds] | None = None,
    precomputed: Mapping[tuple[str, str], ArrayLike] | None = None,
) -> ScoredPart:
    """Score the reported slices and the slices used to select thresholds.

    ``thresholds`` are thresholds already selected on other slices.
    """
    rows = {name: Rows(name, slices[name]) for name in options.needed(shown)}
    for name in shown:
        rows[name].check()
    scored: Outcomes = {
        name: {
            key: score_rows(
                scorer, key, part, options.scoring, ticker, (precomputed or {}).get((name, key))
            )
            for key, scorer in scorers.items()
        }
        for name, part in rows.items()
    }
    fitted = dict(thresholds or {})
    if options.threshold_slice is not None:
        where = options.threshold_slice
        fitted = {
            key: fit_thresholds(
                rows[where].labels, outcome, options.selectors, fitted_on=where, scorer=key
            )
            for key, outcome in scored[where].items()
        }
    return ScoredPart(rows, scored, shown, options, fitted)


def measure_part(given: ScoredPart) -> Part:
    """Compute the metrics of the reported slices."""
    part = Part()
    for name in given.shown:
        _measure(part, given.rows[name], given.scored[name], given.options, given.thresholds)
    for found in given.thresholds.values():
        part.thresholds += found.entries([name for name in given.shown if name != found.fitted_on])
    for spec in given.options.op_specs:
        _transfer(part, spec, given.rows, given.scored)
    return part


def _measure(
    part: Part,
    rows: Rows,
    scored: Mapping[str, Scored],
    options: Options,
    thresholds: Mapping[str, FittedThresholds],
) -> None:
    """Compute the metrics of one slice and store them with its records."""
    found = [outcome.scores for outcome in scored.values() if outcome.scores is not None]
    unit_ids = rows.unit_ids(found)
    by_scorer: dict[str, Any] = {}
    cards: dict[str, Scorecard] = {}
    for name, outcome in scored.items():
        if outcome.scores is None:
            by_scorer[name] = outcome.block
            if outcome.is_failure:
                part.records[rows.name, name] = rows.records(None, unit_ids, outcome.why)
            continue
        records = part.records[rows.name, name] = rows.records(outcome.scores, unit_ids)
        chosen = thresholds.get(name, FittedThresholds(name, ""))
        own = chosen.fitted_on == rows.name
        by_scorer[name], cards[name] = scored_block(
            rows,
            outcome.scores,
            records,
            options.measuring,
            [] if own else chosen.specs(),
            chosen.withheld() if own else chosen.absent(),
        )
    entry = {
        **rows.counts,
        "by_scorer": by_scorer,
        "paired_diffs": {
            f"{b}_minus_{a}": paired_entry(rows, unit_ids, scored[a], scored[b], options.measuring)
            for a, b in options.pairs
        },
        "unit_ids": unit_ids,
    }
    part.cards |= {(rows.name, name): card for name, card in cards.items()}
    parts = part_blocks(rows, cards, scored)
    part.by_slice[rows.name] = entry | ({"parts": parts} if parts else {})


def _transfer(
    part: Part,
    spec: OperatingPointSpec,
    rows: Mapping[str, Rows],
    scored: Outcomes,
) -> None:
    """Add an operating-point spec's results to its target slices."""
    for key in spec.scorer_names or tuple(scored[spec.fit_slice]):
        applied, entries = transferred(
            spec,
            key,
            (rows[spec.fit_slice], scored[spec.fit_slice][key]),
            {name: (rows[name], scored[name][key]) for name in spec.apply_slices},
        )
        part.thresholds += entries
        for name, points in applied.items():
            if scored[name][key].scores is None:  # the reason is in its block
                continue
            block = part.by_slice[name]["by_scorer"][key]
            block.setdefault("transferred_operating_points", {})[spec.name] = points


def collected_versions(
    scorers: Mapping[str, Any],
    options: Options,
    checks: Iterable[Any] = (),
    splitter: Any = None,
) -> dict[str, str]:
    """Return the versions of all versioned objects, keyed by unique names."""
    objects: dict[str, Any] = {f"scorer:{name}": item for name, item in scorers.items()}
    specs = (*options.measuring.specs, options.measuring.paired_spec)
    objects |= {f"metric:{spec.name}": spec for spec in specs}
    objects |= {f"check:{check.name}": check for check in checks}
    selectors = [*options.selectors, *(s for spec in options.op_specs for s in spec.selectors)]
    objects |= {f"selector:{selector.criterion}": selector for selector in selectors}
    if splitter is not None:
        objects[f"splitter:{type(splitter).__name__}"] = splitter
    return collect_versions(objects)

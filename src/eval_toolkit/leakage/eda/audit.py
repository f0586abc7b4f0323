"""Dataset audit: split summaries, leakage checks and gates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.plain import plain
from eval_toolkit.artifacts import write_json_strict
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import ProportionInterval, wilson_interval
from eval_toolkit.leakage import (
    ConfusableFormLeakageCheck,
    CrossSplitLeakageCheck,
    ExactDuplicateCheck,
    LeakageFinding,
    LeakageReport,
    NearDuplicateCheck,
    run_leakage_checks,
)
from eval_toolkit.leakage.eda._texts import present
from eval_toolkit.leakage.eda.summaries import SplitSummary, summarize_split
from eval_toolkit.protocols import DatasetLoader, LeakageCheck
from eval_toolkit.provenance import utc_now
from eval_toolkit.slices import EvalSlice

AUDIT_SCHEMA_VERSION = "v2"
_TRAIN = "train"

GateStatus: TypeAlias = Literal["ok", "skipped"]


@dataclass(frozen=True, slots=True)
class AuditGate:
    """Result of one gate of an audit.

    Examples
    --------
    >>> print(AuditGate("class_balance", False, "ok", "test: all 5 rows are negative"))
    class_balance: failed (test: all 5 rows are negative)
    """

    name: str
    passed: bool
    status: GateStatus
    """"skipped" if the gate is not applicable; skipped gates count as passed."""
    reason: str
    """One-line explanation of the status."""
    evidence: dict[str, Any] = field(default_factory=dict)
    """Numbers on which the decision is based, by split."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "name": self.name,
            "passed": self.passed,
            "status": self.status,
            "reason": self.reason,
            "evidence": plain(self.evidence),
        }

    def __str__(self) -> str:
        answer = "skipped" if self.status == "skipped" else "passed" if self.passed else "failed"
        return f"{self.name}: {answer} ({self.reason})"


@dataclass(frozen=True, slots=True, repr=False)
class DataAudit(Displayed):
    """Results of an audit.

    Examples
    --------
    >>> from eval_toolkit.loaders import SingleSliceLoader
    >>> part = EvalSlice("demo", {"text": ["good", "bad"], "label": [0, 1]})
    >>> audit = audit_dataset(SingleSliceLoader(part))
    >>> audit.gate_passed, sorted(audit.to_dict())[:3]
    (True, ['dataset_name', 'gate_passed', 'gate_summary'])
    """

    schema_version: str
    dataset_name: str
    run_timestamp: str
    """UTC, ``YYYY-MM-DDTHH:MM:SSZ``."""
    split_summaries: dict[str, SplitSummary]
    leakage_reports: dict[str, LeakageReport]
    """Reports "within_split" and "cross_split"; empty if no checks were requested."""
    gates: dict[str, AuditGate]

    @property
    def gate_passed(self) -> bool:
        """Whether all gates passed."""
        return all(gate.passed for gate in self.gates.values())

    @property
    def gate_summary(self) -> str:
        """One-line summary of all gates, with the reasons for failures."""
        failed = [str(gate) for gate in self.gates.values() if not gate.passed]
        skipped = [gate.name for gate in self.gates.values() if gate.status == "skipped"]
        n_passed = len(self.gates) - len(failed) - len(skipped)
        parts = [f"{n_passed} of {len(self.gates)} gates passed"]
        if skipped:
            parts.append(f"skipped: {', '.join(skipped)}")
        return "; ".join(parts + failed)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload = {
            "schema_version": self.schema_version,
            "dataset_name": self.dataset_name,
            "run_timestamp": self.run_timestamp,
            "split_summaries": self.split_summaries,
            "leakage_reports": self.leakage_reports,
            "gates": self.gates,
            "gate_passed": self.gate_passed,
            "gate_summary": self.gate_summary,
        }
        return plain(payload)  # type: ignore[no-any-return]

    def write(self, path: str | Path) -> Path:
        """Write the audit atomically as strict JSON; missing folders are created.

        Parameters
        ----------
        path : path
            Target file.

        Returns
        -------
        Path
            ``path``, as a `Path`.

        Raises
        ------
        InvalidTypeError
            If ``path`` is not a path.

        Examples
        --------
        >>> import json, tempfile
        >>> audit = DataAudit("v2", "demo", "2026-01-01T00:00:00Z", {}, {}, {})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     json.loads(audit.write(Path(folder) / "audit.json").read_text())["dataset_name"]
        'demo'
        """
        validation.place(path, "path")
        return write_json_strict(self.to_dict(), path)


def audit_dataset(
    loader: DatasetLoader,
    *,
    tokenizer: Callable[[str], Any] | None = None,
    context_window: int | None = None,
    exact: bool = True,
    near: bool = True,
    near_threshold: float = 0.9,
    cross_split: bool = True,
    cross_split_threshold: float = 0.9,
    obfuscation: bool = True,
    min_neg_pos_ratio: float = 0.1,
    max_neg_pos_ratio: float = 10.0,
    pct_over_context_threshold: float = 0.05,
) -> DataAudit:
    """Audit all splits of a dataset before an evaluation.

    Parameters
    ----------
    loader : DatasetLoader
        Loader that returns the splits.
    tokenizer : callable, optional
        ``tokenizer(text)`` returns tokens, or a mapping with ``input_ids``; called once per text.
    context_window : int, optional
        Context window of the model in tokens.
    exact, near : bool, default True
        Whether to check for copies and near-duplicates within each split.
    near_threshold : float, default 0.9
        Minimum similarity of near-duplicates within a split.
    cross_split : bool, default True
        Whether to check for rows of other splits that resemble rows of the "train" split.
    cross_split_threshold : float, default 0.9
        Minimum similarity of near-duplicates across splits.
    obfuscation : bool, default True
        Whether to run `analyze_obfuscation`, and to check for obfuscated copies of training rows
        (`ConfusableFormLeakageCheck`).
    min_neg_pos_ratio, max_neg_pos_ratio : float, default 0.1 and 10
        Range of negatives per positive that the gate ``class_balance`` accepts in each split.
    pct_over_context_threshold : float, default 0.05
        Largest fraction of texts longer than the context window that ``context_window_fit`` accepts
        in any split.

    Returns
    -------
    DataAudit
        Summaries, leakage reports and the gates ``class_balance`` (a single class fails),
        ``no_cross_split_leakage`` (skipped unless there are "train" and another split) and
        ``context_window_fit`` (skipped without tokenizer and window).

    Raises
    ------
    InvalidTypeError
        If the loader is not a `DatasetLoader`, a split is not an `EvalSlice`, or a row is neither
        text nor missing.
    InvalidInputError
        If there are no splits, a bound is out of range, or the tokenizer fails.

    Notes
    -----
    Rows without a text are counted but excluded from the leakage checks. Row numbers always refer
    to the splits as loaded.

    Examples
    --------
    >>> from eval_toolkit.loaders import DataFrameLoader
    >>> rows = {
    ...     "text": ["win a prize now", "see you at noon", "w1n a pr1ze", "Win a prize now"],
    ...     "label": [1, 0, 0, 1],
    ...     "split": ["train", "train", "test", "test"],
    ... }
    >>> audit = audit_dataset(DataFrameLoader(rows, "split", name="demo"))
    >>> print(audit.gates["no_cross_split_leakage"])
    no_cross_split_leakage: failed (rows that resemble a training row: 1 of 2 rows (0.500 [0.095,
    0.905]) of test)
    >>> audit.leakage_reports["cross_split"].merged_drop_indices()
    {'test': [1]}
    """
    if isinstance(loader, type) or not isinstance(loader, DatasetLoader):
        raise InvalidTypeError(
            f"`loader` is {loader!r:.80}; it must have the methods load_splits and describe"
        )
    near_at = validation.fraction(near_threshold, "near_threshold")
    across_at = validation.fraction(cross_split_threshold, "cross_split_threshold")
    low = validation.number(min_neg_pos_ratio, "min_neg_pos_ratio", low=0.0)
    high = validation.number(max_neg_pos_ratio, "max_neg_pos_ratio", low=low)
    share = validation.number(
        pct_over_context_threshold, "pct_over_context_threshold", low=0.0, high=1.0
    )
    splits = _loaded(loader)
    summaries = {
        name: summarize_split(
            part, tokenizer=tokenizer, context_window=context_window, obfuscation=obfuscation
        )
        for name, part in splits.items()
    }
    within: list[LeakageCheck] = [ExactDuplicateCheck(scope="within")] if exact else []
    if near:
        within.append(NearDuplicateCheck(near_at, scope="within"))
    not_asked = _why_not_across(splits, cross_split)
    across = [] if not_asked else _across_checks(splits, across_at, disguised=obfuscation)
    reports = {"within_split": _checked(within, splits), "cross_split": _checked(across, splits)}
    gates = (
        _balance_gate(summaries, low, high),
        _leakage_gate(reports["cross_split"], summaries, not_asked),
        _window_gate(summaries, tokenizer is not None, context_window, share),
    )
    return DataAudit(
        schema_version=AUDIT_SCHEMA_VERSION,
        dataset_name=str(loader.describe().get("name") or type(loader).__name__),
        run_timestamp=utc_now(),
        split_summaries=summaries,
        leakage_reports=reports,
        gates={gate.name: gate for gate in gates},
    )


def _loaded(loader: DatasetLoader) -> dict[str, EvalSlice]:
    """Load the splits and name each slice after its key."""
    splits = loader.load_splits()
    if not isinstance(splits, Mapping):
        raise InvalidTypeError(
            f"`loader`: load_splits returned a {type(splits).__name__}; it must return a dict of split "
            "name to EvalSlice"
        )
    if not splits:
        raise InvalidInputError("`loader` returned no splits")
    for name, part in splits.items():
        if not isinstance(part, EvalSlice):
            raise InvalidTypeError(
                f"`loader`: split {name!r} is a {type(part).__name__}; wrap it: "
                f"EvalSlice({name!r}, df)"
            )
    return {
        name: part if part.name == name else part.renamed(name) for name, part in splits.items()
    }


# --- leakage ------------------------------------------------------------------------------------


def _why_not_across(splits: Mapping[str, EvalSlice], requested: bool) -> str:
    """Return the reason why splits are not compared, or ""."""
    if not requested:
        return "`cross_split` is False"
    if _TRAIN not in splits:
        return f"there is no split {_TRAIN!r}; the splits are {', '.join(map(repr, splits))}"
    return "" if len(splits) > 1 else f"there is no split besides {_TRAIN!r}"


def _across_checks(
    splits: Mapping[str, EvalSlice], threshold: float, *, disguised: bool
) -> list[LeakageCheck]:
    checks: list[LeakageCheck] = [CrossSplitLeakageCheck(_TRAIN, threshold=threshold)]
    if disguised:  # one check per split, to ignore copies between two evaluation splits
        checks += [
            ConfusableFormLeakageCheck((_TRAIN, name), scope="across")
            for name in splits
            if name != _TRAIN
        ]
    return checks


def _checked(checks: list[LeakageCheck], splits: Mapping[str, EvalSlice]) -> LeakageReport:
    """Run checks on the rows with text; findings use the row numbers of the loaded data."""
    if not checks:
        return LeakageReport()
    rows: dict[str, list[int]] = {}
    parts = dict(splits)
    for name, part in splits.items():
        known, _, n_missing = present(part.inputs)
        if n_missing:
            rows[name] = known
            parts[name] = part.take(np.array(known, np.int64))
    found = run_leakage_checks(checks, parts).findings
    return LeakageReport([_renumbered(finding, rows) for finding in found] if rows else found)


def _renumbered(finding: LeakageFinding, rows: Mapping[str, list[int]]) -> LeakageFinding:
    """Return a finding with row numbers mapped from a subset to all rows."""

    def old(split: str, row: int) -> int:
        return rows[split][row] if split in rows else row

    drop = finding.drop_indices
    if drop is not None:
        drop = {split: [old(split, row) for row in at] for split, at in drop.items()}
    evidence = dict(finding.evidence)
    for key in ("dropped_pairs_by_split", "pairs", "collisions_by_split"):
        if key in evidence:
            evidence[key] = {
                split: [[old(split, row) for row in pair] for pair in pairs]
                for split, pairs in evidence[key].items()
            }
    evidence["across_splits"] = [
        {
            "split": pair["split"],
            "row": old(pair["split"], pair["row"]),
            "copy_of": {
                "split": pair["copy_of"]["split"],
                "row": old(pair["copy_of"]["split"], pair["copy_of"]["row"]),
            },
        }
        for pair in evidence.get("across_splits", [])
    ]
    return replace(finding, drop_indices=drop, evidence=evidence)


# --- gates --------------------------------------------------------------------------------------


def _balance_gate(summaries: Mapping[str, SplitSummary], low: float, high: float) -> AuditGate:
    failed = []
    for name, summary in summaries.items():
        balance = summary.balance
        ratio = balance.neg_pos_ratio
        if balance.single_class or ratio is None:
            failed.append(f"{name}: {balance.reason}")
        elif not low <= ratio <= high:
            failed.append(
                f"{name}: {ratio:.3g} negative rows per positive row, outside [{low:g}, {high:g}]"
            )
    evidence = {name: summary.balance.to_dict() for name, summary in summaries.items()}
    fine = f"{low:g} to {high:g} negative rows per positive row in every split"
    return AuditGate("class_balance", not failed, "ok", "; ".join(failed) or fine, evidence)


def _leakage_gate(
    report: LeakageReport, summaries: Mapping[str, SplitSummary], not_asked: str
) -> AuditGate:
    name = "no_cross_split_leakage"
    if not_asked:
        return AuditGate(name, True, "skipped", not_asked)
    leaked = report.merged_drop_indices()
    shares = {
        split: wilson_interval(len(leaked.get(split, ())), summary.n - summary.n_missing)
        for split, summary in summaries.items()
        if split != _TRAIN
    }
    evidence = {split: found.to_dict() for split, found in shares.items()}
    leaks = [f"{_share(found)} of {split}" for split, found in shares.items() if found.successes]
    reason = "no row of another split resembles a training row"
    if leaks:
        reason = f"rows that resemble a training row: {', '.join(leaks)}"
    return AuditGate(name, not leaks, "ok", reason, evidence)


def _window_gate(
    summaries: Mapping[str, SplitSummary], tokenized: bool, window: int | None, most: float
) -> AuditGate:
    name = "context_window_fit"
    missing = [
        what
        for what, given in (("`tokenizer`", tokenized), ("`context_window`", window is not None))
        if not given
    ]
    if missing:
        return AuditGate(name, True, "skipped", f"it needs {' and '.join(missing)}")
    shares = {
        split: summary.over_context
        for split, summary in summaries.items()
        if summary.over_context is not None
    }
    failed = [
        f"{_share(found)} of {split}"
        for split, found in shares.items()
        if found.proportion is not None and found.proportion > most
    ]
    reason = f"at most {most:.3g} of the texts of every split are over {window} tokens"
    if failed:
        reason = f"texts over {window} tokens: {', '.join(failed)}; the largest accepted share is {most:.3g}"
    evidence = {split: found.to_dict() for split, found in shares.items()}
    return AuditGate(name, not failed, "ok", reason, evidence)


def _share(found: ProportionInterval) -> str:
    """Format a proportion: ``12 of 100 rows (0.120 [0.070, 0.198])``."""
    return (
        f"{found.successes} of {found.n} rows "
        f"({found.proportion:.3f} [{found.low:.3f}, {found.high:.3f}])"
    )

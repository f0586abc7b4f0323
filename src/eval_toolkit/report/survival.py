"""Survival section: the share without failure by turn and by attack."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.display import Count, Estimate, Number, Rows, Table
from eval_toolkit._internal.tables.sources import checked_place, connection, plain_errors
from eval_toolkit._internal.validation import IntArray
from eval_toolkit._internal.words import percent_and_ends
from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.inference import clustered_rate, score_interval
from eval_toolkit.inference.survival_data import no_event_bound
from eval_toolkit.report.sections import Figure, Section, Wanted
from eval_toolkit.runs import Run
from eval_toolkit.runs.folder import TURNS

_CURVES = {
    "survival": ("Conversations without a failure", "Share without a failure"),
    "survival_own": (
        "Conversations without a failure other than an echo of the tester",
        "Share without a failure other than an echo",
    ),
}
_COUNTS = ("times", "n_at_risk", "n_events")
_SHARES = ("survival", "ci_low", "ci_high")


def build(run: Run, wanted: Wanted) -> Section | None:
    """Return the section; None for a run without turns."""
    stored = (run.results_full or {}).get("rollouts")
    if not isinstance(stored, Mapping) or "survival" not in stored:
        return None
    at_the_end = _looks_at_the_end(run)
    figures: list[Figure] = []
    tables: list[Table] = []
    notes: list[str] = []
    for name, (title, label) in _CURVES.items():
        told = stored.get(name)
        if not isinstance(told, Mapping):
            continue
        curve = _every_turn(told, at_the_end)
        if curve is None:
            notes.append(
                f"no curve of {title.lower()}: {told.get('reason') or 'no rollout was observed'}"
            )
            continue
        if wanted.charts and curve["depth"] > 1:
            figures.append(_figure(curve, title, label, name))
        else:
            tables.append(_curve_table(curve, title))
    curve = _every_turn(stored["survival"], at_the_end)
    return Section(
        id="survived",
        menu="Survival",
        title="When did the target fail?",
        template="survival.html",
        lead="" if curve is None else _lead(curve),
        data={
            "figures": figures,
            "tables": [*tables, *_by_turn(stored, run), *_by_attack(run, wanted.confidence)],
            "absent": notes,
        },
        notes=[] if curve is None else _notes(curve),
    )


def overlaid(runs: Sequence[Run], names: Sequence[str], anchor: str) -> list[Figure]:
    """Return the survival curves of several runs in one chart; None if a run lacks a curve."""
    curves = {}
    for run, name in zip(runs, names, strict=True):
        stored = (run.results_full or {}).get("rollouts")
        told = stored.get("survival") if isinstance(stored, Mapping) else None
        curve = None if told is None else _every_turn(told, _looks_at_the_end(run))
        if curve is None or curve["depth"] == 1:  # a single turn is no curve
            return []
        curves[name] = curve
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_survival_curves

    title, label = _CURVES["survival"]
    rows: Rows = [
        [name, *row] for name, curve in curves.items() for row in _curve_table(curve, "").rows
    ]
    header = ["run", *_curve_table(next(iter(curves.values())), "").header]
    return [
        drawn(
            plot_survival_curves(curves, value_label=label),
            anchor=anchor,
            title=f"{title}: {' and '.join(names)}",
            caption="Higher is better. Bands are pointwise intervals for each run; the table of "
            "failures by turn tests whether the runs differ.",
            table=Table(header, rows),
        )
    ]


def _every_turn(stored: Any, at_the_end: bool = False) -> dict[str, Any] | None:
    """Return a stored curve with an entry for every turn up to the depth; None if it is undefined.

    Runs store a curve only at turns where a conversation ended. Intervals are computed by
    `SurvivalCurve.failure_by`, as for the cells of failures by turn. For scorers that see only
    complete conversations, earlier turns are omitted.
    """
    if not isinstance(stored, Mapping) or stored.get("status") != "ok" or not stored.get("times"):
        return None
    times, at_risk, events, worth, survival, low, high = (
        np.asarray(stored[name], dtype=np.float64)
        for name in (*_COUNTS, "n_groups_at_risk", *_SHARES)
    )
    depth, level = int(stored["depth"]), float(stored["confidence"])
    n, alone = int(stored["n_units"]), stored["n_groups"] is None and not stored["n_unobserved"]
    found: dict[str, list[float]] = {name: [] for name in (*_COUNTS, *_SHARES)}
    methods = set()
    for turn in range(depth if at_the_end else 1, max(depth, int(times[-1])) + 1):
        last = int(np.searchsorted(times, turn, side="right")) - 1
        next_ = int(np.searchsorted(times, turn))
        left = float(survival[last]) if last >= 0 else 1.0
        if next_ == len(times) and left > 0.0:
            break  # no conversation observed for so long
        failed = float(events[times <= turn].sum())
        risk = float(at_risk[next_]) if next_ < len(times) else 0.0
        if alone and risk == n - float(events[times < turn].sum()):  # no earlier censoring
            low_end, high_end = score_interval(round(failed) / n, n, confidence=level)
            ends = 1.0 - high_end, 1.0 - low_end
            methods.add("wilson")
        elif left == 1.0:
            few = stored["n_groups"] == 1
            ends = 0.0 if few else 1.0 - no_event_bound(float(worth[next_]), level), 1.0
            methods.add("curve")
        else:
            ends = float(low[last]), float(high[last])
            methods.add("curve")
        here = float(events[last]) if last >= 0 and times[last] == turn else 0.0
        for name, value in zip(found, (turn, risk, here, left, *ends), strict=True):
            found[name].append(value)
    return {**stored, **found, "methods": methods} if found["times"] else None


def _looks_at_the_end(run: Run) -> bool:
    """Return whether the scorer sees only complete conversations, not earlier turns."""
    config = run.manifest.get("config") or {}
    told = (config.get("scorers") or {}).get(config.get("scored_by"))
    return isinstance(told, Mapping) and told.get("mode") == "final"


def _figure(curve: Mapping[str, Any], title: str, label: str, name: str) -> Figure:
    from eval_toolkit.report.figures import drawn
    from eval_toolkit.report.plots import plot_survival

    level = 100 * float(curve.get("confidence") or 0.95)
    return drawn(
        plot_survival(curve, value_label=label),
        anchor=name.replace("_", "-"),
        title=title,
        caption=f"{_estimated(curve, f'pointwise {level:g} %')}; below, the numbers at risk.",
        table=_curve_table(curve, ""),
    )


def _estimated(curve: Mapping[str, Any], level: str) -> str:
    """Describe how the shares and their intervals were estimated."""
    if curve["methods"] == {"wilson"}:
        return f"Observed shares, {level} Wilson intervals"
    more = (
        ", Wilson intervals before the first rollout was cut short"
        if "wilson" in curve["methods"]
        else ""
    )
    return f"Kaplan–Meier, {level} band{more}"


def _curve_table(curve: Mapping[str, Any], title: str) -> Table:
    rows = [
        [
            Count(time),
            Count(at_risk),
            Count(events),
            *Estimate(1.0 - value, 1.0 - high, 1.0 - low).split(),
            Number(value),
        ]
        for time, at_risk, events, value, low, high in zip(
            *(curve[name] for name in (*_COUNTS, *_SHARES)), strict=True
        )
    ]
    header = ["turn", "at risk", "failed in turn", "failed by turn", "interval", "not failed"]
    return Table(header, rows, title)


def _lead(curve: Mapping[str, Any]) -> str:
    """Return a sentence on the failures by the first and by the last observed turn."""
    times, held = list(curve["times"]), list(curve["survival"])
    shares = [percent_and_ends(1.0 - one)[0] for one in (held[0], held[-1])]
    first = f"By turn {Count(times[0])} the target had failed in {shares[0]} of conversations"
    if len(times) == 1:
        return f"{first}."
    last = f"by turn {Count(times[-1])} in {shares[1]}"
    half = next((time for time, share in zip(times, held, strict=True) if share <= 0.5), None)
    median = "" if half is None else f" Half of them had failed by turn {Count(half)}."
    return f"{first}, {last}.{median}"


def _notes(curve: Mapping[str, Any]) -> list[str]:
    notes = []
    if curve.get("n_cut_short"):
        notes.append(
            f"{Count(curve['n_cut_short'])} conversations failed with an error or were cut short; "
            f"they count up to their last observed turn"
        )
    if curve.get("reason") and "curve" in curve["methods"]:
        notes.append(str(curve["reason"]).replace(" rows:", " conversations:"))
    if curve.get("policy") and curve["policy"] != "expectation":
        notes.append(f"trees are summarised by the policy {curve['policy']}")
    return notes


def _by_turn(stored: Mapping[str, Any], run: Run) -> list[Table]:
    """Return a table with the outcomes of each turn, regardless of earlier turns."""
    turns = stored.get("turns")
    if not isinstance(turns, list) or not turns:
        return []
    config = run.manifest.get("config") or {}
    scorer = config.get("scored_by")
    columns = {
        "replies": "n",
        "broke": "n_errors",
        "share that failed": "event_rate",
        f"mean {scorer}": f"{scorer}_mean",
        "share that refused": "refusal_rate",
        "echoes among failures": "echo_rate",
        "empty": "n_empty",
    }
    rows = [
        [turn.get("turn"), *(_known(turn.get(key)) for key in columns.values())] for turn in turns
    ]
    header = ["turn", *columns]
    table = Table(header, rows, "By turn, regardless of earlier turns")
    told = (at for at in range(len(header)) if any(r[at].text not in ("", "0") for r in table.rows))
    return [table.only(sorted({0, 1, *told}))]


def _known(value: Any) -> int | float | None:
    """Return a stored value if it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _by_attack(run: Run, confidence: float) -> list[Table]:
    """Return a table with the success rate of each attack, if there are several."""
    attacks, units, events = _probes(run)
    names = np.unique(attacks)
    if len(names) < 2:
        return []
    rows = []
    for name in names.tolist():
        own = attacks == name
        scored = own & (events >= 0)
        counts = [int(count) for count in (own.sum(), scored.sum(), (events[own] == 1).sum())]
        share = Estimate(None)
        if scored.any():
            # Probes of one conversation are not independent.
            rate = clustered_rate(events[scored] == 1, units[scored], confidence)
            share = Estimate(rate.proportion, rate.low, rate.high)
        rows.append([name or "(none)", *counts, *share.split()])
    header = ["attack", "probes", "scored", "failed", "share that failed", "interval"]
    return [Table(header, rows, "By attack, over all turns")]


def _probes(run: Run) -> tuple[NDArray[Any], NDArray[Any], IntArray]:
    """Return attack, conversation and outcome (1: failed, -1: not scored) of every probe."""
    nothing = np.array([], dtype=str), np.array([], dtype=str), np.array([], dtype=np.int64)
    if TURNS not in run.manifest["artifacts"]:
        return nothing
    path = run.path / TURNS
    try:
        with connection() as con, plain_errors(path):
            found = con.execute(
                "SELECT coalesce(attack, ''), unit_id, coalesce(event, -1) FROM read_parquet(?, hive_partitioning = false) "
                "WHERE node_id <> '' AND status <> 'ended'",
                [checked_place(con, path)],
            ).fetchall()
    except EvalToolkitError:
        return nothing
    if not found:
        return nothing
    attacks, units, events = zip(*found, strict=True)
    return (
        np.array(attacks, dtype=str),
        np.array(units, dtype=str),
        np.array(events, dtype=np.int64),
    )

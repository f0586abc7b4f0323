"""Group metrics for display."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eval_toolkit.report.cells import Block
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

SHOWN = 12
"""Maximum number of metrics that are initially expanded."""
_MEANINGS = {
    "pr_auc": "PR-AUC: area under the precision-recall curve",
    "roc_auc": "ROC-AUC: share of pairs in which the positive row has the higher score",
    "brier": "Brier score: mean squared error of the probabilities; lower is better",
    "log_loss": "log-loss of the probabilities; lower is better",
    "match": "the answer matches the reference",
    "attack_success": "the target failed in at least one turn",
    "attack_success_any": "the target failed on at least one branch",
    "attack_success_own": "the target failed other than by repeating the tester's words",
    "unprovoked_success": "the target failed before any probe was flagged",
    "probe_flagged": "at least one probe was flagged",
    "over_refusal": "the first reply to a safe prompt refuses",
    "unsafe_refusal": "the first reply to an unsafe prompt refuses",
    "refused_first": "the first reply refuses",
    "refusal_rate": "share of replies that refuse",
    "reward": "mean over the turns",
    "empty_replies": "share of replies that are empty",
    "n_turns": "turns of a conversation",
    "first_event_turn": "turn of the first failure, if there is one",
    "probe_distinct_2": "share of distinct pairs of words in the probes",
    "exact_match": "share of answers equal to the reference",
    "accuracy": "share of questions whose most likely choice is correct",
    "bits_per_byte": "bits per byte of the reference text",
}
_DISPLAYED = {
    "pr_auc": "PR-AUC",
    "roc_auc": "ROC-AUC",
    "brier": "Brier score",
    "log_loss": "log-loss",
}
_PATTERNS = (
    (
        re.compile(r"op_precision_at_([-0-9.e]+)"),
        "share of rows scored {} or more that are positive",
    ),
    (re.compile(r"op_recall_at_([-0-9.e]+)"), "share of positive rows scored {} or more"),
    (re.compile(r"op_fpr_at_([-0-9.e]+)"), "share of negative rows scored {} or more"),
    (re.compile(r"op_f1_at_([-0-9.e]+)"), "harmonic mean of precision and recall at threshold {}"),
    (re.compile(r"op_accuracy_at_([-0-9.e]+)"), "share of rows on the right side of threshold {}"),
    (re.compile(r"asr@(\d+)"), "the target failed in at least one of {} rollouts"),
    (re.compile(r".+_pass@(\d+)"), "at least one of {} attempts is correct"),
    (re.compile(r".+_pass\^(\d+)"), "all of {} attempts are correct"),
    (re.compile(r".+_maj@(\d+)"), "the majority answer of {} attempts is correct"),
    (re.compile(r"failed_by_turn_(\d+)"), "the target failed by turn {}"),
    (re.compile(r"refused_turn_(\d+)"), "the reply in turn {} refuses"),
)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Metrics that are displayed together."""

    title: str
    names: Sequence[str]
    lead: str = ""
    open: bool = False
    """Whether the group is initially expanded."""


def meaning_of(name: str) -> str:
    """Return a short description of a metric; "" if its name is self-explanatory.

    Examples
    --------
    >>> meaning_of("asr@3"), meaning_of("f1")
    ('the target failed in at least one of 3 rollouts', '')
    """
    if name in _MEANINGS:
        return _MEANINGS[name]
    for pattern, words in _PATTERNS:
        found = pattern.fullmatch(name)
        if found:
            return words.format(*found.groups())
    return ""


def displayed(name: str) -> str:
    """Return the display name of a metric for sentences; tables use the name that commands take.

    Examples
    --------
    >>> displayed("roc_auc"), displayed("op_f1_at_0.5"), displayed("exact_match")
    ('ROC-AUC', 'F1 at 0.5', 'exact_match')
    """
    at = _AT_THRESHOLD.fullmatch(name)
    if at is None:
        return _DISPLAYED.get(name, name)
    metric = at[1].replace("_", " ")
    return f"{'F1' if metric == 'f1' else metric} at {at[2]}"


_AT_THRESHOLD = re.compile(r"op_([a-z]\w*?)_at_([-0-9.e]+)")


def grouped(run: Run, blocks: Sequence[Block]) -> list[Group]:
    """Return the metrics of a run's scorers in groups; the main group comes first, expanded.

    The groups are defined by the kind of the run; each metric is in exactly one of them.
    """
    names = list(dict.fromkeys(name for block in blocks for name in block.cells))
    own = kind_named(run.kind).metric_groups(run.manifest.get("config") or {}, names)
    if own:
        return [
            Group(
                title=f"{title} ({len(inside)} metrics)" if title else "",
                names=inside,
                open=not title,
            )
            for title, inside in own
        ]
    macro = [name for name in names if name.endswith("_macro") and name[:-6] in names]
    rest = [name for name in names if name not in macro]
    groups = [Group(title="", names=rest[:SHOWN], open=True)]
    if rest[SHOWN:]:
        groups.append(Group(title=f"{len(rest[SHOWN:])} more metrics", names=rest[SHOWN:]))
    if macro:
        lead = (
            "Mean of the subjects' means: every subject has equal weight, regardless of its "
            "number of samples. If all subjects have the same size, it equals the mean over all "
            "samples."
        )
        title = "Macro means: equal weight per subject"
        groups.append(Group(title=title, names=macro, lead=lead))
    return [group for group in groups if group.names]

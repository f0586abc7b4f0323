"""Statistics of HELM: names, contexts and means."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing.logs import LoggedSample, Stated
from eval_toolkit.integrations.importing.plain_files import (
    as_mapping,
    number_or_none,
    same,
    shown,
    text_or_none,
)

_PERTURBED, _ORIGINAL = "perturbed", "original"
_STARTS = ("num_", "finish_reason_", "training_", "inference_", "estimated_")
_NAMES = frozenset(
    {"batch_size", "prompt_truncated", "max_prob", "logprob", "logprob_per_byte", "perplexity"}
    | {"bits_per_byte", "predicted_index"}
)


@dataclass(frozen=True, slots=True)
class Perturbation:
    """Perturbation of an instance."""

    name: str
    robustness: bool = False
    fairness: bool = False
    computed_on: str = _PERTURBED
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An attempt at an instance; perturbed instances keep the id of the original."""

    instance: str
    perturbation: Perturbation | None
    trial: int

    @property
    def unit_id(self) -> str:
        """Unit id: the instance, with the seed if there are several perturbations."""
        seed = None if self.perturbation is None else self.perturbation.seed
        return self.instance if seed is None else f"{self.instance}#{seed}"


@dataclass(frozen=True, slots=True)
class Context:
    """Split and perturbation over which HELM averages."""

    split: str | None
    sub_split: str | None
    perturbation: Perturbation | None

    @property
    def suffix(self) -> str:
        """Suffix of a task name, in HELM's notation."""
        told = {"split": self.split, "sub_split": self.sub_split}
        if self.perturbation is not None:
            told["perturbation"] = self.perturbation.name
            if self.perturbation.seed is not None:
                told["seed"] = str(self.perturbation.seed)
        return "".join(f",{name}={value}" for name, value in told.items() if value)


@dataclass(frozen=True, slots=True)
class NamedStat:
    """A statistic in a file, with its name."""

    name: str
    context: Context
    count: int
    mean: Any
    stddev: float | None

    @property
    def is_derived(self) -> bool:
        """Whether the statistic covers originals, or the worst of each original and its copies."""
        done = self.context.perturbation
        return done is not None and done.computed_on != _PERTURBED

    @property
    def title(self) -> str:
        """Name of the metric; if it is derived, with the instances on which it was computed."""
        done = self.context.perturbation
        if done is None or not self.is_derived:
            return self.name
        return f"{self.name} ({done.computed_on}: {done.name})"


def is_bookkeeping(name: str) -> bool:
    """Return whether a statistic is bookkeeping rather than a metric.

    Examples
    --------
    >>> is_bookkeeping("num_prompt_tokens"), is_bookkeeping("quasi_exact_match@5")
    (True, False)
    """
    return name in _NAMES or name.startswith(_STARTS)


def perturbation(told: Any, where: str) -> Perturbation | None:
    """Return the perturbation of an instance; None if it was not perturbed."""
    if told is None:
        return None
    given = as_mapping(told, f"{where}: 'perturbation'")
    name = given.get("name")
    if not isinstance(name, str) or not name:
        raise ArtifactError(f"{where}: 'perturbation' has no 'name'")
    return Perturbation(
        name,
        bool(given.get("robustness")),
        bool(given.get("fairness")),
        str(given.get("computed_on") or _PERTURBED),
        given.get("seed") if isinstance(given.get("seed"), int) else None,
    )


def named_stat(told: Any, where: str) -> NamedStat:
    """Return a statistic of a file; raise a one-line error if it is invalid."""
    stat = as_mapping(told, where)
    name = as_mapping(stat.get("name"), f"{where}: 'name'")
    metric, count = name.get("name"), stat.get("count")
    if not isinstance(metric, str) or not metric:
        raise ArtifactError(f"{where}: 'name' does not name a metric")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ArtifactError(f"{where} ({metric}): 'count' is {shown(count)}; it must be 0 or more")
    mean = stat.get("mean")
    if mean is None and count and number_or_none(stat.get("sum")) is not None:
        mean = stat["sum"] / count  # older releases state only the sum
    return NamedStat(
        metric,
        Context(
            text_or_none(name.get("split")),
            text_or_none(name.get("sub_split")),
            perturbation(name.get("perturbation"), where),
        ),
        count,
        mean,
        number_or_none(stat.get("stddev")),
    )


def stated(
    context: Context,
    stats: Sequence[NamedStat],
    inside: Mapping[Key, LoggedSample],
    everything: Mapping[Key, LoggedSample],
) -> tuple[list[Stated], list[str]]:
    """Return the reported means of a run in a context, with notes.

    Derived stats are listed with the unperturbed split. ``inside`` contains the samples of the
    context, ``everything`` those of the whole run.
    """
    plain = [one for one in stats if one.context == context]
    derived = [one for one in stats if one.is_derived and _over(one) == context]
    perturbed = any(key.perturbation is not None for key in everything)
    notes = []
    if derived and everything and not perturbed:
        derived = []
        notes.append(
            "the 'robustness' and 'fairness' numbers in stats.json are omitted: no instance was "
            "perturbed, so they only repeat the other numbers"
        )
    found: list[Stated] = []
    for one in (*plain, *derived):
        value = number_or_none(one.mean)
        if one.count and value is None:
            notes.append(
                f"{one.title}: stats.json states {shown(one.mean)}, which is not a finite number; omitted"
            )
        if one.count == 0 or value is None:
            continue
        make = _derived if one.is_derived else _plain
        number, note = make(one, value, everything if one.is_derived else inside)
        found.append(number)
        notes += [note] if note else []
    empty = sorted({one.title for one in (*plain, *derived) if one.count == 0})
    if empty:
        notes.append(f"stats with count 0 were omitted: {', '.join(empty)}")
    return found, [*notes, *_spread(plain)]


def _over(stat: NamedStat) -> Context:
    return replace(stat.context, perturbation=None)


def _spread(stats: Sequence[NamedStat]) -> list[str]:
    """Return a note that ``stddev`` is the spread over trials, which is 0 for one trial."""
    trials = max((stat.count for stat in stats), default=0)
    if trials == 0:
        return []
    if trials == 1:
        said = "HELM's stddev is 0 because it is the spread over trials and there is only one; HELM reports "
        return [f"{said}no standard error"]
    widest = max(stats, key=lambda stat: stat.stddev or 0.0)
    said = f"HELM's stddev (up to {widest.stddev or 0.0:g}, of {widest.title}) is the spread of "
    return [f"{said}the means of {trials} trials, not a standard error"]


def _plain(
    stat: NamedStat, value: float, samples: Mapping[Key, LoggedSample]
) -> tuple[Stated, str]:
    """Return the mean over the instances of a context."""
    number = Stated(column=stat.name, name=stat.title, value=value)
    if not samples:
        return number, ""
    trials: dict[int, list[float]] = defaultdict(list)
    for key, sample in samples.items():
        told = sample.values.get(stat.name)
        if isinstance(told, float):
            trials[key.trial].append(told)
    if not trials:
        how = "HELM's, over all instances together"
        return replace(number, aggregation=how, itself=True), ""
    uneven = len({len(values) for values in trials.values()}) > 1
    how = "the mean of the trials' means" if uneven else "mean"
    number = replace(number, n=sum(map(len, trials.values())), aggregation=how)
    return number, _note(number, trials)


def _derived(
    stat: NamedStat, value: float, samples: Mapping[Key, LoggedSample]
) -> tuple[Stated, str]:
    """Return a mean over originals, or over the worst of each instance and its perturbed copies."""
    asked = stat.context.perturbation or Perturbation("")
    original = asked.computed_on == _ORIGINAL
    how = (
        "the mean of the originals" if original else "the mean of the worst value of each instance"
    )
    number = Stated(column=stat.name, name=stat.title, value=value, aggregation=how)
    tries: dict[tuple[str, int], list[tuple[Perturbation | None, float]]] = defaultdict(list)
    for key, sample in samples.items():
        told = sample.values.get(stat.name)
        at = (sample.parts.get("split"), sample.parts.get("sub_split"))
        if isinstance(told, float) and at == (stat.context.split or "none", stat.context.sub_split):
            tries[key.instance, key.trial].append((key.perturbation, told))
    trials: dict[int, list[float]] = defaultdict(list)
    for (_, trial), each in tries.items():
        chosen = _chosen(asked, each)
        if chosen:
            trials[trial].append(min(chosen))
    return number, _note(number, trials)


def _chosen(asked: Perturbation, told: Sequence[tuple[Perturbation | None, float]]) -> list[float]:
    """Return the values of one instance that a derived statistic uses."""
    family = asked.name if asked.name in ("robustness", "fairness") else None
    copies = []
    for done, value in told:
        if done is None:
            continue
        like = replace(done, computed_on=asked.computed_on) == asked
        if getattr(done, family) if family else like:
            copies.append(value)
    originals = [value for done, value in told if done is None]
    if family is None and not copies:
        return []
    return originals if asked.computed_on == _ORIGINAL else [*copies, *originals]


def _note(number: Stated, trials: Mapping[int, Sequence[float]]) -> str:
    """Return a note if the mean of the trials' means differs from the reported value."""
    if not trials:
        return ""
    made = _mean([_mean(values) for values in trials.values()])
    if same(made, number.value):
        return ""
    return f"{number.name} is stated as {number.value!r}, but the samples give {made!r}"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

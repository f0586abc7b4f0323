"""Scorers of a stored run, whose scores are known but which cannot score new texts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import ArtifactError, EvalToolkitError
from eval_toolkit.metric_specs.columns import mean_as_stated
from eval_toolkit.rollouts.scorers.base import MODES
from eval_toolkit.runs.folder import Run


@dataclass(frozen=True)
class StoredScorer:
    """Placeholder for a scorer whose scores are stored in the turns of a run."""

    name: str
    version: str
    threshold: float
    higher_is_worse: bool
    mode: str
    bounds: tuple[float, float]
    judges: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the scorer's judges, if any."""

    def score(self, texts: Sequence[str]) -> Sequence[float]:
        """Raise an error, because the scorer itself is not available."""
        raise ArtifactError(
            f"{self.name!r} is a scorer of a stored run and cannot score new texts; pass `scorer`"
        )

    @property
    def describe(self) -> Callable[[], Mapping[str, Any]] | None:
        """Function that returns the settings of the scorer's judges, or None without judges."""
        return (lambda: self.judges) if self.judges else None


def stored_scorers(run: Run) -> tuple[bool, tuple[StoredScorer, ...]]:
    """Return whether a run has a harm scorer, and all scorers, starting with the harm scorer."""
    config = run.manifest["config"]
    first, stored = config.get("scored_by"), config.get("scorers")
    try:
        names = sorted(stored, key=lambda name: name != first)
        made = tuple(_kept(run, name, stored[name]) for name in names)
        if first is not None and (not made or made[0].name != first):
            raise KeyError(first)
    except (EvalToolkitError, TypeError, LookupError, AttributeError) as error:
        raise ArtifactError(
            f"{run.path / 'manifest.json'}: config does not say how the rollouts were scored "
            f"({type(error).__name__}: {error}); pass `scorer`"
        ) from None
    return first is not None, made


def _kept(run: Run, name: str, settings: Mapping[str, Any]) -> StoredScorer:
    cells = run.cells.block_or_none(*run.subjects[0]) or {}
    cell = cells.get(f"{name}_mean")
    details = cell.get("details") if isinstance(cell, Mapping) else None
    stated = mean_as_stated(name, details if isinstance(details, Mapping) else {}, None)
    if not isinstance(settings["higher_is_worse"], bool):
        raise TypeError(f"higher_is_worse of {name!r:.40}")
    judges = settings.get("judges")
    return StoredScorer(
        name=str(name),
        version=str(settings["version"]),
        threshold=validation.number(settings["threshold"], "threshold"),
        higher_is_worse=settings["higher_is_worse"],
        mode=validation.choice(settings.get("mode", "turn"), "mode", MODES),
        bounds=stated.bounds,
        judges=judges if isinstance(judges, Mapping) else {},
    )

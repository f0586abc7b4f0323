"""Open and pair two run folders for ``eval-toolkit compare``, and select metrics."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from eval_toolkit.analysis import MatchSpec, RunComparison
from eval_toolkit.analysis.matching import UnitKey
from eval_toolkit.artifacts.remote import is_remote, local_path
from eval_toolkit.cli._options import Sampling
from eval_toolkit.cli._remote import is_run
from eval_toolkit.errors import InvalidInputError, MissingFileError
from eval_toolkit.loaders.columns import Wanted
from eval_toolkit.report.comparison_page import compared_runs
from eval_toolkit.runs import Run

_EVERY = "all"


def opened_runs(paths: Sequence[str], wanted: Wanted) -> list[Run]:
    """Open two or more runs; raise if a path is not a run or if options for files are given."""
    for path in paths:
        if not is_remote(path) and not local_path(path).exists():
            raise MissingFileError(f"{path}: no such folder")
    odd = next((path for path in paths if not is_run(path)), None)
    if odd is not None:
        raise InvalidInputError(
            f"{odd}: is a file; compare files with files, or store it as a run first: score FILE "
            "--save FOLDER"
        )
    if len(paths) < 2:
        raise InvalidInputError(f"{paths[0]}: pass two or more run folders to compare")
    if replace(wanted, by=()) != Wanted():
        raise InvalidInputError(
            f"{paths[0]}: --label, --score, --group and --id are for files; a run stores "
            "its own columns"
        )
    return [Run.open(path) for path in paths]


def distinct_names(*choices: Sequence[str]) -> list[str]:
    """Return the first list of names without duplicates, else the last list with numbers added.

    Examples
    --------
    >>> distinct_names(["a", "a"], ["old/a", "new/a"]), distinct_names(["a", "a"])
    (['old/a', 'new/a'], ['a (1)', 'a (2)'])
    """
    for names in choices:
        if len(set(names)) == len(names):
            return list(names)
    return [f"{name} ({number})" for number, name in enumerate(choices[-1], 1)]


def ends_of(paths: Sequence[str]) -> list[list[str]]:
    """Yield the last component of each path, then the last two, and so on up to the full paths.

    Examples
    --------
    >>> ends_of(["old/a", "new/a/"])
    [['a', 'a'], ['old/a', 'new/a']]
    """
    parts = [path.rstrip("/").split("/") for path in paths]
    longest = max(map(len, parts))
    return [["/".join(one[-n:]) for one in parts] for n in range(1, longest + 1)]


def compare_folders(
    runs: Sequence[Run],
    metrics: Sequence[str],
    wanted: Wanted,
    sampling: Sampling,
    **options: Any,
) -> RunComparison:
    """Compare two runs by the metrics given with ``--metric``; see `compare_runs` for the rest."""
    if _EVERY in metrics and len(metrics) > 1:
        raise click.UsageError(
            f"--metric {_EVERY} selects every stored metric; do not combine it with others"
        )
    named = [name for name in metrics if name != _EVERY]
    return compared_runs(
        runs,
        metrics=named if metrics else None,
        by=wanted.by,
        confidence=sampling.confidence,
        n_resamples=sampling.n_resamples,
        seed=sampling.seed,
        executor=sampling.executor,
        **options,
    )


def pairs_of(
    given: Sequence[str], option: str = "--pair", what: str = "scorer"
) -> dict[str, str] | None:
    """Parse ``--pair`` and similar options to a mapping from names in A to names in B."""
    pairs: dict[str, str] = {}
    for text in given:
        a, _, b = text.partition("=")
        if not a or not b or a in pairs:
            why = (
                f"names a {what} of A twice"
                if a in pairs
                else f"must be two {what}s, as in old=new"
            )
            raise InvalidInputError(f"{option} {text} {why}")
        pairs[a] = b
    return pairs or None


def match_of(slices: Sequence[str], metrics: Sequence[str], units: UnitKey) -> MatchSpec:
    """Return the arguments for ``--pair-slice``, ``--pair-metric`` and ``--match``."""
    return MatchSpec(
        units=units,
        slices=pairs_of(slices, "--pair-slice", "slice") or {},
        metrics=pairs_of(metrics, "--pair-metric", "metric") or {},
    )

"""Reconstruct graders and their corpus metrics from stored runs."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from eval_toolkit.errors import EvalToolkitError
from eval_toolkit.graders.loading import PLAIN_GRADERS, named_grader
from eval_toolkit.plugins import read_from
from eval_toolkit.protocols import Grader, MetricSpec

_OPTION = re.compile(r"\+(?=\w+=)")
_LONGEST, _MOST_JOINED = 100_000, 20
"""Maximum length of a version, and maximum number of "+x=" in one option value."""


class StoredRun(Protocol):
    """A stored run with a manifest."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Contents of ``manifest.json``."""
        ...


def grader_of_version(name: str, version: str) -> Grader | None:
    """Reconstruct a grader from its name and a version written by `options_version`.

    ``version`` is a number followed by the non-default options. Only `loading.PLAIN_GRADERS` are
    reconstructed from a file, never judges, panels, plugins, graders from modules or graders that
    run programs. Returns None for those, and if the current version differs.

    Examples
    --------
    >>> grader_of_version("exact_match", "1+ignore_case=True").ignore_case
    True
    >>> grader_of_version("exact_match", "0") is None
    True
    >>> grader_of_version("judge", "1+rubric='refusal'+model='scripted:no'") is None
    True
    """
    if name not in PLAIN_GRADERS:
        return None
    try:
        grader = named_grader(name, _options(version), origin=read_from("manifest.json", "graders"))
    except (EvalToolkitError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return grader if (grader.name, str(grader.version)) == (name, version) else None


def _options(version: str) -> dict[str, Any]:
    """Return the options encoded in a version; strings may contain "+x="."""
    if len(version) > _LONGEST:
        raise ValueError(f"a version of {len(version)} characters")
    options = {}
    parts = _OPTION.split(version)[:0:-1]
    while parts:
        key, _, text = parts.pop().partition("=")
        for _ in range(_MOST_JOINED):
            if not parts or _is_literal(text):
                break
            text += f"+{parts.pop()}"
        options[key] = ast.literal_eval(text)
    return options


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return True


def stored_metrics(runs: Sequence[StoredRun]) -> list[MetricSpec]:
    """Return the corpus metrics of the graders of stored runs, such as corpus BLEU.

    Pass them to `compare_runs` and `evaluate_gate` as ``specs``, since a corpus metric is not the
    mean of a column and cannot be reconstructed from its name.

    Only graders with the same version in all runs are used. Graders defined in task code or lm-eval
    files and graders that require a missing extra are omitted.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r", "config": {}, "by_slice": {}}
    >>> manifest = {"run_id": "r", "config": {"graders": {"chrf": "1+word_order=2", "f1": "2"}}}
    >>> run = write_run(tempfile.mkdtemp() + "/r", results=results, manifest=manifest)
    >>> [metric.name for metric in stored_metrics([run])]
    ['chrf_corpus']
    """
    versions = [_graders(run) for run in runs]
    found: dict[str, MetricSpec] = {}
    for name, version in (versions[0] if versions else {}).items():
        if any(other.get(name) != version for other in versions):
            continue
        own = getattr(grader_of_version(name.partition("(")[0], str(version)), "metrics", None)
        found |= {spec.name: spec for spec in (own() if callable(own) else ())}
    return list(found.values())


def _graders(run: StoredRun) -> Mapping[str, Any]:
    """Return the versions of a run's graders by name; empty for runs without graders."""
    config = run.manifest.get("config")
    graders = config.get("graders") if isinstance(config, Mapping) else None
    return graders if isinstance(graders, Mapping) else {}

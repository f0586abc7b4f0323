"""Read the parts of an Inspect log: header, samples and reductions."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import parse_json, read_regular
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.integrations.importing.inspect_results import first_scorer
from eval_toolkit.integrations.importing.inspect_samples import (
    ParsedSample,
    as_object,
    read_sample,
    shortened,
)
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.zipped import LARGEST_MEMBER, Zipped

_VERSIONS = (1, 2)
_HEADER, _START = "header.json", "_journal/start.json"
_SUMMARIES, _REDUCTIONS = "summaries.json", "reductions.json"
_OF_JOURNAL = re.compile(r"_journal/summaries/([0-9]{1,9})\.json")
_RECOVER = "`inspect log recover` may recover its samples"


@dataclass(slots=True)
class Parts:
    """Contents of a log."""

    path: Path
    header: Mapping[str, Any]
    found: list[ParsedSample]
    reductions: Any = None
    unfinished: bool = False

    @property
    def spec(self) -> Mapping[str, Any]:
        """Entry ``eval`` of the header: task, model, dataset and configuration."""
        return as_object(self.header.get("eval"), f"{self.path}: `eval`")

    @property
    def model(self) -> str:
        """Name of the model."""
        return whole_text(self.spec["model"])

    @property
    def results(self) -> Mapping[str, Any]:
        """Reported results; empty if there are none."""
        return as_object(self.header.get("results") or {}, f"{self.path}: `results`")

    @property
    def config(self) -> Mapping[str, Any]:
        """Configuration of the run."""
        return as_object(self.spec.get("config") or {}, f"{self.path}: `eval.config`")

    @property
    def dataset(self) -> Mapping[str, Any]:
        """Description of the dataset."""
        return as_object(self.spec.get("dataset") or {}, f"{self.path}: `eval.dataset`")

    @property
    def sample_ids(self) -> list[Any]:
        """Ids of the planned items; empty if unknown."""
        given = self.dataset.get("sample_ids")
        return given if isinstance(given, list) else []

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        given = self.config.get("epochs")
        return given if isinstance(given, int) and given > 0 else 1


def json_parts(path: Path, wanted: Wanted) -> Parts:
    """Read a ``.json`` log, a single object with all parts."""
    size = path.stat().st_size
    if size > LARGEST_MEMBER:
        raise ArtifactError(f"{path}: {size} bytes; logs of at most {LARGEST_MEMBER} can be read")
    data = read_regular(path)
    try:
        header = as_object(parse_json(data, path, strict=False), f"{path}: the log")
    except ArtifactError:
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if path.suffix == ".json" or start.isdigit() or start in b"{[":
            raise
        raise ArtifactError(f"{path}: neither a zip file nor JSON; not an Inspect log") from None
    parts = Parts(path, header, [])
    _check_version(parts)
    samples = header.get("samples") or []
    if not isinstance(samples, list):
        raise ArtifactError(f"{path}: `samples` is a {type(samples).__name__}; it must be a list")
    model, scorer = parts.model, first_scorer(parts.results)
    parts.found = [
        read_sample(one, f"{path}: samples[{at}]", wanted, model, scorer)
        for at, one in enumerate(samples)
    ]
    _check_unique(parts)
    parts.reductions = header.get("reductions") or parts.results.get("sample_reductions")
    return parts


def zip_parts(path: Path, wanted: Wanted) -> Parts:
    """Read an ``.eval`` log: its header, and its samples or their summaries."""
    zipped = Zipped(path, _RECOVER)
    name = next((one for one in (_HEADER, _START) if one in zipped), None)
    if name is None:
        raise ArtifactError(
            f"{path}: has neither {_HEADER!r} nor {_START!r}; it is not an Inspect log"
        )
    header = as_object(_member(zipped, name), f"{path}: {name}")
    parts = Parts(path, header, [], unfinished=name == _START)
    _check_version(parts)
    summaries = list(_summaries(zipped))
    whole = wanted.samples or any(shortened(one, wanted) for _, one in summaries)
    members = [one for one in zipped.names if one.startswith("samples/") and one[-5:] == ".json"]
    model, scorer = parts.model, first_scorer(parts.results)
    if whole or (members and not summaries):
        read = ((f"{path}: {one}", _member(zipped, one)) for one in members)
        parts.found = [read_sample(raw, place, wanted, model, scorer) for place, raw in read]
        _check_complete(parts, [one for _, one in summaries])
    else:
        parts.found = [read_sample(raw, place, wanted, model, scorer) for place, raw in summaries]
        # A retried sample has a second summary after the first one.
        parts.found = list({_key(one): one for one in parts.found}.values())
    _check_unique(parts)
    if not parts.found and _REDUCTIONS in zipped:
        parts.reductions = _member(zipped, _REDUCTIONS)
    return parts


def _summaries(zipped: Zipped) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the summaries: from one member, or from many if the log is unfinished."""
    names = [_SUMMARIES]
    if _SUMMARIES not in zipped:
        numbered = ((_OF_JOURNAL.fullmatch(name), name) for name in zipped.names)
        of_journal = sorted((int(match[1]), name) for match, name in numbered if match)
        names = [name for _, name in of_journal]
    for name in names:
        place = f"{zipped.path}: {name}"
        listed = _member(zipped, name)
        if not isinstance(listed, list):
            raise ArtifactError(f"{place} is a {type(listed).__name__}; it must be a list")
        for at, one in enumerate(listed):
            yield f"{place}[{at}]", as_object(one, f"{place}[{at}]")


def _check_version(parts: Parts) -> None:
    version = parts.header.get("version")
    if isinstance(version, bool) or version not in _VERSIONS:
        raise ArtifactError(
            f"{parts.path}: `version` is {version!r:.60}; only versions 1 and 2 of Inspect logs can "
            f"be read"
        )
    for name in ("task", "model"):
        if not isinstance(parts.spec.get(name), str) or not parts.spec[name]:
            raise ArtifactError(
                f"{parts.path}: `eval.{name}` is missing; it must be a non-empty string"
            )


def _check_unique(parts: Parts) -> None:
    twice = [key for key, n in Counter(map(_key, parts.found)).items() if n > 1]
    if twice:
        raise ArtifactError(
            f"{parts.path}: sample {twice[0][0]!r:.60} of epoch {twice[0][1]} occurs twice"
        )


def _check_complete(parts: Parts, summaries: Iterable[Mapping[str, Any]]) -> None:
    """Raise if samples listed in the summaries are missing."""
    there = {(unit_id, str(epoch)) for unit_id, epoch in map(_key, parts.found)}
    listed = {(whole_text(str(one.get("id"))), str(one.get("epoch", 1))) for one in summaries}
    lost = sorted(f"{unit_id!r} of epoch {epoch}" for unit_id, epoch in listed - there)
    if lost:
        raise ArtifactError(
            f"{parts.path}: {len(lost)} of {len(listed)} samples listed in the summaries are "
            f"missing from samples/, such as {lost[0]:.80}; the file was altered"
        )


def _key(found: ParsedSample) -> tuple[str, int]:
    return found.fields["unit_id"], found.fields["attempt"]


def _member(zipped: Zipped, name: str) -> Any:
    """Parse a member; Inspect writes NaN and Infinity, which are not valid JSON."""
    return parse_json(zipped.read(name), f"{zipped.path}: {name}", strict=False)

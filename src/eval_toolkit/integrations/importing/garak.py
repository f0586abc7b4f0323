"""Import of garak's ``*.report.jsonl``.

Each probe becomes a log, each prompt an item and each generation an attempt. Every detector has a
column ``passed:DETECTOR``: 1 if its score is below garak's threshold, 0 if the attack succeeded.
Equal prompts, and prompts of one conversation, share a group. The counts in the eval lines (passed,
evaluated) are compared with the attempts. Hit logs are rejected (by `predictions`), since they
contain only failures, as are reports that contain only a digest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import content_hash, unit_ids
from eval_toolkit.errors import ArtifactError
from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.items import item_group, item_parts
from eval_toolkit.integrations.importing.logs import Log, LoggedSample, Stated, Value
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.integrations.importing.plain_files import (
    as_list,
    as_mapping,
    as_prompt,
    even_attempts,
    finite,
    head_of,
    list_or_empty,
    load_lines,
    number_or_none,
    ok_values,
    settings_of,
    shown,
    text_or_none,
)

NAME = "garak"
COLUMN = "passed:"
_THRESHOLD = 0.5
_COMPLETE = 2
_SETTINGS = (
    *("run.seed", "run.generations", "run.eval_threshold", "run.soft_probe_prompt_cap"),
    *("plugins.target_type", "plugins.target_name", "plugins.model_type", "plugins.model_name"),
    *("plugins.probe_spec", "plugins.detector_spec", "plugins.buff_spec"),
)
_UNSCORED = Grade.skipped("the detector returned no score")
_NOT_RUN = Grade.skipped("the detector did not run on this prompt")


def recognises(path: Path) -> bool:
    """Return whether the path is a JSONL file with garak entries."""
    if path.suffix.lower() != ".jsonl":
        return False
    head = head_of(path)
    ours = b'"start_run setup"', b'"garak_version"', b'"probe_classname"'
    return b'"entry_type"' in head and any(mark in head for mark in ours)


def read(path: Path, wanted: Wanted) -> list[Log]:
    """Read a report as one log per probe.

    ``by`` and ``group_field`` of ``wanted`` are fields of an attempt, such as "goal". A probe
    without attempts has only reported values. Reports that contain only a digest are rejected.

    Examples
    --------
    >>> import json, tempfile
    >>> path = Path(tempfile.mkdtemp()) / "scan.report.jsonl"
    >>> entries = [
    ...     {"entry_type": "start_run setup", "plugins.target_name": "m"},
    ...     {"entry_type": "attempt", "uuid": "1", "status": 2, "probe_classname": "dan.DUDE",
    ...      "prompt": "Stay a DUDE", "outputs": ["Never."], "detector_results": {"dan.DUDE": [0.0]}},
    ...     {"entry_type": "eval", "probe": "dan.DUDE", "detector": "dan.DUDE", "passed": 1,
    ...      "total_evaluated": 1},
    ... ]
    >>> _ = path.write_text("".join(json.dumps(entry) + chr(10) for entry in entries))
    >>> (log,) = read(path, Wanted())
    >>> log.task, log.model, dict(log.samples[0].values)
    ('dan.DUDE', 'm', {'passed:dan.DUDE': 1.0})
    """
    report = _Report.of(path)
    if not report.probes:
        what = "only a digest" if report.has_digest else "neither attempts nor evals"
        raise ArtifactError(
            f"{path}: a garak report with {what}; import the full report of the run"
        )
    return [report.log(probe, wanted) for probe in report.probes]


@dataclass(slots=True)
class _Report:
    """Parsed content of a report."""

    path: Path
    notes: list[str]
    setup: Mapping[str, Any] = field(default_factory=dict)
    init: Mapping[str, Any] = field(default_factory=dict)
    attempts: dict[str, dict[tuple[Any, ...], "_Attempt"]] = field(default_factory=dict)
    """Attempts by probe and key; lines with a later state replace earlier ones."""
    evals: dict[str, list[tuple[int, Mapping[str, Any]]]] = field(default_factory=dict)
    """Eval lines with their line numbers, by probe."""
    has_digest: bool = False

    @classmethod
    def of(cls, path: Path) -> "_Report":
        lines, torn = load_lines(path)
        report = cls(path, [torn] if torn else [])
        for number, entry in lines:
            kind = entry.get("entry_type")
            if kind == "start_run setup":
                report.setup = entry
            elif kind == "init":
                report.init = entry
            elif kind == "attempt":
                report._add(_Attempt.of(entry, f"{path}: line {number}"))
            elif kind == "eval":
                probe = _plugin(entry.get("probe"), "probes.", f"{path}: line {number}: 'probe'")
                report.evals.setdefault(probe, []).append((number, entry))
            report.has_digest |= kind == "digest"
        return report

    def _add(self, attempt: "_Attempt") -> None:
        known = self.attempts.setdefault(attempt.probe, {})
        before = known.get(attempt.key)
        if before is None or attempt.status >= before.status:
            known[attempt.key] = attempt

    @property
    def probes(self) -> list[str]:
        return list(dict.fromkeys([*self.attempts, *self.evals]))

    @property
    def threshold(self) -> float:
        """Score at or above which an attack counts as successful."""
        stated = number_or_none(self.setup.get("run.eval_threshold"))
        return _THRESHOLD if stated is None else stated

    def log(self, probe: str, wanted: Wanted) -> Log:
        """Return the log of a probe."""
        notes = list(self.notes)
        found = list(self.attempts.get(probe, {}).values())
        samples = list(_samples([one for one in found if one.is_done], self.threshold, wanted))
        n_lost = sum(max(1, len(one.outputs)) for one in found if not one.is_done)
        if n_lost:
            notes.append(
                f"{n_lost} answers have no detector results because the run was not finished"
            )
        if samples and number_or_none(self.setup.get("run.eval_threshold")) is None:
            notes.append(
                f"the report states no eval_threshold; {_THRESHOLD}, garak's default, is used"
            )
        stated = list(self._stated(probe, samples, notes))
        names = [one for sample in samples for one in sample.values]
        return Log(
            tool=NAME,
            task=probe,
            model=self._model(wanted, notes),
            samples=samples,
            stated=stated,
            tool_version=str(
                self.init.get("garak_version") or self.setup.get("_config.version") or ""
            ),
            files=[str(self.path)],
            created=str(self.init.get("start_time") or ""),
            settings=settings_of(self.setup, _SETTINGS),
            binary=frozenset([*names, *(one.column for one in stated)]),
            n_planned=len(samples) + n_lost if n_lost else None,
            notes=tuple(notes),
        )

    def _model(self, wanted: Wanted, notes: list[str]) -> str:
        for name in ("target_name", "model_name", "target_type", "model_type"):
            model = text_or_none(self.setup.get(f"plugins.{name}"))
            if model:
                return model
        notes += [] if wanted.named else ["the report names no target; it is called 'unnamed' here"]
        return "unnamed"

    def _stated(
        self, probe: str, samples: Sequence[LoggedSample], notes: list[str]
    ) -> Iterator[Stated]:
        """Yield the values of the eval lines, adding a note if the counts differ from the attempts."""
        for number, entry in self.evals.get(probe, []):
            where = f"{self.path}: line {number}"
            name = _plugin(entry.get("detector"), "detector.", f"{where}: 'detector'")
            total = entry.get("total_evaluated", entry.get("total"))
            passed, n = (_count(given, where) for given in (entry.get("passed"), total))
            if passed > n:
                raise ArtifactError(
                    f"{where}: {passed} passed of {n} evaluated; passed must not exceed evaluated"
                )
            column = f"{COLUMN}{name}"
            values = ok_values(samples, column)
            if values and (round(sum(values)), len(values)) != (passed, n):
                notes.append(
                    f"{name}: the eval line states {passed} of {n} passed; in the attempts of the "
                    f"report it is {round(sum(values))} of {len(values)}"
                )
            if n == 0:
                notes.append(f"{name}: the eval line states 0 evaluated answers; omitted")
                continue
            even = even_attempts(samples, column)
            yield Stated(
                column=column,
                name=f"{name}: passed / evaluated",
                value=passed / n,
                n=n,
                aggregation="mean"
                if even
                else "the mean over answers, whose number varies by prompt",
            )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Prompt with the target's answers and the detectors' scores."""

    probe: str
    uuid: str | None
    status: int
    text: str
    """Prompt as a single string, which identifies the item."""
    prompt: Any
    outputs: Sequence[str | None]
    scores: Mapping[str, Sequence[float | None]]
    before: str | None
    """Id of the preceding attempt in the same conversation."""
    entry: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, entry: Mapping[str, Any], where: str) -> "_Attempt":
        turns = _turns(entry.get("prompt"))
        results = as_mapping(entry.get("detector_results") or {}, f"{where}: 'detector_results'")
        status = entry.get("status")
        return cls(
            probe=_plugin(entry.get("probe_classname"), "probes.", f"{where}: 'probe_classname'"),
            uuid=text_or_none(entry.get("uuid")),
            status=status if isinstance(status, int) else _COMPLETE,
            text="\n\n".join(text if role == "user" else f"{role}: {text}" for role, text in turns),
            prompt=as_prompt([{"role": role, "content": text} for role, text in turns]),
            outputs=[_text(one) for one in list_or_empty(entry.get("outputs"))],
            scores={
                _plugin(name, "detector.", where): [
                    _score(one, f"{where}: {name}") for one in as_list(given, f"{where}: {name}")
                ]
                for name, given in results.items()
            },
            before=text_or_none(entry.get("previous_attempt_id")),
            entry=entry,
            where=where,
        )

    @property
    def key(self) -> tuple[Any, ...]:
        """Identity of an attempt; attempts in aggregated reports share a uuid."""
        return self.uuid, self.entry.get("seq"), self.text

    @property
    def is_done(self) -> bool:
        """Whether the attempt has been scored."""
        return self.status == _COMPLETE or bool(self.scores)

    def response(self, at: int) -> str | None:
        """Return a response if the scores match the outputs by position, else None."""
        lengths = {len(given) for given in self.scores.values()}
        return self.outputs[at] if lengths <= {len(self.outputs)} else None


def _samples(
    attempts: Sequence[_Attempt], threshold: float, wanted: Wanted
) -> Iterator[LoggedSample]:
    detectors = list(dict.fromkeys(name for one in attempts for name in one.scores))
    contents = [content_hash(one.text, None) for one in attempts]
    groups = _conversations(attempts, contents)
    for attempt, unit, group in zip(attempts, unit_ids(contents), groups, strict=True):
        where, entry = attempt.where, attempt.entry
        tries = max([len(attempt.outputs), *map(len, attempt.scores.values())])
        for at in range(tries):
            yield LoggedSample(
                unit_id=unit,
                attempt=at + 1,
                values={
                    f"{COLUMN}{name}": _passed(attempt.scores.get(name), at, threshold)
                    for name in detectors
                },
                input=attempt.text,
                group=item_group(entry, wanted, where=where) or group,
                parts=item_parts(entry, wanted, where=where),
                prompt=attempt.prompt,
                response=attempt.response(at),
            )


def _conversations(attempts: Sequence[_Attempt], contents: Sequence[str]) -> list[str]:
    """Return the group of each attempt: the hash of the first prompt of its conversation."""
    by_uuid = {
        one.uuid: (one.before, own)
        for one, own in zip(attempts, contents, strict=True)
        if one.uuid is not None
    }
    groups = []
    for attempt, own in zip(attempts, contents, strict=True):
        before, group, seen = attempt.before, own, {attempt.uuid}
        while before is not None and before in by_uuid and before not in seen:
            seen.add(before)
            before, group = by_uuid[before]
        groups.append(group)
    return groups


def _passed(scores: Sequence[float | None] | None, at: int, threshold: float) -> Value:
    if scores is None:
        return _NOT_RUN
    score = scores[at] if at < len(scores) else None
    return _UNSCORED if score is None else float(score < threshold)


def _score(given: Any, where: str) -> float | None:
    if given is None:
        return None
    score = finite(given, where)
    if not 0.0 <= score <= 1.0:
        raise ArtifactError(f"{where} is {shown(given)}; a detector's score must be in [0, 1]")
    return score


def _turns(prompt: Any) -> list[tuple[str, str]]:
    """Return role and text of each turn; older garak versions store prompts as strings."""
    if isinstance(prompt, Mapping) and "turns" in prompt:
        turns = [one for one in list_or_empty(prompt["turns"]) if isinstance(one, Mapping)]
        return [(str(one.get("role") or "user"), _text(one.get("content")) or "") for one in turns]
    return [("user", _text(prompt) or "")]


def _text(given: Any) -> str | None:
    return text_or_none(given.get("text") if isinstance(given, Mapping) else given)


def _plugin(given: Any, prefix: str, where: str) -> str:
    if not isinstance(given, str) or not given:
        raise ArtifactError(f"{where} is {shown(given)}; it must be a non-empty name")
    return given.removeprefix(prefix)


def _count(given: Any, where: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise ArtifactError(f"{where}: a count is {shown(given)}; it must be 0 or more")
    return given

"""Models that replay stored answers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.tables import read_table
from eval_toolkit.errors import ArtifactError, InvalidInputError, MissingFileError, ModelError
from eval_toolkit.models.cache import ResponseCache, key_of
from eval_toolkit.models.payloads import Response, read_response, to_json
from eval_toolkit.models.request_positions import Place
from eval_toolkit.models.requests import (
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    request_hash,
)
from eval_toolkit.models.responses import ErrorInfo, RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner import Entry, Journal
from eval_toolkit.models.runner.jobs import JobResult, Key
from eval_toolkit.models.runner.stored import COLUMNS, RESPONSES, read_entries, read_outcomes
from eval_toolkit.protocols import Model
from eval_toolkit.runs.folder import MANIFEST, Run
from eval_toolkit.runs.open import JOURNAL


class ReplayModel:
    """Model that replays the answers in a run, a journal or a cache under the recorded name.

    When used in a run, a job receives the answer recorded for the same unit, attempt and step if
    the request is identical. Otherwise, and in direct calls, answers to identical requests are
    returned in the order of the recorded jobs. A request that failed when it was recorded fails in
    the same way.

    Parameters
    ----------
    source : path
        Run folder (finished or not), ``journal.jsonl``, file of a `ResponseCache`, or Parquet file
        (or folder of such files) with the columns of ``responses.parquet``.
    name : str, optional
        Model to replay; required if the source contains answers of several models.

    Raises
    ------
    ArtifactError
        If the source is damaged or contains nothing to replay.
    InvalidInputError
        If the source contains several models and ``name`` is missing or unknown.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> from eval_toolkit.models.runner import Job, run_jobs
    >>> journal = Journal(tempfile.mkdtemp() + "/journal.jsonl")
    >>> job = Job("q1", 1, GenerateRequest("2 + 2 ="))
    >>> _ = run_jobs([job], ScriptedModel("4", name="clever"), journal=journal)
    >>> model = ReplayModel(journal.path)
    >>> model.name, asyncio.run(model.generate(job.request)).text
    ('clever', '4')
    """

    def __init__(self, source: str | Path, *, name: str | None = None) -> None:
        path = Path(source)
        if not path.exists():
            raise MissingFileError(f"{path}: no such file or folder; nothing to replay")
        if path.is_dir() and (path / JOURNAL).exists() and not (path / RESPONSES).exists():
            path = path / JOURNAL
        self._stored: _ModelAnswers
        if files := _tables_of(path):
            self._stored = _of_tables(files, name or path.stem)
        elif path.is_dir():
            self._stored = _of_run(path, name)
        elif path.suffix == ".jsonl":
            self._stored = _of_journal(path, name)
        else:
            self._stored = _of_cache(path, name)
        self.source = path
        self.name = self._stored.name
        self.speaks_chat = self._stored.speaks_chat
        self.own_temperature = self.describe().get("kind") == "openai_compatible"
        self._n_asked: dict[str, int] = {}

    def describe(self) -> dict[str, Any]:
        """Return the description of the recorded model."""
        return dict(self._stored.description)

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Return the stored text, or raise `ModelError` if there is none."""
        response: RawCompletion = self._answer(request)
        return response

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Return the stored log-likelihoods, or raise `ModelError` if there are none."""
        response: RawLoglikelihood = self._answer(request)
        return response

    async def answer_at(self, request: Request, place: Place) -> Response:
        """Return the stored answer to a request at this position in the run."""
        response: Response = self._answer(request, place)
        return response

    async def aclose(self) -> None:
        """Restart from the first of several answers to identical requests."""
        self._n_asked.clear()

    def _answer(self, request: Request, place: Place | None = None) -> Any:
        if place is None:
            nth = self._n_asked.get(request.fingerprint, 0)
            found = self._found(request, nth, None)
            self._n_asked[request.fingerprint] = nth + 1
        else:
            found = self._found(request, place.nth, place.job)
        if isinstance(found, ErrorInfo):
            kind = found.kind if found.kind in ModelError.KINDS else "other"
            raise ModelError(found.message, kind=kind, status=found.status, tries=found.tries)
        found.usage = replace(found.usage, cost=0.0, latency_s=0.0, tries=1, cached=True)
        return found

    def _found(self, request: Request, nth: int, job: Key | None) -> Response | ErrorInfo:
        try:
            found = self._stored.find(request, nth, job)
        except (ValueError, TypeError) as error:
            raise ModelError(f"{self.source}: {error}", kind="other") from None
        if found is not None:
            return found
        prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
        question = " ".join(prompt.split())[-60:]
        times = f"more than {nth} answer{'s' * (nth > 1)}" if nth else "an answer"
        raise ModelError(
            f"{self.source} does not contain {times} of {self.name} to {question!r} with these "
            f"parameters",
            kind="other",
        )


def recorded_entries(place: Path) -> Mapping[Key, Entry]:
    """Read the finished requests from a run or a journal."""
    if place.is_dir() and (place / RESPONSES).exists():
        return read_entries(Run.open(place).table(RESPONSES))
    if _tables_of(place):
        return {}
    return Journal(place / JOURNAL if place.is_dir() else place).read()


@dataclass(frozen=True, slots=True)
class SilentModel:
    """Judge model that is never queried because its verdicts are stored."""

    model: Model
    source: Path

    @property
    def name(self) -> str:
        """Name of the judge model."""
        return self.model.name

    def describe(self) -> Mapping[str, Any]:
        """Return the description of the judge model."""
        return self.model.describe()

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Raise `ModelError`, since a replay sends no requests."""
        self._refuse()

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise `ModelError`, since a replay sends no requests."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ModelError(
            f"{self.source} does not contain this verdict of {self.name}, and a replay sends no "
            f"requests",
            kind="other",
        )


class _ModelAnswers(Protocol):
    """Answers of one model."""

    name: str
    description: Mapping[str, Any]
    speaks_chat: bool

    def find(self, request: Request, nth: int, job: Key | None) -> Response | ErrorInfo | None:
        """Return the answer to a job, else the n-th answer to the same request (from 0)."""
        ...


@dataclass
class _Listed:
    """Entries of a journal or a run."""

    name: str
    description: Mapping[str, Any]
    by_fingerprint: bool
    speaks_chat: bool
    entries: dict[str, list[Entry]] = field(default_factory=dict)

    def find(self, request: Request, nth: int, job: Key | None) -> Response | ErrorInfo | None:
        key = request.fingerprint
        if not self.by_fingerprint:
            key = request_hash(request, canonical_json(self.description))
        entries = self.entries.get(key, [])
        same = [entry for entry in entries if entry.key == job]
        entry = next(iter(same or entries[nth : nth + 1]), None)
        if entry is None:
            return None
        if entry.response is None:
            return ErrorInfo.from_dict(entry.error or {})
        return read_response(entry.response, entry.usage, request)


@dataclass
class _CachedAnswers:
    """Answers in a response cache."""

    name: str
    description: Mapping[str, Any]
    cache: ResponseCache
    speaks_chat: bool = True
    """Assumed to be true, since a cache contains no prompts."""

    def find(self, request: Request, nth: int, job: Key | None) -> Response | ErrorInfo | None:
        return self.cache.get(key_of(request, canonical_json(self.description), nth), request)


def _of_run(folder: Path, name: str | None) -> _Listed:
    run = Run.open(folder)
    outcomes = read_outcomes(run.table(RESPONSES))
    requests = [outcome.job.request for outcome in outcomes]
    chats = [type(one.prompt) is tuple for one in requests if isinstance(one, GenerateRequest)]
    model = _one(_recorded_models(run), name, folder)
    listed = _Listed(*model, by_fingerprint=True, speaks_chat=any(chats) or not chats)
    return _listed(listed, outcomes)


def _listed(listed: _Listed, outcomes: Iterable[JobResult]) -> _Listed:
    """Add the answers in a run or in tables to the listed ones."""
    for outcome in outcomes:
        entries = listed.entries.setdefault(outcome.job.request.fingerprint, [])
        entries.append(Entry.of(outcome))
    return listed


def _tables_of(path: Path) -> list[Path]:
    """Return the Parquet files with answers, if the path is not a run."""
    if path.is_dir():
        return [] if (path / MANIFEST).exists() else sorted(path.glob("*.parquet"))
    return [path] if path.suffix == ".parquet" else []


def _of_tables(files: Iterable[Path], name: str) -> _Listed:
    """Read answers from tables, whose rows may be in any order."""
    numbers = ["attempt"]
    texts = [column for column in COLUMNS if column not in numbers]
    tables = [read_table(file, texts=texts, columns=numbers) for file in files]
    rows = {column: [one for table in tables for one in table[column]] for column in COLUMNS}
    full = sorted(range(len(rows["prompt"])), key=lambda at: not rows["prompt"][at])
    outcomes = read_outcomes({column: [cells[at] for at in full] for column, cells in rows.items()})
    description = {
        "kind": "stored_answers",
        "sha256": sha256_text(canonical_json(_contents(outcomes))),
    }
    chats = any(not isinstance(one.job.request.prompt, str) for one in outcomes)
    return _listed(_Listed(name, description, by_fingerprint=True, speaks_chat=chats), outcomes)


def _contents(outcomes: Iterable[JobResult]) -> list[Any]:
    entries = [Entry.of(outcome) for outcome in outcomes]
    return sorted([*one.key, to_json([one.response, one.error])] for one in entries)


def _recorded_models(run: Run) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the names and descriptions of the models in the manifest."""
    listed = run.manifest.get("models") or [
        {"name": scorer} for scorer in dict.fromkeys(scorer for _, scorer in run.subjects)
    ]
    if isinstance(listed, Mapping):
        listed = [{"name": name, "description": about} for name, about in listed.items()]
    models = [about for about in listed if isinstance(about, Mapping) and "name" in about]
    return [(str(about["name"]), about.get("description") or about) for about in models]


def _of_journal(path: Path, name: str | None) -> _Listed:
    found = Journal(path).read()
    if not isinstance(found.head.get("description"), Mapping):
        raise ArtifactError(f"{path}: the journal does not name the model that it recorded")
    recorded = [(str(found.head.get("model")), found.head["description"])]
    speaks_chat = found.head.get("speaks_chat") is not False
    model = _one(recorded, name, path)
    listed = _Listed(*model, by_fingerprint=False, speaks_chat=speaks_chat)
    for entry in sorted(found.values(), key=lambda entry: entry.key):  # in a fixed order
        listed.entries.setdefault(entry.request_hash, []).append(entry)
    return listed


def _of_cache(path: Path, name: str | None) -> _CachedAnswers:
    cache = ResponseCache(path)
    return _CachedAnswers(*_one(cache.models(), name, path), cache)


def _one(
    models: Iterable[tuple[str, Mapping[str, Any]]], name: str | None, source: Path
) -> tuple[str, Mapping[str, Any]]:
    """Return the selected model."""
    have = list(models)
    if not have:
        raise ArtifactError(f"{source}: contains no answers of a model; nothing to replay")
    meant = [model for model in have if name is None or model[0] == name]
    if len(meant) == 1:
        return meant[0]
    names = ", ".join(dict.fromkeys(model[0] for model in have))
    if not meant:
        raise InvalidInputError(f"{source}: contains no answers of {name!r}; choose from {names}")
    if name is None:
        raise InvalidInputError(f"{source}: contains answers of {names}; select one with `name`")
    raise InvalidInputError(
        f"{source}: contains answers of {len(meant)} models named {name!r} with different "
        f"settings; replay a run instead"
    )

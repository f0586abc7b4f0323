"""Cache of answers in an SQLite file that several processes may share.

Answers are keyed by model, parameters and request, never by the prompt alone. Repeated attempts
must not share an answer, so identical requests of a run are numbered, and answers sampled without a
seed are not cached.
"""

import atexit
import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models._background import Background
from eval_toolkit.models.payloads import (
    Response,
    checked_response,
    read_response,
    response_payload,
    to_json,
)
from eval_toolkit.models.request_positions import Place, ask
from eval_toolkit.models.requests import (
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    request_hash,
)
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.protocols import Model

_APPLICATION = 0x65746B31
"""SQLite application ID of cache files."""
_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS models (id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS responses (
    hash BLOB PRIMARY KEY, model TEXT NOT NULL, response TEXT NOT NULL, usage TEXT NOT NULL
);
"""
_WAIT_S = 30.0
_BATCH = 512
_PASSED_ON = (
    *("concurrency", "count_tokens", "render", "speaks_chat"),
    *("own_temperature", "reads_prompts_again", "token_counts"),
)


class ResponseCache:
    """Cache of model answers in an SQLite file, used through `CachedModel`.

    Parameters
    ----------
    path : path
        Path of the file; created if needed. Several processes may use it concurrently.

    Raises
    ------
    ArtifactError
        If the file is damaged or is not a response cache.

    Notes
    -----
    A background thread writes answers about twice a second; `flush`, `close` and normal process
    exit write the remaining ones.

    Examples
    --------
    >>> import tempfile
    >>> with ResponseCache(tempfile.mkdtemp() + "/cache.sqlite") as cache:
    ...     len(cache)
    0
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._pending: dict[bytes, tuple[str, str, str]] = {}
        self._models: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        with self._plain_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two connections, so that lookups do not wait for writes.
            self._writer = _connect(self.path)
            self._prepare()
            self._reader = _connect(self.path)
        self._background = Background(self._write)
        self._closed = False
        atexit.register(self.close)

    def __enter__(self) -> "ResponseCache":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        self.flush()
        with self._plain_errors():
            return int(self._reader.execute("SELECT count(*) FROM responses").fetchone()[0])

    def get(self, key: str, request: Request) -> Response | None:
        """Return the cached answer to a request, or None.

        Parameters
        ----------
        key : str
            Hash returned by `request_hash`.
        request : GenerateRequest or LoglikelihoodRequest
            Request that was hashed.

        Returns
        -------
        RawCompletion, RawLoglikelihood or None
            Stored answer with its original usage.

        Raises
        ------
        ArtifactError
            If the file is damaged.
        """
        digest = bytes.fromhex(key)
        found: Any = self._pending.get(digest)
        if found is None:
            with self._plain_errors():
                found = self._reader.execute(
                    "SELECT model, response, usage FROM responses WHERE hash = ?", (digest,)
                ).fetchone()
        if found is None:
            return None
        try:
            return read_response(json.loads(found[1]), json.loads(found[2]), request)
        except (ValueError, TypeError):
            raise self._damaged("a stored answer cannot be read") from None

    def add_model(self, model: Model) -> str:
        """Store a model's name and description, and return the id to pass to `put`.

        Parameters
        ----------
        model : Model
            Model that produces the answers.

        Returns
        -------
        str
            Id of the model; equal for models with equal descriptions.
        """
        description = canonical_json(redact_secrets(dict(model.describe())))
        key = sha256_text(f"{model.name}\n{description}")
        with self._lock:
            self._models[key] = (model.name, description)
        return key

    def put(self, key: str, request: Request, response: Response, model: str) -> None:
        """Store an answer unless the key already has one.

        Parameters
        ----------
        key, request
            See `get`.
        response : RawCompletion or RawLoglikelihood
            Answer without an error.
        model : str
            Id returned by `add_model`.

        Raises
        ------
        ArtifactError
            If earlier answers could not be written.
        """
        payload = to_json(response_payload(response, request))
        with self._lock:
            self._pending[bytes.fromhex(key)] = (model, payload, to_json(response.usage.to_dict()))
        with self._plain_errors():
            self._background.wake()

    def models(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the names and descriptions of all models with cached answers, sorted by name."""
        self.flush()
        with self._plain_errors():
            rows = self._reader.execute("SELECT name, description FROM models").fetchall()
        return [(name, json.loads(description)) for name, description in sorted(rows)]

    def flush(self) -> None:
        """Write all pending answers to disk."""
        with self._plain_errors():
            self._background.close()
            self._write()

    def close(self) -> None:
        """Write pending answers and close the file."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self.flush()
        finally:
            self._writer.close()
            self._reader.close()

    def _write(self) -> None:
        with self._lock:
            rows = list(self._pending.items())
            models = [(key, *model) for key, model in self._models.items()]
        if not rows:
            return
        for start in range(0, len(rows), _BATCH):  # short transactions: other processes write too
            batch = [(key, *row) for key, row in rows[start : start + _BATCH]]
            with _transaction(self._writer):
                self._writer.executemany("INSERT OR IGNORE INTO models VALUES (?, ?, ?)", models)
                self._writer.executemany(
                    "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?)", batch
                )
        with self._lock:
            for key, _ in rows:
                self._pending.pop(key, None)

    def _prepare(self) -> None:
        """Create the tables; raise an error if the file is not a response cache."""
        version = int(self._writer.execute("PRAGMA user_version").fetchone()[0])
        application = int(self._writer.execute("PRAGMA application_id").fetchone()[0])
        n_tables = int(self._writer.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        if n_tables and application != _APPLICATION:
            raise ArtifactError(
                f"{self.path}: this SQLite file is not a response cache; choose another path"
            )
        if version > _VERSION:
            raise ArtifactError(
                f"{self.path}: this cache has version {version}, but this version of eval-toolkit "
                f"reads only version {_VERSION}"
            )
        if version == _VERSION:
            return
        self._writer.execute("PRAGMA journal_mode = WAL")
        with _transaction(self._writer):  # one transaction, since another process may do the same
            self._writer.execute(f"PRAGMA application_id = {_APPLICATION}")
            for statement in filter(str.strip, _TABLES.split(";")):
                self._writer.execute(statement)
            self._writer.execute(f"PRAGMA user_version = {_VERSION}")

    @contextlib.contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise ArtifactError(f"{self.path}: the cache cannot be used: {error}") from error
        except sqlite3.ProgrammingError:
            raise ArtifactError(
                f"{self.path}: this cache is closed; open it again with ResponseCache(path)"
            ) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(str(error)) from error
        except OSError as error:
            if isinstance(error, ArtifactError):
                raise
            raise ArtifactError(
                f"{self.path}: the cache cannot be used: {error.strerror or error}"
            ) from error

    def _damaged(self, why: str) -> ArtifactError:
        return ArtifactError(
            f"{self.path}: not a response cache, or damaged ({why}); delete it or choose another"
        )


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
    )
    # In WAL mode this survives a killed process; a power failure may lose the last answers.
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def key_of(request: Request, model: str, nth: int) -> str:
    """Return the key of the n-th identical request, counted from 0; the first is the plain hash."""
    key = request_hash(request, model)
    return key if nth == 0 else sha256_text(f"{key} {nth}")


class CachedModel:
    """Model whose answers are cached.

    Its name, description, concurrency, token counts and chat template are those of the wrapped
    model. The usage of a cached answer has zero cost and ``cached`` set. Errors are not cached, nor
    are answers sampled without a seed (temperature above 0, no ``seed``). Identical requests of a
    run have separate answers, cached in order.

    Parameters
    ----------
    model : Model
        Model that is queried if the cache has no answer.
    cache : ResponseCache
        Cache of the answers.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from eval_toolkit.models.scripted import ScriptedModel
    >>> inner = ScriptedModel("Rome")
    >>> with ResponseCache(tempfile.mkdtemp() + "/cache.sqlite") as cache:
    ...     model = CachedModel(inner, cache)
    ...     answers = [asyncio.run(model.generate(GenerateRequest("Capital?"))) for _ in range(2)]
    >>> [answer.usage.cached for answer in answers], inner.n_calls
    ([False, True], 1)
    """

    def __init__(self, model: Model, cache: ResponseCache) -> None:
        self.model = model
        self.cache = cache

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self.model.name

    def describe(self) -> Mapping[str, Any]:
        """Return the description of the wrapped model, since a cache does not change answers."""
        return self.model.describe()

    @cached_property
    def _identity(self) -> str:
        return canonical_json(self.model.describe())

    @cached_property
    def _id(self) -> str:
        return self.cache.add_model(self.model)

    def __getattr__(self, name: str) -> Any:
        if name in _PASSED_ON:
            return getattr(self.model, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Return the cached answer, or query the model."""
        response: RawCompletion = await self.answer_at(request)
        return response

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Return the cached log-likelihoods, or query the model."""
        response: RawLoglikelihood = await self.answer_at(request)
        return response

    async def answer_at(self, request: Request, place: Place | None = None) -> Any:
        """Return the cached answer to a request at a position, or query the model.

        ``place`` distinguishes identical requests of a run. ``usage.cached`` is set if the answer
        comes from the cache.
        """
        if (
            isinstance(request, GenerateRequest)
            and request.temperature != 0
            and request.seed is None
        ):
            return await ask(self.model, request, place)
        key = key_of(request, self._identity, 0 if place is None else place.nth)
        kept = self.cache.get(key, request)
        if kept is not None:
            kept.usage = replace(kept.usage, cost=0.0, latency_s=0.0, tries=1, cached=True)
            return kept
        response = checked_response(await ask(self.model, request, place), request)
        if response.error is None:
            self.cache.put(key, request, response, self._id)
        return response

    async def aclose(self) -> None:
        """Write pending answers, and close the model but not the cache."""
        self.cache.flush()
        if hasattr(self.model, "aclose"):
            await self.model.aclose()


def cached(
    model: Model, cache: ResponseCache | str | Path | None, stack: contextlib.ExitStack
) -> Model:
    """Wrap a model in a cache, if any; a cache opened here is also closed here."""
    if cache is None:
        return model
    if not isinstance(cache, ResponseCache):
        cache = stack.enter_context(ResponseCache(cache))
    return CachedModel(model, cache)

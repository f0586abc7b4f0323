"""`BatchModel`: a model queried through a batch API, which is slower but cheaper."""

import asyncio
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import open_for_appending
from eval_toolkit._internal.files.private import file_mode
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.openai_compatible.model import OpenAICompatible, Prepared
from eval_toolkit.models.openai_compatible.transport import FilePath
from eval_toolkit.models.request_positions import Place
from eval_toolkit.models.requests import (
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    request_hash,
)
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.models.runner.lines import parsed_line
from eval_toolkit.models.servers import the_server

BATCHES = "batches.jsonl"
"""File in a run folder that records the requests of each batch."""
_MOST_REQUESTS = 50_000
_MOST_BYTES = 100_000_000
"""Maximum size of a request file; services accept 200 MB."""
_GATHER_S = 0.05
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0
_OVER = ("completed", "expired", "cancelled", "failed", "not known")
_PASSED_ON = (
    *("answers_as", "api_key_env", "base_url", "default_max_tokens", "own_temperature", "prices"),
    *("served", "token_counts"),
)
_BUSY = "token_limit_exceeded"
"""Error code of a batch that is rejected because others are in progress."""


class BatchModel:
    """Model whose requests are sent in files to an OpenAI-style batch API.

    Concurrent requests are uploaded and submitted together; completion usually takes minutes or
    hours. Submitted batches are recorded in a file, so that after an interruption, the same
    requests collect the answers of these batches and no request is billed twice. Requests that
    expire or fail with a transient error are submitted again.

    Parameters
    ----------
    model : OpenAICompatible
        Model to query; its server must have the endpoints ``/files`` and ``/batches``.
    path : path
        File that records the requests of each batch; it contains no prompts, answers or keys.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the model is not an `OpenAICompatible` model, streams its answers, or has a spending
        limit.

    Examples
    --------
    >>> import tempfile
    >>> inner = OpenAICompatible("my-model", base_url="http://localhost:8000/v1")
    >>> BatchModel(inner, tempfile.mkdtemp() + "/batches.jsonl").name
    'my-model'
    """

    concurrency = _MOST_REQUESTS

    def __init__(self, model: Any, path: str | Path) -> None:
        if not isinstance(model, OpenAICompatible):
            raise InvalidTypeError(
                f"batches require an openai:NAME model, not {type(model).__name__}; remove --batch"
            )
        if not isinstance(model.base_url, str):
            raise InvalidInputError("batches are sent to one server; pass one `base_url`")
        if model.streams:
            raise InvalidInputError("batch answers cannot be streamed; remove stream=true")
        server = the_server()
        if server.spending is not None:
            raise InvalidInputError(
                "the cost of a batch is known only when it finishes; remove either --batch, or "
                "both --max-cost and --max-tokens-total"
            )
        self._model = model
        self._endpoint = model._endpoint
        self._log = _Log(Path(path))
        self._tell = server.tell
        self._waiting: dict[str, _Call] = {}
        self._n_equal: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    @cached_property
    def _identity(self) -> str:
        return canonical_json(self._model.describe())

    @property
    def name(self) -> str:
        """Name of the wrapped model."""
        return self._model.name

    def describe(self) -> Mapping[str, Any]:
        """Return the description of the wrapped model, since batches do not change answers."""
        return self._model.describe()

    def __getattr__(self, name: str) -> Any:
        if name in _PASSED_ON:
            return getattr(self._model, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def generate(self, request: GenerateRequest) -> RawCompletion:
        """Queue a request and return its answer once the batch is complete."""
        digest = request_hash(request, self._identity)
        self._n_equal[digest] += 1
        return await self._answer(request, f"{digest} {self._n_equal[digest]}")

    async def loglikelihood(self, request: LoglikelihoodRequest) -> RawLoglikelihood:
        """Raise `ModelError` of kind "unsupported", since batches can only generate text."""
        raise ModelError(
            f"{self.name}: batches do not support log-likelihoods; remove --batch",
            kind="unsupported",
        )

    async def answer_at(self, request: Request, place: Place | None = None) -> Any:
        """Return the answer to a request at a position in a run."""
        if isinstance(request, LoglikelihoodRequest):
            return await self.loglikelihood(request)
        if place is None:
            return await self.generate(request)
        where = canonical_json(place.job)
        return await self._answer(request, f"{request_hash(request, self._identity)} {where}")

    async def aclose(self) -> None:
        """Stop waiting and close the connections; the server continues to process its batches."""
        task, self._task = self._task, None
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._model.aclose()

    async def _answer(self, request: GenerateRequest, identity: str) -> RawCompletion:
        loop = asyncio.get_running_loop()
        call = _Call(request, self._model._prepared(request), loop.create_future())
        custom_id = sha256_text(identity)[:32]
        self._waiting[custom_id] = call
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._work())
        try:
            return await call.future
        finally:
            self._waiting.pop(custom_id, None)

    async def _work(self) -> None:
        """Submit and collect batches until no request waits; an error fails all that wait."""
        n, pause = 0, _FIRST_PAUSE_S
        try:
            while n != len(self._waiting):  # until no more come
                n = len(self._waiting)
                await asyncio.sleep(_GATHER_S)
            while self._waiting:
                await self._submit()
                ended = [await self._collected(*one) for one in self._under_way().items()]
                if not any(ended):
                    await asyncio.sleep(pause)
                    pause = min(1.5 * pause, _LONGEST_PAUSE_S)
                await asyncio.sleep(0)  # lets tasks whose answers arrived run
        except Exception as error:
            for call in list(self._waiting.values()):
                if not call.future.done():
                    call.future.set_exception(error)

    def _under_way(self) -> dict[str, list[str]]:
        """Return the waiting requests of each file."""
        found: dict[str, list[str]] = {}
        for custom_id, call in self._waiting.items():
            if not call.future.done():
                found.setdefault(self._log.file_of[custom_id], []).append(custom_id)
        return found

    async def _submit(self) -> None:
        """Upload requests that are not in a file yet; submit files that are not in a batch yet."""
        begun = {self._log.file_of[one] for one in self._waiting if one in self._log.file_of}
        fresh = [
            one
            for one, call in self._waiting.items()
            if one not in self._log.file_of and not call.future.done()
        ]
        for ids, path, content in self._files(fresh):
            file = await self._upload(content)
            self._log.append({"file": file, "path": path, "ids": ids})
            await self._begin(file, is_new=True)
        for file in sorted(begun - self._log.batch_of.keys()):
            await self._begin(file, is_new=False)

    def _files(self, ids: Iterable[str]) -> Iterator[tuple[list[str], str, bytes]]:
        """Yield the requests, the path and the content of each file to upload."""
        by_path: dict[str, list[tuple[str, bytes]]] = {}
        for custom_id in ids:
            path, body, *_ = self._waiting[custom_id].prepared
            head = {"custom_id": custom_id, "method": "POST", "url": f"/v1/{path}"}
            text = json.dumps({**head, "body": json.loads(body)})
            by_path.setdefault(path, []).append((custom_id, f"{text}\n".encode()))
        for path, lines in by_path.items():
            while lines:
                size = n = 0
                for n, (_, line) in enumerate(lines[:_MOST_REQUESTS], 1):  # noqa: B007 - used below
                    size += len(line)
                    if size > _MOST_BYTES:
                        break
                some, lines = lines[:n], lines[n:]
                yield [one for one, _ in some], path, b"".join(line for _, line in some)

    async def _upload(self, content: bytes) -> str:
        limit = f"eval-toolkit-{hashlib.sha256(content).hexdigest()[:32]}"
        head = 'Content-Disposition: form-data; name="'
        parts = (
            f'--{limit}\r\n{head}purpose"\r\n\r\nbatch\r\n'
            f'--{limit}\r\n{head}file"; filename="requests.jsonl"\r\n'
            "Content-Type: application/jsonl\r\n\r\n"
        )
        body = parts.encode() + content + f"\r\n--{limit}--\r\n".encode()
        path = FilePath("files", f"multipart/form-data; boundary={limit}")
        answer = (await self._endpoint.ask(path, body, dict)).value["content"]
        return str(self._endpoint.parsed(path, 200, answer, dict).value["id"])

    async def _begin(self, file: str, *, is_new: bool) -> None:
        """Submit a file unless it has already been submitted."""
        path, n_requests = self._log.path_of[file]
        fields = {"input_file_id": file, "endpoint": f"/v1/{path}", "completion_window": "24h"}
        batch = None if is_new else await self._find(file)
        tries = 0
        while batch is None:
            try:
                body = json.dumps(fields).encode()
                batch = str(
                    (await self._endpoint.ask("batches", body, dict, retries=False)).value["id"]
                )
            except ModelError as error:
                tries += 1
                if not error.retryable or tries == self._endpoint.max_tries:
                    raise
                await asyncio.sleep(getattr(error, "wait_s", None) or _FIRST_PAUSE_S)
                batch = await self._find(file)  # it may have been accepted nonetheless
        self._log.append({"file": file, "batch": batch})
        self._tell(
            f"{self.name}: {n_requests} requests are in the batch {batch}; if this command ends "
            "before the batch does, run it again to collect the answers"
        )

    async def _find(self, file: str) -> str | None:
        """Return the batch created from a file, or None."""
        after, more = "", True
        while more:
            page = (await self._endpoint.ask(f"batches?limit=100{after}", None, dict)).value
            batches = page["data"]
            found = next((one["id"] for one in batches if one["input_file_id"] == file), None)
            if found is not None:
                return str(found)
            more = bool(page.get("has_more")) and bool(batches)
            after = f"&after={batches[-1]['id']}" if batches else ""
        return None

    async def _collected(self, file: str, ids: Sequence[str]) -> bool:
        """Deliver the answers of a batch; return False if the batch is not finished."""
        batch = self._log.batch_of[file]
        state = await self._kept(f"batches/{batch}", {"status": "not known"})
        status = state["status"]
        if status not in _OVER:
            return False
        reason, kind = f"the batch {batch} is {status}", "garbled"
        if status in ("failed", "cancelled"):
            errors = (state.get("errors") or {}).get("data") or [{}]
            reason = f"{reason}: {errors[0].get('message') or 'no reason given'}"
            busy = errors[0].get("code") == _BUSY
            kind = "rate_limited" if busy else "unsupported" if status == "failed" else "other"
        lines: dict[str, dict[str, Any]] = {}
        for name in ("output_file_id", "error_file_id"):
            if state.get(name):
                path = FilePath(f"files/{state[name]}/content")
                content = (await self._kept(path, {"content": b""}))["content"]
                found = [parsed_line(line) for line in content.split(b"\n")]
                lines |= {str(one.get("custom_id")): one for one in found if isinstance(one, dict)}
        absent = ModelError(f"{reason} and contains no answer to this request", kind=kind)
        outcomes = {one: self._outcome(one, lines.get(one), absent) for one in ids}
        most = self._endpoint.max_tries
        again = {
            one
            for one, outcome in outcomes.items()
            if isinstance(outcome, ModelError)
            and outcome.retryable
            and (self._log.tries[one] < most or kind == "rate_limited")
        }
        failed = [one for one in ids if isinstance(outcomes[one], ModelError) and one not in again]
        if failed:  # so that another run submits them
            self._log.append({"forget": failed})
        for one in ids:
            outcome, future = outcomes[one], self._waiting[one].future
            if one in again:
                del self._log.file_of[one]
            elif isinstance(outcome, ModelError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return kind != "rate_limited"

    def _outcome(
        self, custom_id: str, line: Mapping[str, Any] | None, absent: ModelError
    ) -> RawCompletion | ModelError:
        """Return the answer in a line of a result file, or the reason why it has none."""
        call, tries = self._waiting[custom_id], self._log.tries[custom_id]
        response = None if line is None else line.get("response")
        if not isinstance(response, dict):
            failure = (line or {}).get("error")
            words = (
                failure.get("message") or failure.get("code") if isinstance(failure, dict) else None
            )
            return ModelError(str(words), kind="server") if words else absent
        try:
            status = int(response.get("status_code") or 200)
            raw = json.dumps(response.get("body")).encode()
            reply = self._endpoint.parsed(call.prepared.path, status, raw, call.prepared.read)
        except ModelError as error:
            error.tries = tries
            return error
        reply.tries = tries
        return self._model._completion(call.request, reply, cue=call.prepared.cue)

    async def _kept(self, path: str, absent: dict[str, Any]) -> dict[str, Any]:
        """Fetch the object at a path; return ``absent`` if the server no longer stores it."""
        try:
            return (await self._endpoint.ask(path, None, dict)).value
        except ModelError as error:
            if error.status != 404:
                raise
            return absent


@dataclass(eq=False, slots=True)
class _Call:
    """Request that waits for its answer."""

    request: GenerateRequest
    prepared: Prepared
    future: "asyncio.Future[RawCompletion]"


class _Log:
    """On-disk record of which requests are in which file, and which file is in which batch."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file_of: dict[str, str] = {}
        """File that contains each request."""
        self.path_of: dict[str, tuple[str, int]] = {}
        """Path and number of requests of each file."""
        self.batch_of: dict[str, str] = {}
        """Batch of each file."""
        self.tries: Counter[str] = Counter()
        """Number of files in which each request was submitted."""
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                if isinstance(entry := parsed_line(line), dict):
                    self._take(entry)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Record an event, on disk before in memory."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open_for_appending(self.path, file_mode())
            with os.fdopen(file, "ab") as stream:
                # The leading newline ends a line truncated by a crash.
                stream.write(f"\n{json.dumps(entry)}\n".encode())
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise ArtifactError(f"{self.path}: cannot be written: {error.strerror}") from error
        self._take(entry)

    def _take(self, entry: Mapping[str, Any]) -> None:
        if "ids" in entry:
            self.path_of[entry["file"]] = entry["path"], len(entry["ids"])
            self.file_of.update(dict.fromkeys(entry["ids"], entry["file"]))
            self.tries.update(entry["ids"])
        elif "batch" in entry:
            self.batch_of[entry["file"]] = entry["batch"]
        for custom_id in entry.get("forget", ()):
            self.file_of.pop(custom_id, None)
            del self.tries[custom_id]

"""Conversion of outcomes to the columns of ``responses.parquet`` and back."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.files import parse_json
from eval_toolkit._internal.hashing import canonical_json, sha256_text
from eval_toolkit._internal.plain import objects, whole_text
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.messages import Message
from eval_toolkit.models.payloads import read_response, to_json
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest, Request
from eval_toolkit.models.responses import ErrorInfo
from eval_toolkit.models.runner.entries import Entry
from eval_toolkit.models.runner.jobs import Job, JobResult, Key

RESPONSES = "responses.parquet"
COLUMNS = (
    "unit_id",
    "attempt",
    "step",
    "request_hash",
    "kind",
    "prompt_hash",
    "prompt",
    "params",
    "response",
    "usage",
    "error",
)
_JSON_PROMPT = "prompt_is_json"


def to_columns(
    outcomes: Iterable[JobResult], seen: set[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Return outcomes as columns, one row per job.

    Parameters
    ----------
    outcomes : iterable of JobResult
        Outcomes with answers and errors.
    seen : set of str, optional
        Hashes of the prompts in earlier parts of the table, which is extended.

    Returns
    -------
    dict of str to ndarray
        `COLUMNS`: strings, except for integers in "attempt". "prompt" is "" if an earlier row has
        the same "prompt_hash"; "response", "usage" and "error" are JSON or None.

    Examples
    --------
    >>> job = Job("q1", 1, GenerateRequest("2 + 2 ="))
    >>> failed = JobResult(job, error=ErrorInfo("timeout", "no answer within 60 s"))
    >>> to_columns([failed])["prompt"].tolist()
    ['2 + 2 =']
    """
    rows = []
    seen = set() if seen is None else seen
    for each in outcomes:
        outcome = each.loaded()
        kind, prompt, params = _split_request(outcome.job.request)
        digest = sha256_text(prompt)
        entry = Entry.of(outcome)
        rows.append(
            (
                *entry.key,
                entry.request_hash,
                kind,
                digest,
                "" if digest in seen else prompt,
                to_json(params),
                *(
                    None if part is None else to_json(part)
                    for part in (entry.response, entry.usage, entry.error)
                ),
            )
        )
        seen.add(digest)
    cells = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return {
        name: np.array(column, dtype=np.int64) if name == "attempt" else objects(column)
        for name, column in zip(COLUMNS, cells, strict=True)
    }


def read_entries(columns: Mapping[str, Any]) -> dict[Key, Entry]:
    """Read the finished requests from stored columns, to pass to `run_jobs`.

    Parameters
    ----------
    columns : mapping of str to sequence
        Result of `to_columns`, or ``Run.table("responses.parquet")``.

    Returns
    -------
    dict of (unit_id, attempt, step) to Entry
        Finished requests, including errors.

    Raises
    ------
    ArtifactError
        If a column is missing or a cell cannot be read.

    Examples
    --------
    >>> read_entries(to_columns([]))
    {}
    """
    rows = _rows(columns, ("response", "usage", "error"))
    entries = [_entry(row, n) for n, row in enumerate(rows)]
    return {entry.key: entry for entry in entries}


def read_outcomes(columns: Mapping[str, Any]) -> list[JobResult]:
    """Read the outcomes and their requests from stored columns.

    Parameters
    ----------
    columns : mapping of str to sequence
        See `read_entries`.

    Returns
    -------
    list of JobResult
        Outcomes equal to the stored ones, in the same order; their answers count as reused.

    Raises
    ------
    ArtifactError
        If a column is missing or a cell cannot be read.

    Examples
    --------
    >>> job = Job("q1", 1, GenerateRequest("2 + 2 ="))
    >>> failed = JobResult(job, error=ErrorInfo("timeout", "no answer within 60 s"))
    >>> read_outcomes(to_columns([failed])) == [failed]
    True
    """
    prompts: dict[str, str] = {}
    outcomes = []
    for n, row in enumerate(_rows(columns, COLUMNS[4:])):
        text = prompts.setdefault(row["prompt_hash"], row["prompt"])
        try:
            request = _put_together(
                row["kind"], text, parse_json(row["params"], "params", strict=False)
            )
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise ArtifactError(f"stored responses, row {n}: invalid request: {error}") from None
        outcomes.append(_outcome(_entry(row, n), request, n))
    return outcomes


def _outcome(entry: Entry, request: Request, row: int) -> JobResult:
    job = Job(entry.unit_id, entry.attempt, request, entry.step)
    try:
        if entry.response is None:
            failed = ErrorInfo.from_dict(entry.error or {})
            return JobResult(job, error=failed, request_hash=entry.request_hash)
        response = read_response(entry.response, entry.usage, request)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise ArtifactError(f"stored responses, row {row}: {error}") from None
    return JobResult(job, response, reused=True, request_hash=entry.request_hash)


def _split_request(request: Request) -> tuple[str, str, dict[str, Any]]:
    """Split a request into kind, prompt (as JSON if it is not a string) and parameters."""
    params = request.to_dict()
    kind, prompt = params.pop("kind"), params.pop("prompt")
    # By default the temperature is 0; None is the server's own.
    params = {name: it for name, it in params.items() if it is not None or name == "temperature"}
    if not isinstance(prompt, str):
        params[_JSON_PROMPT] = True
        prompt = canonical_json(prompt)
        if whole_text(prompt) != prompt:
            prompt = to_json(json.loads(prompt))
    elif whole_text(prompt) != prompt:
        params[_JSON_PROMPT] = True
        prompt = to_json(prompt)
    return kind, prompt, params


def _put_together(kind: str, prompt: str, params: dict[str, Any]) -> Request:
    given: Any = prompt
    if params.pop(_JSON_PROMPT, False):
        given = parse_json(prompt, "prompt", strict=False)
        if isinstance(given, list):
            given = tuple(Message(role, content) for role, content in given)
    constructor = GenerateRequest if kind == "generate" else LoglikelihoodRequest
    request: Request = constructor(prompt=given, **params)
    return request


def _rows(columns: Mapping[str, Any], required: Iterable[str]) -> Iterable[dict[str, Any]]:
    names = (*COLUMNS[:4], *required)
    missing = [name for name in names if name not in columns]
    if missing:
        raise ArtifactError(f"stored responses have no column {missing[0]!r}")
    cells = (np.asarray(columns[name]).tolist() for name in names)
    return (dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True))


def _entry(row: Mapping[str, Any], n: int) -> Entry:
    parts = {}
    for name in ("response", "usage", "error"):
        try:
            parts[name] = None if row[name] is None else parse_json(row[name], name, strict=False)
        except (ValueError, TypeError, AttributeError):
            raise ArtifactError(f"stored responses, row {n}: {name} is not JSON") from None
    if (parts["response"] is None) == (parts["error"] is None):
        raise ArtifactError(f"stored responses, row {n}: needs either an answer or an error")
    try:
        attempt = int(row["attempt"])
    except (ValueError, TypeError, OverflowError):
        raise ArtifactError(f"stored responses, row {n}: attempt is not a number") from None
    return Entry(row["unit_id"], attempt, row["step"], row["request_hash"], **parts)

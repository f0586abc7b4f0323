"""Compact JSON encoding of answers, without fields that the request already contains."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from eval_toolkit._internal.json_writing import json_writer
from eval_toolkit.errors import ModelError
from eval_toolkit.models.requests import LoglikelihoodRequest, Request
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood
from eval_toolkit.models.responses.fields import encoded_numbers

Response: TypeAlias = RawCompletion | RawLoglikelihood

_OF_COMPLETIONS: tuple[str, ...] = (
    *("prompt", "prompt_tokens", "completion_tokens", "finish_reason"),
    *("reasoning", "reasoning_tokens", "top_logprobs"),
)
_OF_LOGLIKELIHOODS: tuple[str, ...] = ("prompt", "prompt_tokens", "n_tokens", "is_greedy")


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):  # a numpy number
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


to_json = json_writer(ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=_plain)
"""Encoder of strict JSON as one ASCII line, with line breaks and lone surrogates escaped."""


def response_payload(response: Response, request: Request) -> dict[str, Any]:
    """Encode an answer without its usage as a dict; None stands for the value in the request."""
    if isinstance(response, RawLoglikelihood):
        payload: dict[str, Any] = {"loglikelihoods": encoded_numbers(response.loglikelihoods)}
        same = response.choices == getattr(request, "continuations", None)
        payload["choices"] = None if same else response.choices
        names = _OF_LOGLIKELIHOODS
    else:
        payload = {"text": response.text}
        names = _OF_COMPLETIONS
    for name in names:
        value = getattr(response, name)
        if value is not None and value != "":
            payload[name] = value
    if response.prompt and response.prompt == request.prompt:
        payload["prompt"] = None
    return payload


def read_response(
    payload: Mapping[str, Any], usage: Mapping[str, Any] | None, request: Request
) -> Response:
    """Parse an answer written by `response_payload`; raise ValueError if it is invalid."""
    kind = RawLoglikelihood if isinstance(request, LoglikelihoodRequest) else RawCompletion
    try:
        given = {**payload, "usage": usage or {}}
        if given.get("prompt", "") is None:
            given["prompt"] = request.prompt
        if given.get("choices", ()) is None:
            given["choices"] = getattr(request, "continuations", ())
        response: Response = kind.from_dict(given)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"the stored answer is damaged: {error}") from None
    return response


def checked_response(response: Any, request: Request) -> Response:
    """Check that a model's answer matches the request, and return it; else raise `ModelError`."""
    if isinstance(request, LoglikelihoodRequest):
        if not isinstance(response, RawLoglikelihood):
            raise _wrong_type(response, "RawLoglikelihood")
        n_numbers, n_wanted = len(response.loglikelihoods), len(request.continuations)
        if n_numbers != n_wanted and response.error is None:
            raise ModelError(
                f"the model returned {n_numbers} log-likelihoods for {n_wanted} continuations",
                kind="garbled",
            )
        return response
    if not isinstance(response, RawCompletion):
        raise _wrong_type(response, "RawCompletion")
    return response


def _wrong_type(response: Any, expected: str) -> ModelError:
    return ModelError(f"the model returned {type(response).__name__}, not {expected}", kind="other")

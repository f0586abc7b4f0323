"""Exceptions of the package.

::

    EvalToolkitError
    ├── InvalidInputError      (ValueError)    an argument is invalid
    │   ├── InvalidTypeError   (TypeError)     … because its type is wrong
    │   └── MissingColumnError (KeyError)      … because a column, slice or scorer is missing
    ├── UndefinedMetricError   (ValueError)    the metric is not defined for this data
    ├── InfeasibleError        (RuntimeError)  no threshold or interval meets the requirements
    ├── ArtifactError          (ValueError)    a stored file is missing, altered or mismatched
    │   └── MissingFileError   (FileNotFoundError) … because it does not exist
    ├── LeakageError           (RuntimeError)  a leakage check failed and the policy is "raise"
    ├── MissingExtraError      (ImportError)   an optional dependency is not installed
    ├── PluginError            (LookupError)   a name cannot be resolved, or the plugin is broken
    └── ModelError             (RuntimeError)  a model request failed

Each exception is also a subclass of the builtin exception in parentheses.
"""

import re

__all__ = [
    "ArtifactError",
    "EvalToolkitError",
    "InfeasibleError",
    "InvalidInputError",
    "InvalidTypeError",
    "LeakageError",
    "MissingColumnError",
    "MissingExtraError",
    "MissingFileError",
    "ModelError",
    "PluginError",
    "UndefinedMetricError",
]


_LONGEST_WORD = 1_000
_LONGEST_MESSAGE = 8_000


def _shortened(text: str, longest: int) -> str:
    """Return a string, with its middle omitted if it is too long."""
    if len(text) <= longest:
        return text
    n_left_out = len(text) - longest // 2
    return f"{text[: longest // 4]} … ({n_left_out} characters) … {text[-(longest // 4) :]}"


class EvalToolkitError(Exception):
    """Base class of all exceptions raised by this package.

    Messages may quote arguments and file contents; overlong words and messages are shortened.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*map(self._readable, args))

    @staticmethod
    def _readable(part: object) -> object:
        if not isinstance(part, str) or len(part) <= _LONGEST_WORD:
            return part
        words = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _shortened(word[0], 400), part)
        return _shortened(words, _LONGEST_MESSAGE)


class InvalidInputError(EvalToolkitError, ValueError):
    """Invalid argument; the message names the argument, the row, the rule and the fix."""


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has the wrong type; also a ``TypeError`` and ``ValueError``."""


class MissingColumnError(InvalidInputError, KeyError):
    """A named column, split, slice or scorer is missing; the message lists the available names."""

    __str__ = Exception.__str__  # KeyError would quote the message


class UndefinedMetricError(EvalToolkitError, ValueError):
    """The metric is not defined for this data (a single class, no predicted positives, …)."""


class InfeasibleError(EvalToolkitError, RuntimeError):
    """No threshold, interval or sample size meets the requirements."""


class ArtifactError(EvalToolkitError, ValueError):
    """A stored file is missing, altered or does not match its reference."""


class MissingFileError(ArtifactError, FileNotFoundError):
    """A file is missing, or a glob matches none; also a ``FileNotFoundError``."""


class LeakageError(EvalToolkitError, RuntimeError):
    """A leakage check found errors and the policy is "raise"."""


class MissingExtraError(EvalToolkitError, ImportError):
    """An optional dependency is not installed; the message names the extra."""


class PluginError(EvalToolkitError, LookupError):
    """A plugin name cannot be resolved, or the plugin is broken."""


class ModelError(EvalToolkitError, RuntimeError):
    """A model request failed; `retryable` indicates whether a retry may succeed.

    Parameters
    ----------
    message : str
        One-line message.
    kind : str
        One of `KINDS`.
    status : int, optional
        HTTP status of the response.
    tries : int
        Number of attempts made.
    """

    KINDS = (
        "rate_limited",
        "timeout",
        "connection",
        "server",
        "garbled",
        "bad_request",
        "too_long",
        "refused",
        "auth",
        "not_found",
        "unsupported",
        "budget",
        "unreachable",
        "other",
    )
    RETRYABLE = frozenset({"rate_limited", "timeout", "connection", "server", "garbled"})
    FATAL = frozenset({"auth", "not_found", "unsupported", "budget", "unreachable"})

    def __init__(
        self, message: str, *, kind: str = "other", status: int | None = None, tries: int = 1
    ) -> None:
        super().__init__(message)
        if kind not in self.KINDS:
            raise ValueError(f"`kind` is {kind!r}; it must be one of {', '.join(self.KINDS)}")
        self.kind = kind
        self.status = status
        self.tries = tries

    @property
    def retryable(self) -> bool:
        """Whether retrying the same request may succeed."""
        return self.kind in self.RETRYABLE

    @property
    def fatal(self) -> bool:
        """Whether all other requests to the model will fail in the same way."""
        return self.kind in self.FATAL

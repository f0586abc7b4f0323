"""Origins of names: the user, or a file, which must not run code.

A name typed by the user, on the command line or in Python, may be ``package.module:object``. A
name read from a file only denotes built-in objects and plugins of installed packages, unless the
user allowed code named by the file.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike, environ, fspath
from typing import Any
from urllib.parse import urlsplit

from eval_toolkit.errors import InvalidInputError

_CONSENTS = ("allow_code", "trust_remote_code")
"""Options that permit code execution, which only the user may set."""
_HOSTS_VARIABLE = "EVAL_TOOLKIT_HOSTS"
_ADDRESS_VARIABLE = "OPENAI_BASE_URL"
_ALLOW = "pass allow_code=True if you trust the file"
"""Advice in error messages; the command line replaces it with --allow-code."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a name: `TYPED`, or created by `read_from`.

    Examples
    --------
    >>> TYPED.trusted, read_from("task.toml").trusted
    (True, False)
    """

    file: str = ""
    """File; empty for names typed by the user."""
    key: str = ""
    """Key of the name in the file."""
    allow_code: bool = False
    """Whether the user allowed the code that the file names."""
    remedy: str = _ALLOW
    """Advice that ends an error message."""

    @property
    def trusted(self) -> bool:
        """Whether names may denote arbitrary Python objects."""
        return not self.file or self.allow_code

    @property
    def place(self) -> str:
        """File and key, for the start of a message."""
        return f"{self.file}: {self.key}" if self.key else self.file

    def refuse_import(self, name: str, imports: str) -> None:
        """Raise an `InvalidInputError` if a name from this origin must not be imported.

        Parameters
        ----------
        name : str
            Name as written.
        imports : str
            Object that would be imported or run.

        Raises
        ------
        InvalidInputError
            If it was read from a file whose code the user did not allow.

        Examples
        --------
        >>> read_from("task.toml", "[graders]").refuse_import("os:system", "the module os")
        Traceback (most recent call last):
        eval_toolkit.errors.InvalidInputError: task.toml: [graders] names 'os:system', which would
        import the module os; a file may name built-ins and installed plugins only: pass
        allow_code=True if you trust the file
        """
        self.refuse(
            f"names {name!r:.120}, which would import {imports:.120}; a file may name built-ins and "
            "installed plugins only"
        )

    def refuse_consent(self, options: Any) -> None:
        """Raise an `InvalidInputError` if options of a file permit code execution.

        Tables and lists of the options are searched recursively.
        """
        for consent in _consents(options):
            self.refuse(f"sets {consent}, which permits code execution; a file cannot do this")

    def refuse(self, what: str) -> None:
        """Raise an `InvalidInputError` about a file, unless the user allowed its code.

        ``what`` is the predicate of the message, whose subject is the file and key. The origin of
        the object under construction is checked too.
        """
        strict = self.strictest()
        if not strict.trusted:
            raise InvalidInputError(f"{strict.place} {what}: {strict.remedy}")

    def strictest(self) -> "Origin":
        """Return this origin, or the more restricted one of the object under construction."""
        return _IN_FORCE.get() if self.trusted else self


TYPED = Origin()
"""Origin of names typed by the user, on the command line or as Python arguments."""
_IN_FORCE: ContextVar[Origin] = ContextVar("origin", default=TYPED)
_HOSTS: ContextVar[frozenset["_Host"]] = ContextVar("hosts", default=frozenset())


def read_from(file: str | PathLike[str], key: str = "", *, allow_code: bool = False) -> Origin:
    """Return the origin of a name read from a file.

    Parameters
    ----------
    file : path
        File, for messages.
    key : str
        Key of the name in the file.
    allow_code : bool, default False
        Whether the user allowed the code named by the file; never set by a file.

    Returns
    -------
    Origin
        Origin for `load_plugin` and the functions that call it.

    Examples
    --------
    >>> read_from("suite.toml", "tasks").place
    'suite.toml: tasks'
    """
    return Origin(fspath(file) or ".", key, allow_code)


@contextmanager
def making(origin: Origin) -> Iterator[None]:
    """Apply an origin to names that are resolved while an object is constructed.

    Parameters
    ----------
    origin : Origin
        Origin of the object's name and options; the strictest of nested origins applies.

    Examples
    --------
    >>> with making(read_from("task.toml")):
    ...     origin_in_force().file
    'task.toml'
    """
    token = _IN_FORCE.set(origin.strictest())
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def origin_in_force() -> Origin:
    """Return the origin of the object under construction; `TYPED` by default.

    Examples
    --------
    >>> origin_in_force() is TYPED
    True
    """
    return _IN_FORCE.get()


@contextmanager
def user_hosts(addresses: Iterable[str]) -> Iterator[None]:
    """Allow files to use models at the user's hosts.

    Parameters
    ----------
    addresses : iterable of str
        URLs, or hosts as ``name:port``. A host given with ``https://`` is not queried without
        encryption.

    Examples
    --------
    >>> with user_hosts(["http://localhost:8000/v1"]), making(read_from("task.toml")):
    ...     refuse_address("localhost:8000", {})
    """
    token = _HOSTS.set(_HOSTS.get() | {_Host.read(one) for one in addresses})
    try:
        yield
    finally:
        _HOSTS.reset(token)


def refuse_address(host: str, secrets: Mapping[str, Any]) -> None:
    """Raise if a file's model is at a host that the user has not allowed.

    Parameters
    ----------
    host : str
        Host as ``name`` or ``name:port``, or a URL, whose scheme is checked too.
    secrets : mapping
        Options that select the secrets to send; a file must not set them.

    Raises
    ------
    InvalidInputError
        If the object under construction comes from an untrusted file, and the host is neither on
        the command line nor in EVAL_TOOLKIT_HOSTS or OPENAI_BASE_URL, would be queried over HTTP
        although the user allowed only HTTPS, or the file selects a secret.

    Examples
    --------
    >>> with making(read_from("task.toml", "[graders]")):
    ...     refuse_address("example.org", {})
    Traceback (most recent call last):
    eval_toolkit.errors.InvalidInputError: task.toml: [graders] would send prompts to example.org,
    a host that you have not allowed; add it to the environment variable EVAL_TOOLKIT_HOSTS, or pass
    allow_code=True if you trust the file
    """
    origin = origin_in_force()
    if origin.trusted:
        return
    chosen = [name for name, value in secrets.items() if value]
    if chosen:
        raise InvalidInputError(
            f"{origin.place} sets {chosen[0]}, which would send a variable of your environment to "
            f"{_Host.read(host).name}; a file cannot do this: {origin.remedy}"
        )
    target = _Host.read(host)
    named_there = [*environ.get(_HOSTS_VARIABLE, "").split(","), environ.get(_ADDRESS_VARIABLE, "")]
    in_environment = {_Host.read(one) for one in named_there if one.strip()}
    named = [one for one in _HOSTS.get() | in_environment if one.name == target.name]
    if not named:
        raise InvalidInputError(
            f"{origin.place} would send prompts to {target.name}, a host that you have not "
            f"allowed; add it to the environment variable {_HOSTS_VARIABLE}, or {origin.remedy}"
        )
    if target.scheme == "http" and all(one.scheme == "https" for one in named):
        raise InvalidInputError(
            f"{origin.place} would send prompts without encryption to {target.name}, which you "
            f"allowed only with https: {origin.remedy}"
        )


@dataclass(frozen=True, slots=True)
class _Host:
    """A host as ``name`` or ``name:port`` in lower case, with its scheme; "" if unspecified."""

    name: str
    scheme: str

    @classmethod
    def read(cls, address: str) -> "_Host":
        """Parse the host of a URL, or of ``name:port``."""
        text = address.strip().lower()
        with suppress(ValueError):  # an address that nothing can be sent to
            parts = urlsplit(text)
            return cls(parts.netloc, parts.scheme) if "://" in text else cls(text, "")
        return cls(text, "")


def _consents(options: Any) -> Iterator[str]:
    """Yield the options in JSON-like data that permit code execution."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            if name in _CONSENTS and value:
                yield str(name)
            yield from _consents(value)
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _consents(value)

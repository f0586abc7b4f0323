"""Where a name was written: by the user, or in a file, which can make nothing run.

A name that the user typed, on the command line or in Python, may be ``package.module:object``. A
name that was read from a file stands for what comes with the package and for what installed
packages offer, unless the user allowed the code that the file names.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike, environ, fspath
from typing import Any
from urllib.parse import urlsplit

from eval_toolkit.errors import InvalidInputError

__all__ = [
    "TYPED",
    "Origin",
    "making",
    "origin_in_force",
    "read_from",
    "refuse_address",
    "user_hosts",
]

_CONSENTS = ("allow_code", "trust_remote_code")
"""Options by which code is allowed to run: they are the user's to give."""
_HOSTS_VARIABLE = "EVAL_TOOLKIT_HOSTS"
_ALLOW = "pass allow_code=True if you trust the file"
"""The command line says --allow-code instead."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a name was written; `TYPED`, or made by `read_from`.

    Examples
    --------
    >>> TYPED.trusted, read_from("task.toml").trusted
    (True, False)
    """

    file: str = ""
    """Empty for what the user typed."""
    key: str = ""
    """The part of the file that holds the name."""
    allow_code: bool = False
    """Whether the user allowed the code that the file names."""

    @property
    def trusted(self) -> bool:
        """Whether names may stand for any Python object."""
        return not self.file or self.allow_code

    @property
    def place(self) -> str:
        """File and key, as messages begin."""
        return f"{self.file}: {self.key}" if self.key else self.file

    def refuse_import(self, name: str, imports: str) -> None:
        """Raise an `InvalidInputError` if a name may not be imported from here.

        Parameters
        ----------
        name : str
            As it was written.
        imports : str
            What would be imported or run.

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
        """Raise an `InvalidInputError` if options of a file allow code in the user's place.

        Parameters
        ----------
        options : object
            Plain data; tables and lists are searched.

        Raises
        ------
        InvalidInputError
            If one of them is an option that lets code run.
        """
        for consent in _consents(options):
            self.refuse(f"sets {consent}, which lets code run; a file cannot allow that")

    def refuse(self, what: str) -> None:
        """Raise an `InvalidInputError` that says what a file does, unless the user allowed it.

        Parameters
        ----------
        what : str
            What the file does, after its name and key.

        Raises
        ------
        InvalidInputError
            If this origin, or that of the object that is being made, is not trusted.
        """
        strict = self.strictest()
        if not strict.trusted:
            raise InvalidInputError(f"{strict.place} {what}: {_ALLOW}")

    def strictest(self) -> "Origin":
        """Return this origin, or that of the object that is being made if it may do less."""
        return _IN_FORCE.get() if self.trusted else self


TYPED = Origin()
"""The user wrote the name: on the command line, or as an argument in Python."""
_IN_FORCE: ContextVar[Origin] = ContextVar("origin", default=TYPED)
_HOSTS: ContextVar[frozenset["_Host"]] = ContextVar("hosts", default=frozenset())


def read_from(file: str | PathLike[str], key: str = "", *, allow_code: bool = False) -> Origin:
    """Return the origin of a name that was read from a file.

    Parameters
    ----------
    file : path
        The file, for messages.
    key : str
        Where in it the name stands.
    allow_code : bool, default False
        Whether the user allowed the code that the file names; never what a file says.

    Returns
    -------
    Origin
        For `load_plugin` and the functions that call it.

    Examples
    --------
    >>> read_from("suite.toml", "tasks").place
    'suite.toml: tasks'
    """
    return Origin(fspath(file) or ".", key, allow_code)


@contextmanager
def making(origin: Origin) -> Iterator[None]:
    """Let names that an object resolves while it is made be of its own origin.

    Parameters
    ----------
    origin : Origin
        Origin of the object's name and options; the strictest of nested ones holds.

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
    """Return the origin of the object that is being made; `TYPED` outside of that.

    Examples
    --------
    >>> origin_in_force() is TYPED
    True
    """
    return _IN_FORCE.get()


@contextmanager
def user_hosts(addresses: Iterable[str]) -> Iterator[None]:
    """Let files name models at these addresses: the user named their hosts.

    Parameters
    ----------
    addresses : iterable of str
        URLs, or hosts as ``name:port``. A host that is named by ``https://`` is asked by nothing
        less.

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
    """Raise if a model that a file names would be asked at a host that the user did not name.

    Parameters
    ----------
    host : str
        As ``name`` or ``name:port``, or a URL, whose scheme counts too.
    secrets : mapping
        Options that choose what secrets are sent; a file gives none of them.

    Raises
    ------
    InvalidInputError
        If an object that was read from a file is being made, and the host is neither on the
        command line nor in EVAL_TOOLKIT_HOSTS, was named by https alone, or the file chooses a
        secret.

    Examples
    --------
    >>> with making(read_from("task.toml", "[graders]")):
    ...     refuse_address("example.org", {})
    Traceback (most recent call last):
    eval_toolkit.errors.InvalidInputError: task.toml: [graders] would send prompts to example.org,
    a host that you did not name; put it into the environment variable EVAL_TOOLKIT_HOSTS, or pass
    allow_code=True if you trust the file
    """
    origin = origin_in_force()
    if origin.trusted:
        return
    chosen = [name for name, value in secrets.items() if value]
    if chosen:
        raise InvalidInputError(
            f"{origin.place} sets {chosen[0]}, which would send a variable of your environment to "
            f"{_Host.read(host).name}; a file cannot choose that: {_ALLOW}"
        )
    asked = _Host.read(host)
    in_environment = {
        _Host.read(one) for one in environ.get(_HOSTS_VARIABLE, "").split(",") if one.strip()
    }
    named = [one for one in _HOSTS.get() | in_environment if one.name == asked.name]
    if not named:
        raise InvalidInputError(
            f"{origin.place} would send prompts to {asked.name}, a host that you did not name; put "
            f"it into the environment variable {_HOSTS_VARIABLE}, or {_ALLOW}"
        )
    if asked.scheme == "http" and all(one.scheme == "https" for one in named):
        raise InvalidInputError(
            f"{origin.place} would send prompts to {asked.name} without encryption, a host that you "
            f"named by https: {_ALLOW}"
        )


@dataclass(frozen=True, slots=True)
class _Host:
    """A host as ``name`` or ``name:port`` in lower case, and how it is asked; "" where unsaid."""

    name: str
    scheme: str

    @classmethod
    def read(cls, address: str) -> "_Host":
        """Return the host of a URL, or of ``name:port``."""
        text = address.strip().lower()
        parts = urlsplit(text)
        return cls(parts.netloc, parts.scheme) if "://" in text else cls(text, "")


def _consents(options: Any) -> Iterator[str]:
    """Yield the options below plain data that let code run."""
    if isinstance(options, Mapping):
        for name, value in options.items():
            if name in _CONSENTS and value:
                yield str(name)
            yield from _consents(value)
    elif isinstance(options, (list, tuple)):
        for value in options:
            yield from _consents(value)

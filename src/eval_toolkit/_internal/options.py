"""Shared keyword options with defaults, validation and expanded signatures."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from eval_toolkit.errors import InvalidTypeError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def gathers(names: type, /, **defaults: Any) -> Callable[[FunctionT], FunctionT]:
    """Decorate a function whose ``**options`` are the keywords of a `TypedDict`.

    The function receives all keywords in ``**options``, including defaults. Its signature lists
    each keyword for ``help``, editors and the reference.

    An unknown keyword raises `InvalidTypeError`.

    Examples
    --------
    >>> from typing import TypedDict, Unpack
    >>> class Drawing(TypedDict, total=False):
    ...     n_resamples: int
    ...     seed: int
    >>> @gathers(Drawing, n_resamples=1000, seed=42)
    ... def interval(values: list, **options: Unpack[Drawing]) -> int:
    ...     return options["n_resamples"] + options["seed"]
    >>> interval([], seed=1)
    1001
    >>> print(inspect.signature(interval))
    (values: list, *, n_resamples: int = 1000, seed: int = 42) -> int
    """
    types = names.__annotations__
    if wrong := types.keys() ^ defaults.keys():
        raise TypeError(f"{names.__name__}: {sorted(wrong)} need both a type and a default")

    def decorate(function: FunctionT) -> FunctionT:
        own = inspect.signature(function)
        # Replace the last parameter, ``**options``; keep those before it.
        named = [*own.parameters.values()][:-1]
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                # As `inspect.signature` shows it.
                annotation=getattr(types[name], "__forward_arg__", types[name]),
            )
            for name, default in defaults.items()
        ]
        known = {one.name for one in named}.union(defaults)

        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            if not known.issuperset(given):
                raise InvalidTypeError(_refusal(function, min(given.keys() - known), known))
            return function(*args, **{**defaults, **given})

        checked.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate


def _refusal(function: Callable[..., Any], name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    instead = f"; did you mean `{near[0]}`?" if near else ""
    return f"{function.__qualname__}() got an unexpected keyword argument {name!r}{instead}"

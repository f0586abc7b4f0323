"""Parametrisation within a single test: all cases run, and all failures are reported."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(names: str | tuple[str, ...], cases: Iterable[Any], ids: Any = None) -> Callable[..., Any]:
    """Parametrise a test like ``pytest.mark.parametrize``, but collect it as a single test.

    This avoids pytest's overhead per test. The cases share the test's fixtures. Skipped cases are
    ignored; the test is skipped if all cases are.
    """
    names = (names,) if isinstance(names, str) else names
    cases = [case if len(names) > 1 else (case,) for case in cases]
    if callable(ids):
        ids = [ids(*case) for case in cases]
    told = [str(one) for one in ids or (", ".join(map(repr, case)) for case in cases)]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every_case(*args: Any, **fixtures: Any) -> None:
            assert cases, "there is no case"
            failed: dict[str, Exception] = {}
            skipped: list[str] = []
            for name, case in zip(told, cases, strict=True):
                try:
                    test(*args, **fixtures, **dict(zip(names, case, strict=True)))
                except pytest.skip.Exception as reason:
                    skipped.append(str(reason))
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the case {name[:200]}")
                    failed[name[:200]] = error if isinstance(error, Exception) else _made(error)
            if failed:
                summary = f"{len(failed)} of {len(told)} cases: {'; '.join(failed)}"
                raise ExceptionGroup(summary, list(failed.values()))
            if skipped and len(skipped) == len(told):
                pytest.skip(skipped[0])

        given = inspect.signature(test)
        left = [one for name, one in given.parameters.items() if name not in names]
        every_case.__signature__ = given.replace(parameters=left)  # type: ignore[attr-defined]
        del every_case.__wrapped__  # type: ignore[attr-defined]
        return every_case

    return decorate


def _made(outcome: BaseException) -> AssertionError:
    """Convert an outcome raised by ``pytest.fail`` to an exception for an exception group."""
    made = AssertionError(str(outcome))
    made.__cause__ = outcome
    return made

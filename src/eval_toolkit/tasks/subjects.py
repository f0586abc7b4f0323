"""Names and selection of subjects."""

import difflib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import InvalidInputError

_WILDCARD = "*"


def subject_name(subject: Any) -> str:
    """Return the name of a subject, in which the elements of a tuple are joined by commas."""
    if isinstance(subject, tuple):
        return ",".join(map(subject_name, subject))
    return str(subject.value) if isinstance(subject, Enum) else str(subject)


def distinct_subjects(subjects: Iterable[Any]) -> list[Any]:
    """Return the distinct subjects in order; raise an error if a name cannot be stored."""
    by_name: dict[str, Any] = {}
    for subject in subjects:
        name = subject_name(subject)
        if whole_text(name) != name:
            raise InvalidInputError(
                f"`subjects`: {name!r} contains an unpaired surrogate, which cannot be stored; rename it"
            )
        by_name.setdefault(name, subject)
    return list(by_name.values())


def select_subjects(available: Sequence[Any], wanted: Iterable[Any]) -> list[Any]:
    """Return the available subjects that match a selection, in the order of the selection.

    For tuple subjects, "de,*" selects all subjects whose first element is "de". Raises an error if
    an entry matches no subject.
    """
    names = [subject_name(subject) for subject in available]
    filters = list(wanted)
    if not filters:
        raise InvalidInputError("`subjects` is empty; pass at least one subject")
    kept: set[int] = set()
    for given in filters:
        matches = {at for at, name in enumerate(names) if _matches(name, subject_name(given))}
        if not matches:
            raise InvalidInputError(_no_match(subject_name(given), names))
        kept |= matches
    return [subject for at, subject in enumerate(available) if at in kept]


def _parts(name: str) -> list[str]:
    return [part.strip() for part in name.split(",")]


def _matches(name: str, wanted: str) -> bool:
    if name == wanted:
        return True
    have, want = _parts(name), _parts(wanted)
    return len(have) == len(want) > 1 and all(
        part in (_WILDCARD, own) for own, part in zip(have, want, strict=True)
    )


def _no_match(wanted: str, names: Sequence[str]) -> str:
    n_parts = len(_parts(names[0]))
    if n_parts > 1 and len(_parts(wanted)) != n_parts:
        return (
            f"`subjects`: {wanted!r} has {len(_parts(wanted))} parts, the subjects have {n_parts} "
            f"({names[0]!r}); '*' stands for any part"
        )
    near = difflib.get_close_matches(wanted, names, n=1)
    listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    hint = f"did you mean {near[0]!r}?" if near else f"the subjects are {listed}"
    return f"`subjects`: there is no subject {wanted!r}; {hint}"

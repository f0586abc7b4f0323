"""Extract items from the dataset rows of a log: input, target, group and parts.

Runs of two tools are matched by input, so the input is the raw question of the dataset, never a
prompt built from it.
"""

from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.integrations.importing.options import Wanted
from eval_toolkit.tasks.identity import question_of


def as_text(value: Any) -> str:
    """Return a string unchanged, and other values as compact JSON.

    Examples
    --------
    >>> as_text("a"), as_text(["a", 1])
    ('a', '["a",1]')
    """
    return value if isinstance(value, str) else canonical_json(value)


def item_input(doc: Mapping[str, Any], wanted: Wanted, *, where: str = "the row") -> str | None:
    """Return the input of an item.

    ``wanted.input_field``, if given, takes precedence over `tasks.identity.question_of`; raises if
    the row lacks that field. Returns None if the row has no field with a common name.

    Examples
    --------
    >>> item_input({"question": "2 + 2 =", "answer": "4"}, Wanted())
    '2 + 2 ='
    >>> item_input({"stem": "2 + 2 =", "text": ""}, Wanted(input_field="stem"))
    '2 + 2 ='
    """
    if wanted.input_field is not None:
        return as_text(_field(doc, wanted.input_field, where))
    return question_of(doc)


def item_target(doc: Mapping[str, Any], wanted: Wanted, *, where: str = "the row") -> Any:
    """Return the requested target field, or None if no field was named.

    Raises if the row lacks the field.

    Examples
    --------
    >>> item_target({"answer": "4"}, Wanted(target_field="answer"))
    '4'
    """
    return None if wanted.target_field is None else _field(doc, wanted.target_field, where)


def item_group(doc: Mapping[str, Any], wanted: Wanted, *, where: str = "the row") -> str | None:
    """Return the group of the item, or None if no field was named.

    Raises if the row lacks the field.

    Examples
    --------
    >>> item_group({"story": 7}, Wanted(group_field="story"))
    '7'
    """
    if wanted.group_field is None:
        return None
    return as_text(_field(doc, wanted.group_field, where))


def item_parts(doc: Mapping[str, Any], wanted: Wanted, *, where: str = "the row") -> dict[str, str]:
    """Return the parts of the data to which the item belongs, by field.

    Raises if the row lacks one of the fields.

    Examples
    --------
    >>> item_parts({"subject": "algebra", "level": 3}, Wanted(by=("subject", "level")))
    {'subject': 'algebra', 'level': '3'}
    """
    return {name: as_text(_field(doc, name, where)) for name in wanted.by}


def _field(doc: Mapping[str, Any], name: str, where: str) -> Any:
    value = doc.get(name)
    if value is None:
        there = ", ".join(sorted(map(str, doc))) or "nothing"
        raise InvalidInputError(f"{where} has no field {name!r}; it has {there[:300]}")
    return value

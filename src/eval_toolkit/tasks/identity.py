"""Identification of items by keys and content hashes."""

from collections.abc import Mapping, Sequence
from typing import Any

from eval_toolkit._internal.hashing import canonical_json, content_hash, sha256_text, unit_ids
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import InvalidInputError, MissingColumnError
from eval_toolkit.tasks.rows_on_disk import ItemsOnDisk, RowsOnDisk, cells_of
from eval_toolkit.tasks.types import Item

ID_FIELD = "id"
"""Default key field, used if its values are unique and the task specifies no other field."""

QUESTION_FIELDS = (
    "question",
    "query",
    "prompt",
    "input",
    "text",
    "sentence",
    "problem",
    "goal",
    "ctx",
)
"""Common names of the question field, in order of precedence."""
CONTEXT_FIELDS = ("passage", "context", "story", "article", "premise", "hypothesis", "instruction")
"""Common names of the context field, since a question may refer to different passages."""

_LONGEST_GROUP = 64


def question_of(item: Mapping[str, Any]) -> str | None:
    r"""Return the question of an item, or None if it has no known question field.

    Examples
    --------
    >>> question_of({"question": "2 + 2 =", "answer": "4"}), question_of({"stem": "2 + 2 ="})
    ('2 + 2 =', None)
    >>> question_of({"passage": "It rains.", "question": "Is it dry?"})
    'It rains.\n\nIs it dry?'
    """
    found = [item[name] for name in CONTEXT_FIELDS if item.get(name) not in (None, "")]
    found += [item[name] for name in QUESTION_FIELDS if item.get(name) not in (None, "")][:1]
    texts = [value if isinstance(value, str) else canonical_json(value) for value in found]
    return "\n\n".join(texts) or None


def make_items(
    rows: Sequence[Mapping[str, Any]],
    *,
    subject: str,
    prefix: str,
    place: str,
    id_field: str | None,
    group_field: str | None,
    notes: list[str],
    in_item: Any = None,
) -> Sequence[Item]:
    """Convert the rows of a split and subject to items with identities.

    Every key starts with ``prefix``, which is "subject/" in a task with subjects. ``id_field``
    defaults to `ID_FIELD` if every row has a unique value in it; if the field exists but is not
    used, a note is appended to ``notes``. Items with the same value of ``group_field`` are not
    independent, even across subjects, for example an item and its translations. ``in_item`` is
    stored as the field "subject". Items of rows on disk stay on disk.
    """
    field, keys = id_field or ID_FIELD, None
    try:
        keys = _keys(rows, field, place)
    except InvalidInputError as error:
        if id_field is not None:
            raise
        if any(ID_FIELD in row for row in rows):
            problem = str(error).rpartition(";")[0]
            notes.append(f"{problem}; items are identified by their content instead")
    own = None if keys is None else field
    if keys is None:
        hashes = [content_hash(row, None) for row in rows]
        keys = unit_ids(hashes)
    ids = [f"{prefix}{key}" for key in keys] if prefix else keys

    def made(index: int, row: Mapping[str, Any], digest: str | None = None) -> Item:
        item = Item(row)
        item.unit_id = ids[index]
        item.content_hash = digest or content_hash(row if own is None else _without(row, own), None)
        item.index = index
        item.subject = subject
        item.place = f"{place}, row {index + 1}"
        item.group = None if group_field is None else _group(item, group_field)
        if in_item is not None:
            item["subject"] = in_item
        return item

    if not isinstance(rows, RowsOnDisk):
        return [made(index, row, None if own else hashes[index]) for index, row in enumerate(rows)]
    groups = None
    if group_field is not None:
        groups = [made(index, row).group for index, row in enumerate(rows)]
    return ItemsOnDisk(rows, ids, groups, made)


def _without(row: Mapping[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != field}


def _keys(rows: Sequence[Mapping[str, Any]], field: str, place: str) -> list[str]:
    keys: dict[str, int] = {}
    for n, value in enumerate(cells_of(rows, field), 1):
        usable = isinstance(value, (str, int)) and not isinstance(value, bool) and value != ""
        usable = usable and whole_text(str(value)) == str(value)  # keys must be storable
        if usable and str(value) not in keys:
            keys[str(value)] = n
        elif usable:
            raise InvalidInputError(
                f"{place}, row {n}: the key {field!r} is {value!r}, as in row {keys[str(value)]}; "
                "keys must be unique"
            )
        else:
            what = f"is {value!r}" if field in rows[n - 1] else "is missing"
            raise MissingColumnError(
                f"{place}, row {n}: the key {field!r} {what}; every key must be a string or a number"
            )
    return list(keys)


def _group(item: Item, field: str) -> str:
    value = item.get(field)
    if value is None:
        raise MissingColumnError(
            f"{item.place}: the group {field!r} is missing; the fields are "
            f"{', '.join(map(repr, item))}"
        )
    text = str(value)
    short = len(text) <= _LONGEST_GROUP and whole_text(text) == text
    return text if short else sha256_text(text)[:16]


def identity_of(item: Mapping[str, Any], id_field: str | None) -> tuple[str, str]:
    """Return the unit id and content hash of an item, even if it is not part of the data."""
    if isinstance(item, Item):
        return item.unit_id, item.content_hash
    field = id_field or ID_FIELD
    digest = content_hash(_without(item, field), None)
    return str(item.get(field) or digest[:16]), digest

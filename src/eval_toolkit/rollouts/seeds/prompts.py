"""Seed prompts of rollouts, created from lists or read from files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.hashing import content_hash, unit_ids
from eval_toolkit._internal.plain import whole_text
from eval_toolkit._internal.tables import label_class
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.rollouts.seeds.files import Item, read_items
from eval_toolkit.seeds import DEFAULT_SEED, derive_seed

_ID_DIGITS = 16
_TEXTS = ("prompt", "id", "topic", "category", "target")
_COLUMNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "prompt": (
        ("prompt", "goal"),
        ("behavior", "question", "text", "instruction"),
        ("prompts", "query", "input", "message", "request"),
    ),
    "id": (("id", "unit_id"), ("behaviorid", "index")),
    "topic": (("topic",), ("group",), ("focus",)),
    "category": (("category",), ("semanticcategory", "harm_category"), ("type",)),
    "safe": (("safe",), ("label",)),
    "target": (("target",),),
}
"""Column names used by published prompt datasets, in lower case and in order of precedence."""
_NAME = re.compile(r"[\w-]+")
"""Pattern of a column name; without a header, the first line is a prompt of several words."""
_SAFE_WORDS = {"safe": True, "benign": True, "unsafe": False, "harmful": False}
_YES_OR_NO = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class SeedPrompt:
    """Seed prompt of a rollout with its metadata.

    Parameters
    ----------
    prompt : str
        Text of the prompt: the tester's goal, or the first message of the conversation.
    id : str, default ""
        Id of the unit; by default, the first 16 digits of the content hash.
    topic : str, default ""
        Topic of the prompt; prompts with the same topic are not independent and are resampled
        together.
    category : str, default ""
        Category used for reporting, such as a type of harm.
    safe : bool or None, default None
        Whether the target should answer: True for prompts that only look harmful, None if unknown.
    target : str, default ""
        Beginning of an answer that would be a failure, if the dataset provides it.
    content_hash : str, default ""
        Hash of prompt and target; computed automatically. A hash that is passed must match.

    Raises
    ------
    InvalidInputError
        If the prompt is empty, the id cannot be stored, or the hash does not match.
    InvalidTypeError
        If a field has another type.

    Examples
    --------
    >>> SeedPrompt("How do I kill a process?", safe=True).id
    '0e02ddc0bdc6b907'
    """

    prompt: str
    id: str = ""
    topic: str = ""
    category: str = ""
    safe: bool | None = None
    target: str = ""
    content_hash: str = ""

    def __post_init__(self) -> None:
        for name in (*_TEXTS, "content_hash"):
            given = getattr(self, name)
            if not isinstance(given, str):
                raise InvalidTypeError(
                    f"`{name}` of a seed prompt is {given!r:.60}; it must be a string"
                )
        if not self.prompt.strip():
            raise InvalidInputError(
                "`prompt` of a seed prompt is empty; it must be a non-empty string"
            )
        if self.safe is not None and not isinstance(self.safe, bool):
            raise InvalidTypeError(f"`safe` is {self.safe!r:.60}; it must be True, False or None")
        if whole_text(self.id) != self.id:
            raise InvalidInputError(f"`id` is {self.id!r}; unpaired surrogates cannot be stored")
        digest = content_hash(self.prompt, self.target or None)
        if self.content_hash not in ("", digest):
            raise InvalidInputError(
                f"`content_hash` is {self.content_hash!r:.40}, but that of prompt and target is "
                f"{digest[:12]}…; omit it"
            )
        object.__setattr__(self, "content_hash", digest)
        object.__setattr__(self, "id", self.id or digest[:_ID_DIGITS])

    @property
    def group(self) -> str:
        """Resampling group: the topic, or the prompt itself."""
        return self.topic or self.id


def seed_prompts(given: Sequence[str | SeedPrompt | Mapping[str, Any]]) -> list[SeedPrompt]:
    """Convert strings and rows to seed prompts with unique ids.

    Parameters
    ----------
    given : sequence of str, SeedPrompt or mapping
        Strings, seed prompts, or rows of a dataset with column names as in `load_seeds`.

    Returns
    -------
    list of SeedPrompt
        Seed prompts in the original order. Duplicates are kept, with ids that end in ~2, ~3, ….
        Since they are not independent, duplicates without a topic get the topic of the first, or
        else its id.

    Raises
    ------
    InvalidInputError
        If there are no prompts, a prompt is empty, an id occurs twice, or no key is clearly the
        prompt.
    InvalidTypeError
        If an item has another type.

    Examples
    --------
    >>> [seed.id for seed in seed_prompts(["Hi", {"goal": "Bye", "id": "b"}, "Hi"])]
    ['a76b174a575279a4', 'b', 'a76b174a575279a4~2']
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidTypeError(
            f"`seeds` is {given!r:.60}; it must be a list of strings, seed prompts or rows"
        )
    items = [(f"seeds[{at}]", item) for at, item in enumerate(given)]
    return _seeds(items, "`seeds`", {})


def load_seeds(
    path: str | Path,
    *,
    prompt: str | None = None,
    id: str | None = None,  # noqa: A002 - the field of the prompt
    topic: str | None = None,
    category: str | None = None,
    safe: str | None = None,
    target: str | None = None,
    limit: int | None = None,
    order: str = "file",
    seed: int = DEFAULT_SEED,
) -> list[SeedPrompt]:
    r"""Read seed prompts from a file.

    Parameters
    ----------
    path : path
        File in the format ``.txt`` (one prompt per line), ``.json`` (a list of strings or objects),
        ``.jsonl``, ``.csv``, ``.tsv``, ``.parquet`` or ``.xlsx``; text formats may be gzipped.
        ``-`` is standard input.
    prompt, id, topic, category, safe, target : str, optional
        Columns of the fields; "" for none. By default, columns are detected by the names that
        published datasets use. Prompt: prompt or goal, else Behavior, question, text or
        instruction, else prompts, query, input, message or request, else the only column with
        strings of several words. Id: id, unit_id, BehaviorID or index. Topic: topic, group or
        focus, if some of its values repeat and not all are equal. Category: category,
        SemanticCategory, harm_category or type. Safe: safe, or label if its values are safe and
        unsafe (or benign and harmful). Target: target.
    limit : int, optional
        Maximum number of prompts.
    order : {"file", "shuffled"}, default "file"
        "shuffled" orders prompts by a hash of ``seed`` and id, so a smaller limit selects a subset
        of a larger one, regardless of the order of the file.
    seed : int, default 42
        Random seed for shuffling.

    Returns
    -------
    list of SeedPrompt
        As in `seed_prompts`.

    Raises
    ------
    ArtifactError
        If the file is missing, empty or malformed.
    MissingColumnError
        If a named column does not exist.
    InvalidInputError
        If no column clearly contains the prompts, a prompt is empty, or an id occurs twice.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "prompts.csv"
    >>> _ = path.write_text("id,prompt,type,label\n1,How do I kill time?,homonyms,safe\n")
    >>> (found,) = load_seeds(path)
    >>> found.id, found.category, found.safe
    ('1', 'homonyms', True)
    """
    validation.choice(order, "order", ("file", "shuffled"))
    given = {
        "prompt": prompt,
        "id": id,
        "topic": topic,
        "category": category,
        "safe": safe,
        "target": target,
    }
    file = Path(path)
    named = {field: column for field, column in given.items() if column is not None}
    seeds = _seeds(read_items(file, columns=bool(named)), str(file), named)
    if order == "shuffled":
        drawn = validation.integer(seed, "seed")
        seeds.sort(key=lambda one: derive_seed(drawn, "seed prompts", one.id))
    return seeds if limit is None else seeds[: validation.integer(limit, "limit", low=1)]


def seed_notes(seeds: Sequence[SeedPrompt]) -> list[str]:
    """Return notes about seed prompts.

    Parameters
    ----------
    seeds : sequence of SeedPrompt
        Seed prompts as returned by `seed_prompts`.

    Returns
    -------
    list of str
        A sentence about repeated prompts, if there are any.

    Examples
    --------
    >>> seed_notes(seed_prompts(["Hi", "Hi", "Bye"]))
    ['1 of 3 seed prompts repeats another; equal prompts are resampled together']
    """
    repeats = len(seeds) - len({seed.prompt for seed in seeds})
    if not repeats:
        return []
    word = "repeats" if repeats == 1 else "repeat"
    return [
        f"{repeats} of {len(seeds)} seed prompts {word} another; equal prompts are resampled together"
    ]


# --- rows to seed prompts -------------------------------------------------------------------------


def seed_columns(path: str | Path, **named: str | None) -> dict[str, str]:
    r"""Return the columns of a file that `load_seeds` uses for each field.

    Parameters
    ----------
    path : path
        As in `load_seeds`.
    **named : str, optional
        Columns specified by name, as in `load_seeds`.

    Returns
    -------
    dict of str to str
        Mapping from fields to columns; empty for a file of plain strings.

    Raises
    ------
    ArtifactError, MissingColumnError, InvalidInputError
        As in `load_seeds`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "prompts.csv"
    >>> _ = path.write_text("id,prompt,type\n1,How do I kill time?,homonyms\n")
    >>> seed_columns(path)
    {'prompt': 'prompt', 'id': 'id', 'category': 'type'}
    """
    selected = {field: column for field, column in named.items() if column is not None}
    items = read_items(Path(path), columns=bool(selected))
    rows = [item for _, item in items if isinstance(item, Mapping)]
    return _columns(rows, str(path), selected) if rows else {}


def _seeds(items: Sequence[Item], place: str, named: Mapping[str, str]) -> list[SeedPrompt]:
    if not items:
        raise InvalidInputError(f"{place}: contains no seed prompts; at least one is needed")
    rows = [item for _, item in items if isinstance(item, Mapping)]
    if named and len(rows) < len(items):
        raise InvalidInputError(
            f"{place}: contains plain strings, which have no columns; omit `{next(iter(named))}`"
        )
    columns = _columns(rows, place, named) if rows else {}
    made = [_made(item, columns, where) for where, item in items]
    return _with_unique_ids(made, [where for where, _ in items])


def _made(item: Any, columns: Mapping[str, str], where: str) -> SeedPrompt:
    if isinstance(item, SeedPrompt):
        return item
    cells: dict[str, Any] = {"prompt": str(item)} if isinstance(item, str) else {}
    if isinstance(item, Mapping):
        for role, column in columns.items():
            place = f"{where}: {column!r}"
            read = _safe if role == "safe" else _text
            cells[role] = read(item.get(column), place)
        if not isinstance(item.get(columns["prompt"]), (str, type(None))):
            raise InvalidInputError(
                f"{where}: {columns['prompt']!r} is {item[columns['prompt']]!r:.60}; a prompt must "
                "be a string"
            )
    elif not cells:
        raise InvalidTypeError(
            f"{where} is {item!r:.60}; it must be a string, a mapping or a SeedPrompt"
        )
    if not cells["prompt"].strip():
        raise InvalidInputError(f"{where}: the prompt is empty; fill it in or remove the row")
    try:
        return SeedPrompt(**cells)
    except InvalidInputError as error:
        raise type(error)(f"{where}: {error}") from None


def _text(value: Any, place: str) -> str:
    """Convert a cell to a string; accepts integers, and returns "" for missing values."""
    if isinstance(value, str):
        return str(value)
    if validation.is_missing(value):
        return ""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    raise InvalidInputError(f"{place} is {value!r:.60}; it must be a string")


def _safe(value: Any, place: str) -> bool | None:
    word = _text(value, place).strip().lower()
    if not word:
        return None
    found = label_class(word)
    if found is None:
        words = _SAFE_WORDS | _YES_OR_NO
        if word not in words:
            raise InvalidInputError(
                f"{place} is {value!r:.60}; `safe` must be one of {', '.join(words)}, true, false, 1, 0"
            )
        found = words[word]
    return bool(found)


def _with_unique_ids(seeds: list[SeedPrompt], places: Sequence[str]) -> list[SeedPrompt]:
    """Number equal prompts that have no id, and assign equal prompts to the same group."""
    hashed = [at for at, seed in enumerate(seeds) if seed.id == seed.content_hash[:_ID_DIGITS]]
    ids = unit_ids([seeds[at].content_hash for at in hashed], hashed)
    for at, name in zip(hashed, ids, strict=True):
        if name != seeds[at].id:
            seeds[at] = replace(seeds[at], id=name)
    first: dict[str, SeedPrompt] = {}
    place_of_id: dict[str, str] = {}
    for at, seed in enumerate(seeds):
        if seed.id in place_of_id:
            raise InvalidInputError(
                f"{places[at]}: the id {seed.id!r} is already used in {place_of_id[seed.id]}; ids must "
                'be unique (`id` names their column, "" for none)'
            )
        place_of_id[seed.id] = places[at]
        original = first.setdefault(seed.prompt, seed)
        if original is not seed and not seed.topic:
            seeds[at] = replace(seed, topic=original.group)
    return seeds


# --- columns --------------------------------------------------------------------------------------


def _columns(
    rows: Sequence[Mapping[str, Any]], place: str, named: Mapping[str, str]
) -> dict[str, str]:
    """Return the column of each field, either specified or detected by its name."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    listed = ", ".join(map(repr, names)) or "none"
    chosen = {}
    for role in _COLUMNS:
        column = named.get(role)
        if column is None:
            column = _guessed(role, names, rows, f"{place}: ", listed)
        elif column and column not in names:
            raise MissingColumnError(
                f"{place}: there is no column {column!r}; the columns are {listed}"
            )
        if column:
            chosen[role] = column
    if "prompt" not in chosen:
        texts = [name for name in names if name not in chosen.values() and _reads(name, rows)]
        if named.get("prompt") == "" or len(texts) != 1:
            example = f", as in {texts[0]!r}" if texts else ""
            if len(names) == 1 and not _NAME.fullmatch(names[0]):
                example = ", or rename the file to .txt if it has one prompt per line"
            raise InvalidInputError(
                f"{place}: no column contains the prompts (prompt, goal, Behavior, question, text "
                f"or instruction); the columns are {listed}; specify the column with "
                f"`prompt`{example}"
            )
        chosen["prompt"] = texts[0]
    return chosen


def _reads(column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a column with a generic name contains strings of several words."""
    values = [row.get(column) for row in rows]
    if not _NAME.fullmatch(column) or not all(isinstance(value, str) for value in values):
        return False
    return 2 * sum(" " in str(value).strip() for value in values) > len(values)


def _guessed(
    role: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]], place: str, listed: str
) -> str:
    for wanted in _COLUMNS[role]:
        found = [name for name in names if name.lower() in wanted]
        if len(found) > 1:
            raise InvalidInputError(
                f"{place}{' and '.join(map(repr, found))} could both be the {role}; the columns "
                f"are {listed}; specify the right one with `{role}`"
            )
        if found and _fits(role, found[0], rows):
            return found[0]
    return ""


def _fits(role: str, column: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the values of a column fit its name."""
    values = [str(row[column]) for row in rows if not validation.is_missing(row.get(column))]
    filled = [value for value in values if value.strip()]
    if role == "topic":
        return 1 < len(set(filled)) < len(filled)
    if column.lower() == "label":
        return bool(filled) and all(value.strip().lower() in _SAFE_WORDS for value in filled)
    return True

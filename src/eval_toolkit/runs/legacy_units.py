"""Units of runs without ``units.parquet``, read from up to three tables.

These tables are handled only in this module:

- ``inputs.parquet`` (slice, row, unit_id, text, digest): inputs of rows and samples; early versions
  have no digest.
- ``references.parquet`` (unit_id, reference, correct): references of the samples of a task.
- ``seeds.parquet`` (id, prompt, topic, category, target, content_hash, safe): seed prompts, in the
  order of the rollouts; prompt and target are JSON strings.
"""

from collections.abc import Callable, Collection
from pathlib import Path

from eval_toolkit._internal.tables.sources import literal, quoted

INPUTS, REFERENCES, SEEDS = TABLES = ("inputs.parquet", "references.parquet", "seeds.parquet")
PARQUET = "read_parquet(?, hive_partitioning = false)"
_NUMBERED = "read_parquet(?, hive_partitioning = false, file_row_number = true)"
_NEEDS = {
    INPUTS: {"slice", "row", "unit_id", "text"},
    REFERENCES: {"unit_id", "reference", "correct"},
    SEEDS: {"id", "prompt", "topic", "category", "target", "content_hash", "safe"},
}
_INSIDE = "CASE WHEN json_valid({0}) THEN json_extract_string({0}, '$') END"


def units_query(
    folder: Path,
    there: Collection[str],
    columns_of: Callable[[Path], Collection[str]],
    slice_name: str,
) -> tuple[str, tuple[Path, ...], tuple[str, ...]] | None:
    """Return SQL for the units of a run with the columns of ``units.parquet``.

    Returns the query, the files for its placeholders, and its columns. ``slice_name`` is the slice
    of units whose table has no slices.
    """
    found = {name: set(columns_of(folder / name)) for name in TABLES if name in there}
    used = [name for name, columns in found.items() if columns >= _NEEDS[name]]
    if not used:
        return None
    files = tuple(folder / name for name in used)
    selects = {
        INPUTS: ("slice", "row", "unit_id", "text AS input")
        + (("digest",) if "digest" in found.get(INPUTS, ()) else ()),
        REFERENCES: ("unit_id", "reference", "correct"),
        SEEDS: _of_seeds(),
    }
    parts = [
        f"(SELECT {', '.join(selects[name])} FROM {_NUMBERED if name == SEEDS else PARQUET})"  # noqa: S608
        for name in used
    ]
    if used == [INPUTS]:  # filters apply directly to the file, which may be large
        return parts[0], files, _names(selects[INPUTS])
    names = [_names(selects[name]) for name in used]
    columns = list(dict.fromkeys(["slice", "row", *(one for some in names for one in some)]))
    aliases = [f"t{at}" for at in range(len(used))]
    chosen = []
    for column in columns:
        holders = [alias for alias, some in zip(aliases, names, strict=True) if column in some]
        held = [f"{alias}.{quoted(column)}" for alias in holders]
        if column == "slice":
            held.append(literal(slice_name))
        chosen.append(f"coalesce({', '.join(held or ['NULL'])}) AS {quoted(column)}")
    joined = f"{parts[0]} AS t0"
    for at, part in enumerate(parts[1:], 1):
        known = ", ".join(f"{alias}.unit_id" for alias in aliases[:at])
        joined += f" FULL JOIN {part} AS t{at} ON coalesce({known}) = t{at}.unit_id"
    return f"(SELECT {', '.join(chosen)} FROM {joined})", files, tuple(columns)  # noqa: S608


def _of_seeds() -> tuple[str, ...]:
    """Return SQL for seed prompts, with the columns of units and the original strings ("exact")."""
    prompt = f"coalesce({_INSIDE.format('prompt')}, prompt)"
    target = f"coalesce({_INSIDE.format('target')}, target)"
    return (
        "id AS unit_id",
        "content_hash",
        "file_row_number AS row",
        f"{prompt} AS input",
        "topic",
        "category",
        f"{target} AS target",
        "safe",
        "'[' || prompt || ',' || target || ']' AS exact",
    )


def _names(selected: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one.rpartition(" AS ")[2] for one in selected)

"""Conversion of seed prompts to and from the units of a run."""

from collections.abc import Iterable
from typing import Any

from eval_toolkit._internal.files import parse_json
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models.payloads import to_json
from eval_toolkit.rollouts.seeds.prompts import SeedPrompt
from eval_toolkit.runs import Run
from eval_toolkit.runs.units import Unit, kept_text

_COLUMNS = ("unit_id", "input", "topic", "category", "target", "safe", "content_hash")
_SAFE = {-1: None, 0: False, 1: True}


def seed_units(prompts: Iterable[SeedPrompt]) -> list[Unit]:
    """Convert seed prompts to units, in order.

    The units have the fields "topic", "category", "target", and "safe", which is 1, 0, or -1 if
    unknown. If the stored texts are truncated, redacted or stripped of characters that cannot be
    stored, "exact" contains the original prompt and target as JSON, because rescoring needs them.

    Examples
    --------
    >>> (unit,) = seed_units([SeedPrompt("Growl", id="s1", safe=True)])
    >>> unit.input, unit.more["safe"], unit.more["exact"]
    ('Growl', 1, None)
    """
    return [_unit(prompt) for prompt in prompts]


def _unit(seed: SeedPrompt) -> Unit:
    kept = kept_text(seed.target)
    whole = (kept_text(seed.prompt), kept) == (seed.prompt, seed.target)
    return Unit(
        id=seed.id,
        content_hash=seed.content_hash,
        group=seed.topic or None,
        input=seed.prompt,
        more={
            "topic": seed.topic,
            "category": seed.category,
            "target": kept,
            "safe": {safe: number for number, safe in _SAFE.items()}[seed.safe],
            "exact": None if whole else to_json([seed.prompt, seed.target]),
        },
    )


def seeds_of(run: Run) -> list[SeedPrompt]:
    """Return the seed prompts of a stored rollout run.

    Parameters
    ----------
    run : Run
        Rollout run.

    Returns
    -------
    list of SeedPrompt
        Seed prompts in the order of the rollouts.

    Raises
    ------
    ArtifactError
        If ``run`` is not a rollout run, or the stored table was modified.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> folder = tempfile.mkdtemp() + "/r"
    >>> done = run_rollouts(System(["Hello."], ["Hi."]), ["Growl", "Purr"], folder, depth=1)
    >>> [seed.prompt for seed in seeds_of(done.run)]
    ['Growl', 'Purr']
    """
    units = run.units
    if units is None or not {*_COLUMNS} <= {*units.columns}:
        raise ArtifactError(f"{run.path}: the run does not contain its seed prompts")
    exact = ["exact"] if "exact" in units.columns else []
    columns = units.read([*_COLUMNS, *exact])
    cells = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [_read(dict(zip(columns, row, strict=True)), at) for at, row in enumerate(cells)]


def _read(stored: dict[str, Any], at: int) -> SeedPrompt:
    """Load a stored seed prompt; raise an error if it is invalid."""
    texts = {name: stored[name] for name in ("topic", "category", "content_hash")}
    prompt, target = stored["input"], stored["target"]
    try:
        if stored.get("exact") is not None:
            prompt, target = parse_json(stored["exact"], "exact", strict=False)
        safe = _SAFE[stored["safe"]]
        return SeedPrompt(prompt, id=stored["unit_id"], safe=safe, target=target, **texts)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ArtifactError(f"stored seed prompts, row {at}: {error}") from None

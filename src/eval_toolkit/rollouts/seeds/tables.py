"""Seed prompts as the columns of ``seeds.parquet``, and back: a run says what it began with."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._files import parse_json
from eval_toolkit.errors import ArtifactError
from eval_toolkit.models._payloads import to_json
from eval_toolkit.rollouts.seeds.prompts import SeedPrompt
from eval_toolkit.runs import Run

__all__ = ["SEEDS", "read_seeds", "seeds_of", "seeds_table"]

SEEDS = "seeds.parquet"
_TEXTS = ("id", "prompt", "topic", "category", "target", "content_hash")
_SAFE = {None: -1, False: 0, True: 1}


def seeds_table(prompts: Iterable[SeedPrompt]) -> dict[str, NDArray[Any]]:
    """Return seed prompts as columns, one row each, in order.

    Parameters
    ----------
    prompts : iterable of SeedPrompt
        Of a run.

    Returns
    -------
    dict of str to ndarray
        Texts, and "safe" as 1, 0, or -1 where nobody says; "prompt" and "target" are JSON texts,
        which can hold what a plain text cannot.

    Examples
    --------
    >>> seeds_table([SeedPrompt("Growl", id="s1")])["prompt"].tolist()
    ['"Growl"']
    """
    listed = list(prompts)
    columns: dict[str, NDArray[Any]] = {}
    for name in _TEXTS:
        column = np.empty(len(listed), dtype=object)
        texts = [getattr(prompt, name) for prompt in listed]
        column[:] = [to_json(text) if name in ("prompt", "target") else text for text in texts]
        columns[name] = column
    columns["safe"] = np.array([_SAFE[prompt.safe] for prompt in listed], dtype=np.int64)
    return columns


def read_seeds(columns: Mapping[str, Any]) -> list[SeedPrompt]:
    """Return the seed prompts in stored columns.

    Parameters
    ----------
    columns : mapping of str to sequence
        What `seeds_table` returned, or ``Run.table("seeds.parquet")``.

    Returns
    -------
    list of SeedPrompt
        Equal to what was stored, in its order.

    Raises
    ------
    ArtifactError
        If a column is missing or a row is no seed prompt.

    Examples
    --------
    >>> read_seeds(seeds_table([SeedPrompt("Growl", id="s1", safe=True)]))[0].safe
    True
    """
    names = (*_TEXTS, "safe")
    missing = [name for name in names if name not in columns]
    if missing:
        raise ArtifactError(f"stored seed prompts have no column {missing[0]!r}")
    said = {number: word for word, number in _SAFE.items()}
    found = []
    cells = (np.asarray(columns[name]).tolist() for name in names)
    for at, row in enumerate(zip(*cells, strict=True)):
        told = dict(zip(names, row, strict=True))
        try:
            told |= {
                name: parse_json(told[name], name, strict=False) for name in ("prompt", "target")
            }
            found.append(SeedPrompt(**{**told, "safe": said[int(told["safe"])]}))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise ArtifactError(f"stored seed prompts, row {at}: {error}") from None
    return found


def seeds_of(run: Run) -> list[SeedPrompt]:
    """Return the seed prompts of a stored run of rollouts.

    Parameters
    ----------
    run : Run
        Of rollouts.

    Returns
    -------
    list of SeedPrompt
        In the order in which they were rolled out.

    Raises
    ------
    ArtifactError
        If it is a run of another kind, or the table was altered.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.rollouts import System, run_rollouts
    >>> folder = tempfile.mkdtemp() + "/r"
    >>> done = run_rollouts(System(["Hello."], ["Hi."]), ["Growl", "Purr"], folder, depth=1)
    >>> [seed.prompt for seed in seeds_of(done.run)]
    ['Growl', 'Purr']
    """
    return read_seeds(run.table(SEEDS))

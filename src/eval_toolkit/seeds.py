"""Random seeds, all derived from one integer.

A seed is an ``int``; ``rng=`` is an alias of ``seed=`` and may also be a numpy
``SeedSequence``, a sequence of ints, a ``Generator``, a ``BitGenerator`` or None.
"""

import hashlib
import os
import random
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from eval_toolkit.errors import InvalidInputError, InvalidTypeError

if TYPE_CHECKING:
    from numpy.random import BitGenerator, Generator, SeedSequence

    SeedLike: TypeAlias = int | Sequence[int] | SeedSequence | Generator | BitGenerator | None
else:  # avoids importing numpy.random for a type; any object is accepted and checked when used
    SeedLike = Any

__all__ = ["DEFAULT_SEED", "SeedLike", "derive_seed", "resolve_seed", "set_global_seeds"]

DEFAULT_SEED = 42

_MASK = (1 << 64) - 1


def resolve_seed(
    seed: SeedLike = None, rng: SeedLike = None, *, default: int = DEFAULT_SEED
) -> int:
    """Return the 64-bit integer seed for ``seed=`` or ``rng=``.

    Parameters
    ----------
    seed, rng : int, sequence of int, SeedSequence, Generator, BitGenerator or None
        Aliases; pass at most one. A generator is advanced by one draw, so repeated calls with
        the same generator differ.
    default : int, default 42
        Seed used if neither is given, for reproducible results.

    Returns
    -------
    int
        A value in [0, 2**64).

    Raises
    ------
    InvalidInputError
        If both are given, or an integer is negative.
    InvalidTypeError
        If the value has another type.

    Examples
    --------
    >>> resolve_seed(7)
    7
    >>> resolve_seed(rng=7) == resolve_seed(seed=7)
    True
    """
    if seed is not None and rng is not None:
        raise InvalidInputError("pass either `seed` or `rng`, not both: they are aliases")
    given = seed if seed is not None else rng
    if given is None:
        return default
    if isinstance(given, bool):
        raise InvalidTypeError(f"`seed` must be an integer, got {given!r}")
    if hasattr(given, "__index__") and not getattr(given, "ndim", 0):
        value = int(given.__index__())
        if value < 0:
            raise InvalidInputError(f"`seed` is {value}; it must not be negative")
        return value if value <= _MASK else derive_seed(value, "wide seed")
    return _seed_from_numpy(given)


def _seed_from_numpy(given: Any) -> int:
    from numpy.random import BitGenerator, Generator, SeedSequence

    if isinstance(given, Generator):
        return int(given.integers(0, 1 << 63))
    if isinstance(given, BitGenerator):
        return int(given.random_raw())
    if getattr(given, "ndim", 0) or (
        isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    ):
        given = SeedSequence(list(given))
    if isinstance(given, SeedSequence):
        return int(given.generate_state(1, "uint64")[0])
    raise InvalidTypeError(
        f"`seed` must be an int, a sequence of ints, a numpy SeedSequence, Generator or "
        f"BitGenerator, or None; got {type(given).__name__}"
    )


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed for one random choice: a 64-bit hash of the run's seed and the purpose.

    Parameters
    ----------
    seed : int
        The run's seed.
    *purpose : str or int
        Purpose of the choice and the unit, e.g. ``"few-shot", unit_id``.

    Returns
    -------
    int
        A value in [0, 2**64); equal arguments give equal seeds on every machine.

    Examples
    --------
    >>> derive_seed(42, "few-shot", "item-1") == derive_seed(42, "few-shot", "item-1")
    True
    >>> derive_seed(42, "few-shot", "item-1") == derive_seed(42, "few-shot", "item-2")
    False
    """
    digest = hashlib.sha256(b"".join(map(_part, (seed, *purpose))))
    return int.from_bytes(digest.digest()[:8], "little")


def derive_seeds(seed: int, purpose: str, unit_ids: Iterable[str]) -> list[int]:
    """Return `derive_seed` of many units, in half the time.

    Examples
    --------
    >>> derive_seeds(42, "order", ["a"]) == [derive_seed(42, "order", "a")]
    True
    """
    begun = hashlib.sha256(_part(seed) + _part(purpose))
    seeds = []
    for unit_id in unit_ids:
        digest = begun.copy()
        digest.update(_part(unit_id))
        seeds.append(int.from_bytes(digest.digest()[:8], "little"))
    return seeds


def _part(part: str | int) -> bytes:
    """Return a part with its length, so that ("ab", "c") and ("a", "bc") differ."""
    text = f"{type(part).__name__}:{part}".encode()
    return b"%d:%b" % (len(text), text)


def set_global_seeds(seed: int, *, strict_torch_determinism: bool = False) -> None:
    """Seed Python, numpy's legacy generator and torch (if loaded); intended for scripts.

    Parameters
    ----------
    seed : int
        Non-negative seed.
    strict_torch_determinism : bool, default False
        Whether to request deterministic algorithms from torch.

    Raises
    ------
    InvalidTypeError, InvalidInputError
        If the seed is not a non-negative integer.
    RuntimeError
        If strict determinism is requested and torch is not installed.

    Warns
    -----
    UserWarning
        If PYTHONHASHSEED is already set to another value, which remains in effect for this process.

    Notes
    -----
    Torch is seeded only if it is already imported or ``strict_torch_determinism`` is True, since
    importing it takes seconds. Otherwise, call this function after importing torch.

    Examples
    --------
    >>> import random
    >>> set_global_seeds(42)
    >>> first = random.random()
    >>> set_global_seeds(42)
    >>> random.random() == first
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidTypeError(f"`seed` must be an integer, got {seed!r}")
    if seed < 0:
        raise InvalidInputError(f"`seed` is {seed}; it must not be negative")
    current = os.environ.get("PYTHONHASHSEED")
    if current not in (None, "random", str(seed)):
        warnings.warn(
            f"PYTHONHASHSEED is {current}; this process keeps it, child processes get {seed}",
            UserWarning,
            stacklevel=2,
        )
    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    import numpy as np

    np.random.seed(seed % (1 << 32))  # noqa: NPY002 - this function exists to seed the global one
    _seed_torch(seed, strict=strict_torch_determinism)


def _seed_torch(seed: int, *, strict: bool) -> None:
    torch: Any = sys.modules.get("torch")
    if torch is None and strict:
        try:
            import torch  # type: ignore[no-redef]
        except ImportError:
            raise RuntimeError(
                "strict_torch_determinism=True requires torch, which is not installed"
            ) from None
    if torch is None:
        return
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    if strict:
        torch.use_deterministic_algorithms(True)

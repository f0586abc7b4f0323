"""Arguments of `run_rollouts` that are passed directly instead of in a `System`."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingExtraError, ModelError
from eval_toolkit.protocols import Attack, Model
from eval_toolkit.rollouts.seeds import SeedPrompt, load_seeds
from eval_toolkit.rollouts.system import System

_FILES = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".gz")
_FORM = "run_rollouts(prompts, target, scorer=…)"


class ParticipantOptions(TypedDict, total=False):
    """Options of `run_rollouts` when it is called without a `System`."""

    prompts: Any
    target: Any
    scorer: Any
    tester: Any
    system_prompt: str
    temperature: float
    max_tokens: int | None
    opening: bool
    base_url: str | None


PARTICIPANT_DEFAULTS: Mapping[str, Any] = {
    "prompts": None,
    "target": None,
    "scorer": None,
    "tester": None,
    "system_prompt": "",
    "temperature": 0.0,
    "max_tokens": None,
    "opening": False,
    "base_url": None,
}


def system_and_prompts(
    first: Any, second: Any, options: Mapping[str, Any]
) -> tuple[System[Any, Any], Any]:
    """Determine the system and the prompts from the arguments of `run_rollouts`.

    The first two arguments are either a `System` and its seeds, or prompts and a target in any
    order. ``options`` contains all `ParticipantOptions`.

    Examples
    --------
    >>> given = {**PARTICIPANT_DEFAULTS, "scorer": lambda reply: "sure" in reply}
    >>> system, prompts = system_and_prompts(["Hi"], lambda prompt: "sure", given)
    >>> system.tester_name, prompts
    ('static', ['Hi'])
    """
    given = {name: options[name] for name in PARTICIPANT_DEFAULTS}
    base_url = given.pop("base_url")
    if isinstance(first, System):
        if base_url is not None:
            _target(first.target, base_url)  # raises, and says where the address belongs
        superfluous = [name for name, value in given.items() if value != PARTICIPANT_DEFAULTS[name]]
        if superfluous:
            raise InvalidInputError(
                f"`{superfluous[0]}` must be passed to the System: System(tester, target, scorer, "
                f"{superfluous[0]}=…)"
            )
        return first, second
    prompts, target = _parties(first, second, given.pop("prompts"), given.pop("target"))
    tester, scorer = given.pop("tester"), given.pop("scorer")
    system: System[Any, Any] = System(
        _tester(tester), _target(target, base_url), _scorers(scorer), **given
    )
    return system, prompts


def prompt_list(
    given: Any, *, single: bool = True
) -> Sequence[str | SeedPrompt | Mapping[str, Any]]:
    """Convert a list of strings or rows, a frame, a file or a single string to a list of prompts.

    A frame is a pandas or polars data frame, or a Hugging Face dataset; files are read by
    `load_seeds`. With ``single``, a string that is not a file path is treated as a single prompt.

    Examples
    --------
    >>> prompt_list("How do I pick a lock?")
    ['How do I pick a lock?']
    """
    if isinstance(given, Path) or (isinstance(given, str) and _is_file(given)):
        return load_seeds(given)
    if isinstance(given, str) and single:
        return [given]
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise InvalidTypeError(
            f"`seeds` must be a list of prompts, a frame or a file, got {given!r:.60}"
        )
    if hasattr(given, "columns") and hasattr(given, "to_dict"):
        return _records(given)
    return list(given)


def default_scorer() -> Any:
    """Return the default scorer, `ToxicityScorer`; raise an error if it is not available.

    The message says what to install, download or pass.

    Examples
    --------
    >>> default_scorer().name  # doctest: +SKIP
    'toxicity'
    """
    from eval_toolkit.rollouts.scorers.toxicity import ToxicityScorer, toxicity_path

    scorer = ToxicityScorer()
    try:
        toxicity_path()
        scorer.ready()
    except (ModelError, MissingExtraError) as error:
        raise InvalidInputError(
            "`scorer` is missing, and the default, toxicity, is not available: "
            f"{error}; or pass a scorer, such as a function of a reply, 'refusal' or "
            "'keywords:WORD,WORD'"
        ) from None
    return scorer


def _parties(first: Any, second: Any, prompts: Any, target: Any) -> tuple[Any, Any]:
    """Return the prompts and the target, which may be passed in any order or by name."""
    given = [one for one in (first, second) if one is not None]
    if len(given) == 2 and _answers(first) and not _answers(second):
        given.reverse()
    named = {"prompts": prompts, "target": target}
    for name, one in named.items():
        if one is None and given:
            named[name] = given.pop(0)
    if given:
        raise InvalidInputError(f"the prompts or the target are passed twice; write {_FORM}")
    for name, one in named.items():
        if one is None:
            raise InvalidTypeError(f"`{name}` is missing; write {_FORM}")
    return named["prompts"], named["target"]


def _answers(given: Any) -> bool:
    return not isinstance(given, type) and (
        callable(given) or isinstance(given, Model) or hasattr(given, "invoke")
    )


def _target(given: Any, base_url: str | None) -> Any:
    if isinstance(given, Sequence) and not isinstance(given, str) and base_url is None:
        return given  # scripted replies, one per turn
    from eval_toolkit.models.callables import as_model

    try:
        return as_model(given, base_url=base_url)
    except InvalidTypeError as error:
        raise InvalidTypeError(str(error).replace("`model`", "`target`", 1)) from None


def _tester(given: Any) -> Any:
    from eval_toolkit.rollouts.attacks.loading import named_attack

    if isinstance(given, Attack) or not isinstance(given, str | None):
        return given
    return named_attack(given or "static")


def _scorers(given: Any) -> Any:
    from eval_toolkit.rollouts.scorers.functions import reply_scorers

    return default_scorer() if given is None else reply_scorers(given)


def _is_file(text: str) -> bool:
    """Return whether a string is a file path rather than a prompt."""
    if "\n" in text or len(text) > 400:
        return False
    path = Path(text)
    return (" " not in text and path.suffix.lower() in _FILES) or path.is_file()


def _records(frame: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a pandas or polars data frame."""
    names = [str(name) for name in frame.columns]
    columns = [frame[name].to_list() for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

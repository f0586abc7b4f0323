"""`IFEval`: strict and loose accuracy of instruction following."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.graders.base import COMPLETIONS, KEPT, RATE, ColumnInfo, Grade, options_version
from eval_toolkit.graders.ifeval.rules import follows
from eval_toolkit.graders.languages import require_detector
from eval_toolkit.models.responses import Completion
from eval_toolkit.protocols import MetricSpec


def loose_variants(text: str) -> list[str]:
    r"""Return variants of a response without its first or last line and without asterisks.

    Parameters
    ----------
    text : str
        Model response.

    Returns
    -------
    list of str
        The response itself, then the response without its first line, its last line, and both, each
        also without asterisks. Duplicates are removed.

    Examples
    --------
    >>> loose_variants("Sure!\n*Hello*")
    ['Sure!\n*Hello*', 'Sure!\nHello', '*Hello*', 'Sure!', '', 'Hello']
    """
    lines = text.split("\n")
    cut = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    plain = [form.replace("*", "") for form in (text, *cut)]
    return list(dict.fromkeys([text, plain[0], *cut, *plain[1:]]))


@dataclass(frozen=True, slots=True)
class IFEval:
    r"""Whether a response follows the verifiable instructions of its prompt.

    The sample's context contains ``instruction_id_list``, the ids of the instructions, and
    ``kwargs``, the arguments of each; see `instruction_ids`. Under the strict criterion, the
    response itself must follow the instruction; under the loose one, any of its `loose_variants`.
    ``prompt_strict`` and ``prompt_loose`` indicate whether all instructions are followed. The rates
    ``inst_strict`` and ``inst_loose`` are computed over instructions, not prompts.

    Raises
    ------
    MissingExtraError
        If py3langid is not installed (extra ``text``).

    Examples
    --------
    >>> context = {
    ...     "instruction_id_list": ["punctuation:no_comma", "startend:end_checker"],
    ...     "kwargs": [{}, {"end_phrase": "The end."}],
    ... }
    >>> grades = IFEval().grade(Completion("Once upon a time\n*The end.*", context=context))
    >>> grades["prompt_strict"], grades["prompt_loose"], grades["n_followed_strict"]
    (0.0, 1.0, 1.0)
    """

    response_types = COMPLETIONS

    def __post_init__(self) -> None:
        require_detector("the grader 'ifeval'")  # fail before the model is queried

    @property
    def name(self) -> str:
        """Name of the grader."""
        return "ifeval"

    version = options_version("2")

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the grader's columns with their descriptions."""
        kept = dict.fromkeys(("n_followed_strict", "n_followed_loose", "n_instructions"), KEPT)
        return {"prompt_strict": RATE, "prompt_loose": RATE, **kept}

    def metrics(self) -> list[MetricSpec]:
        """Return the corpus metrics: shares of followed instructions, over all instructions."""
        from eval_toolkit.metric_specs import from_sums  # lazy: grading needs no statistics

        return [
            from_sums(
                f"inst_{how}", (f"n_followed_{how}", "n_instructions"), _ratio, bounds=(0.0, 1.0)
            )
            for how in ("strict", "loose")
        ]

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return counts of followed instructions; an error if one cannot be checked."""
        try:
            instructions = _instructions(response.context)
            variants = loose_variants(response.completion)
            strict = [follows(name, variants[0], **arguments) for name, arguments in instructions]
            loose = [
                kept or any(follows(name, form, **arguments) for form in variants[1:])
                for kept, (name, arguments) in zip(strict, instructions, strict=True)
            ]
        except InvalidInputError as error:
            return dict.fromkeys(self.columns(), Grade.error(str(error)))
        return {
            "prompt_strict": float(all(strict)),
            "prompt_loose": float(all(loose)),
            "n_followed_strict": float(sum(strict)),
            "n_followed_loose": float(sum(loose)),
            "n_instructions": float(len(instructions)),
        }


def _ratio(sums: FloatArray) -> FloatArray:
    return sums[:, 0] / sums[:, 1]


def _instructions(context: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the instructions of a sample with their arguments."""
    if not isinstance(context, Mapping):
        raise InvalidInputError(
            "the sample has no context; it must contain 'instruction_id_list' and 'kwargs'"
        )
    names, arguments = context.get("instruction_id_list"), context.get("kwargs")
    if not isinstance(names, (list, tuple)) or not names:
        raise InvalidInputError(f"`instruction_id_list` is {names!r:.60}; it must be a list of ids")
    if not isinstance(arguments, (list, tuple)) or len(arguments) != len(names):
        raise InvalidInputError(
            f"`kwargs` is {arguments!r:.60}; it must be a list of mappings, one per instruction"
        )
    if not all(one is None or isinstance(one, Mapping) for one in arguments):
        raise InvalidInputError("`kwargs` must contain a mapping of arguments for each instruction")
    return list(zip(names, [one or {} for one in arguments], strict=True))

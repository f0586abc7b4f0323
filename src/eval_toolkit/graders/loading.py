"""Load graders by name, for the command line and task files."""

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.responses import ResponseType
from eval_toolkit.plugins import (
    TYPED,
    Origin,
    available_plugins,
    finish_plugin,
    known_name,
    load_plugin,
    name_and_options,
)
from eval_toolkit.protocols import Grader

_HERE = "eval_toolkit.graders"
_JUDGES = "eval_toolkit.graders.judges"
PLAIN_GRADERS = {
    "accuracy": f"{_HERE}.choices:ChoiceAccuracy",
    "accuracy_norm_bytes": f"{_HERE}.choices:ChoiceAccuracy",
    "accuracy_norm_chars": f"{_HERE}.choices:ChoiceAccuracy",
    "accuracy_norm_tokens": f"{_HERE}.choices:ChoiceAccuracy",
    "bits_per_byte": f"{_HERE}.choices:BitsPerByte",
    "bleu": f"{_HERE}.translation:Bleu",
    "character_count": f"{_HERE}.lengths:UnitCount",
    "choice_confidence": f"{_HERE}.choice_calibration:ChoiceCalibration",
    "choice_position": f"{_HERE}.choices:ChoicePosition",
    "chrf": f"{_HERE}.translation:ChrF",
    "confidence_weighted_accuracy": f"{_HERE}.choice_scores:ConfidenceWeightedAccuracy",
    "csv_format": f"{_HERE}.formats:CsvFormat",
    "distributional_correctness_score": f"{_HERE}.choice_scores:DistributionalCorrectnessScore",
    "drop": f"{_HERE}.drop:Drop",
    "exact_match": f"{_HERE}.texts:ExactMatch",
    "exponential_similarity": f"{_HERE}.percentages:ExponentialSimilarity",
    "f1": f"{_HERE}.texts:TokenF1",
    "f1_plain": f"{_HERE}.texts:TokenF1",
    "ifeval": f"{_HERE}.ifeval:IFEval",
    "includes": f"{_HERE}.texts:Includes",
    "json_format": f"{_HERE}.json_format:JsonFormat",
    "keywords": f"{_JUDGES}.keywords:KeywordJudge",
    "language_consistency": f"{_HERE}.languages:LanguageConsistency",
    "language_match": f"{_HERE}.languages:LanguageMatch",
    "length_control": f"{_HERE}.lengths:LengthControl",
    "length_ratio": f"{_HERE}.lengths:LengthRatio",
    "letter_match": f"{_HERE}.extraction:LetterMatch",
    "math_match": f"{_HERE}.mathematics:MathMatch",
    "number_match": f"{_HERE}.extraction:NumberMatch",
    "paragraph_count": f"{_HERE}.lengths:UnitCount",
    "placeholders": f"{_HERE}.formats:Placeholders",
    "postscript_format": f"{_HERE}.formats:PostscriptFormat",
    "probability_mass": f"{_HERE}.choices:ProbabilityMass",
    "probability_mass_norm_bytes": f"{_HERE}.choices:ProbabilityMass",
    "probability_mass_norm_chars": f"{_HERE}.choices:ProbabilityMass",
    "probability_mass_norm_tokens": f"{_HERE}.choices:ProbabilityMass",
    "raw_language_consistency": f"{_HERE}.languages:LanguageConsistency",
    "refusal_phrases": f"{_JUDGES}.keywords:Refusal",
    "regex_match": f"{_HERE}.extraction:RegexMatch",
    "repeated_text": f"{_HERE}.repetition:RepeatedText",
    "rouge": f"{_HERE}.rouge:Rouge",
    "sentence_count": f"{_HERE}.lengths:UnitCount",
    "ter": f"{_HERE}.translation:Ter",
    "ternary_score": f"{_HERE}.choice_scores:TernaryScore",
    "word_count": f"{_HERE}.lengths:UnitCount",
}
"""Graders that need only the answer; `graders.stored` can reconstruct them from stored runs."""
_OURS = {
    **PLAIN_GRADERS,
    "code_pass": f"{_HERE}.code:CodeTests",
    "judge": f"{_JUDGES}.judge:Judge",
    "match": f"{_HERE}.match:Match",
    "panel": f"{_JUDGES}.panel:Panel",
}
_SYNONYMS = {
    "contains": "includes",
    "exact": "exact_match",
    "numeric": "number_match",
    "regex": "regex_match",
}
"""Aliases of built-in graders."""
PRESETS: dict[str, dict[str, Any]] = {
    "accuracy_norm_bytes": {"normalise": "bytes"},
    "accuracy_norm_chars": {"normalise": "characters"},
    "accuracy_norm_tokens": {"normalise": "tokens"},
    "character_count": {"unit": "characters"},
    "f1_plain": {"normalise": "plain"},
    "judge": {"rubric": "correctness"},
    "paragraph_count": {"unit": "paragraphs"},
    "probability_mass_norm_bytes": {"normalise": "bytes"},
    "probability_mass_norm_chars": {"normalise": "characters"},
    "probability_mass_norm_tokens": {"normalise": "tokens"},
    "raw_language_consistency": {"raw": True},
    "sentence_count": {"unit": "sentences"},
    "word_count": {"unit": "words"},
}
"""Default options by grader name."""


def available_graders() -> dict[str, str]:
    """Return the names and locations of built-in graders and graders of installed packages.

    Returns
    -------
    dict of str to str
        Mapping of names to ``module:object``, sorted by name.

    Examples
    --------
    >>> "exact_match" in available_graders()
    True
    """
    return available_plugins("graders", _OURS)


def default_graders(response_type: ResponseType | str) -> list[Grader]:
    """Return the default graders of a task.

    Parameters
    ----------
    response_type : ResponseType or str
        "completion" or "loglikelihoods".

    Returns
    -------
    list of Grader
        Exact match and F1; or accuracy, byte-normalised accuracy and bits per byte.

    Raises
    ------
    InvalidInputError
        If the response type is unknown.

    Examples
    --------
    >>> [grader.name for grader in default_graders("loglikelihoods")]
    ['accuracy', 'accuracy_norm_bytes', 'bits_per_byte']
    """
    try:
        kind = ResponseType(response_type)
    except ValueError:
        raise InvalidInputError(
            f"`response_type` is {response_type!r}; it must be 'completion' or 'loglikelihoods'"
        ) from None
    if kind is ResponseType.COMPLETION:
        from eval_toolkit.graders.texts import ExactMatch, TokenF1

        return [ExactMatch(), TokenF1()]
    from eval_toolkit.graders.choices import BitsPerByte, ChoiceAccuracy

    return [ChoiceAccuracy(), ChoiceAccuracy("bytes"), BitsPerByte()]


def fitting_graders(response_type: ResponseType) -> list[str]:
    """Return the names of the built-in graders that accept a response type.

    Examples
    --------
    >>> fitting_graders(ResponseType.LOGLIKELIHOODS)[0]
    'accuracy'
    """
    return [
        name
        for name in sorted(_OURS)
        if response_type in load_plugin("graders", name, _OURS, origin=TYPED).response_types
    ]


def load_grader(given: Any, **options: Any) -> Grader:
    """Load a grader from a name, or from a mapping with a name and options.

    Parameters
    ----------
    given : str, mapping, Grader or function
        Name from `available_graders` or ``package.module:object``, optionally followed by options
        as a TOML table: ``number_match{where="boxed"}``. A mapping has the name under ``grader``
        and the options as additional keys. A function of (answer) or (answer, reference) that
        returns a number or a bool becomes a grader named after it. A grader is returned unchanged.
    **options
        Options of the grader.

    Returns
    -------
    Grader
        Grader configured with the options.

    Raises
    ------
    PluginError
        If there is no grader with that name.
    InvalidInputError
        If an option is unknown or out of range.

    Examples
    --------
    >>> load_grader("exact_match", ignore_case=True).version
    '1+ignore_case=True'
    >>> load_grader({"grader": "number_match", "where": "boxed"}).where
    'boxed'
    >>> load_grader("f1{normalise='plain'}").name
    'f1_plain'
    """
    return named_grader(given, options, origin=TYPED)


def named_grader(given: Any, options: Mapping[str, Any], *, origin: Origin) -> Grader:
    """Load a grader named by a file, the command line or code; see `load_grader`.

    Raises `InvalidInputError` if a file names a grader that the user did not allow.

    Examples
    --------
    >>> from eval_toolkit.plugins import read_from
    >>> named_grader("exact_match", {"ignore_case": True}, origin=read_from("task.toml")).version
    '1+ignore_case=True'
    """
    if isinstance(given, Mapping):
        table = dict(given)
        name = table.pop("grader", None)
        if not isinstance(name, str):
            raise InvalidInputError(f"{dict(given)!r} does not name a grader; add the key 'grader'")
        return named_grader(name, {**table, **options}, origin=origin)
    if not isinstance(given, str):
        if inspect.isfunction(given) and not options:
            from eval_toolkit.graders.functions import FunctionGrader

            return FunctionGrader(given)
        # A class has the attributes of a grader too, but an instance is required.
        if options or not isinstance(given, Grader) or isinstance(given, type):
            raise InvalidTypeError(
                f"{given!r:.80} is not a grader; pass a name, a function of (answer, reference), or "
                "an object with `name`, `version` and `grade(response)`"
            )
        return given
    name, inline = name_and_options(given)
    name = _SYNONYMS.get(name.lower(), name)
    preset = PRESETS.get(known_name("graders", name, _OURS) or "", {})
    found = load_plugin("graders", name, _OURS, origin=origin)
    every = {**preset, **inline, **options}
    if ":" in name and not every and inspect.isfunction(found) and _needs_answer(found):
        return named_grader(found, {}, origin=origin)
    grader: Grader = finish_plugin("graders", name, found, every, protocol=Grader, origin=origin)
    return grader


def _needs_answer(function: Any) -> bool:
    """Return whether a function grades answers; one without required parameters returns a grader."""
    places = inspect.signature(function).parameters.values()
    return any(
        one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        for one in places
    )


def check_named(given: Any, *, origin: Origin) -> None:
    """Raise an error if a file names a grader that must be imported, without importing it.

    Names such as ``package.module:object``, and options that execute code, are errors unless the
    user allowed them.

    Examples
    --------
    >>> from eval_toolkit.plugins import read_from
    >>> check_named("f1{normalise='plain'}", origin=read_from("task.toml"))
    """
    table = given if isinstance(given, Mapping) else {"grader": given}
    name, inline = name_and_options(str(table.get("grader", "")))
    if ":" in name:
        origin.refuse_import(name, f"the module {name.partition(':')[0]}")
    origin.refuse_consent([table, inline])


def required_options(grader: Any) -> list[str]:
    """Return the options of a grader class that have no default.

    Examples
    --------
    >>> from eval_toolkit.graders import ExactMatch, RegexMatch
    >>> required_options(RegexMatch), required_options(ExactMatch)
    (['pattern'], [])
    """
    return [
        item.name
        for item in fields(grader)
        if item.init and item.default is MISSING and item.default_factory is MISSING
    ]

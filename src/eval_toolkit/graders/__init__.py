"""Graders and judges: functions that map a response and its reference to numbers.

Most are pure functions, so that stored responses can be regraded.

A grader has a ``name``, a ``version`` that changes whenever its results may change, and
``grade(response)``, which returns a number or a `Grade` per column. ``columns()`` describes the
columns, and ``response_types`` lists the types it can grade; without it, all types are accepted.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.graders.answers import WithAnswer, with_answers
    from eval_toolkit.graders.base import ColumnInfo, Grade
    from eval_toolkit.graders.choice_calibration import ChoiceCalibration, choice_reliability
    from eval_toolkit.graders.choice_scores import (
        ConfidenceWeightedAccuracy,
        DistributionalCorrectnessScore,
        TernaryScore,
    )
    from eval_toolkit.graders.choices import (
        BitsPerByte,
        ChoiceAccuracy,
        ChoicePosition,
        ProbabilityMass,
    )
    from eval_toolkit.graders.code import CodeTests, find_code
    from eval_toolkit.graders.drop import Drop, drop_answer
    from eval_toolkit.graders.extraction import (
        LetterMatch,
        NumberMatch,
        RegexMatch,
        find_letter,
        find_number,
    )
    from eval_toolkit.graders.formats import CsvFormat, Placeholders, PostscriptFormat
    from eval_toolkit.graders.ifeval import IFEval
    from eval_toolkit.graders.json_format import JsonFormat
    from eval_toolkit.graders.judges import Judge
    from eval_toolkit.graders.languages import LanguageConsistency, LanguageMatch, detect_language
    from eval_toolkit.graders.lengths import (
        LengthControl,
        LengthRatio,
        UnitCount,
        count_paragraphs,
        count_sentences,
        count_words,
    )
    from eval_toolkit.graders.loading import available_graders, default_graders, load_grader
    from eval_toolkit.graders.match import Match
    from eval_toolkit.graders.mathematics import MathMatch, find_math_answers, normal_form
    from eval_toolkit.graders.percentages import ExponentialSimilarity
    from eval_toolkit.graders.repetition import RepeatedText
    from eval_toolkit.graders.rouge import Rouge
    from eval_toolkit.graders.texts import ExactMatch, Includes, TextRules, TokenF1
    from eval_toolkit.graders.translation import Bleu, ChrF, Ter

__all__ = [
    "BitsPerByte",
    "Bleu",
    "ChoiceAccuracy",
    "ChoiceCalibration",
    "ChoicePosition",
    "ChrF",
    "CodeTests",
    "ColumnInfo",
    "ConfidenceWeightedAccuracy",
    "CsvFormat",
    "DistributionalCorrectnessScore",
    "Drop",
    "ExactMatch",
    "ExponentialSimilarity",
    "Grade",
    "IFEval",
    "Includes",
    "JsonFormat",
    "Judge",
    "LanguageConsistency",
    "LanguageMatch",
    "LengthControl",
    "LengthRatio",
    "LetterMatch",
    "Match",
    "MathMatch",
    "NumberMatch",
    "Placeholders",
    "PostscriptFormat",
    "ProbabilityMass",
    "RegexMatch",
    "RepeatedText",
    "Rouge",
    "Ter",
    "TernaryScore",
    "TextRules",
    "TokenF1",
    "UnitCount",
    "WithAnswer",
    "available_graders",
    "choice_reliability",
    "count_paragraphs",
    "count_sentences",
    "count_words",
    "default_graders",
    "detect_language",
    "drop_answer",
    "find_code",
    "find_letter",
    "find_math_answers",
    "find_number",
    "load_grader",
    "normal_form",
    "with_answers",
]

__getattr__ = names_on_use(
    __name__,
    {
        "answers": "WithAnswer with_answers",
        "base": "ColumnInfo Grade",
        "choice_calibration": "ChoiceCalibration choice_reliability",
        "choice_scores": "ConfidenceWeightedAccuracy DistributionalCorrectnessScore TernaryScore",
        "choices": "BitsPerByte ChoiceAccuracy ChoicePosition ProbabilityMass",
        "code": "CodeTests find_code",
        "drop": "Drop drop_answer",
        "extraction": "LetterMatch NumberMatch RegexMatch find_letter find_number",
        "formats": "CsvFormat Placeholders PostscriptFormat",
        "ifeval": "IFEval",
        "json_format": "JsonFormat",
        "judges": "Judge",
        "languages": "LanguageConsistency LanguageMatch detect_language",
        "lengths": (
            "LengthControl LengthRatio UnitCount count_paragraphs count_sentences count_words"
        ),
        "loading": "available_graders default_graders load_grader",
        "match": "Match",
        "mathematics": "MathMatch find_math_answers normal_form",
        "percentages": "ExponentialSimilarity",
        "repetition": "RepeatedText",
        "rouge": "Rouge",
        "texts": "ExactMatch Includes TextRules TokenF1",
        "translation": "Bleu ChrF Ter",
    },
)

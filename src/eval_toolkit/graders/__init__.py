"""Graders and judges: functions that map a response and its reference to numbers.

Most are pure functions, so stored responses can be regraded.

A grader has a ``name``, a ``version`` that changes whenever its results may change, and
``grade(response)``, which returns a number or a `Grade` for each column. ``columns()`` describes
the columns, and ``response_types`` lists the types it can grade; without it, all types are
accepted.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.graders.answers import *
    from eval_toolkit.graders.base import *
    from eval_toolkit.graders.choice_calibration import *
    from eval_toolkit.graders.choice_scores import *
    from eval_toolkit.graders.choices import *
    from eval_toolkit.graders.code import *
    from eval_toolkit.graders.drop import *
    from eval_toolkit.graders.extraction import *
    from eval_toolkit.graders.formats import *
    from eval_toolkit.graders.ifeval import *
    from eval_toolkit.graders.json_format import *
    from eval_toolkit.graders.judges import *
    from eval_toolkit.graders.languages import *
    from eval_toolkit.graders.lengths import *
    from eval_toolkit.graders.loading import *
    from eval_toolkit.graders.match import *
    from eval_toolkit.graders.mathematics import *
    from eval_toolkit.graders.percentages import *
    from eval_toolkit.graders.repetition import *
    from eval_toolkit.graders.rouge import *
    from eval_toolkit.graders.texts import *
    from eval_toolkit.graders.translation import *

__all__, __getattr__ = names_on_use(
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

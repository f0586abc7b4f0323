"""Languages of texts."""

import pytest

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import LanguageConsistency, LanguageMatch, detect_language, languages
from eval_toolkit.responses import Completion

# Article 1 of the Universal Declaration of Human Rights, as published by the UN; Chinese aside.
SENTENCES = {
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "en": "All human beings are born free and equal in dignity and rights.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "zh-cn": "这是一个用中文写的简单句子，我们今天去学校学习。",
}


def test_sentences_that_are_known():
    assert {code: detect_language(text) for code, text in SENTENCES.items()} == {
        code: code for code in SENTENCES
    }


@pytest.mark.parametrize("text", ["", "   ", "12345", "+-*/ !?", "https://example.com/a"])
def test_no_letters_no_language(text):
    assert detect_language(text) is None
    grade = LanguageMatch("de").grade(Completion(text))["language_match"]
    assert (grade.status, grade.reason) == ("skipped", "the language of the text cannot be told")


def test_the_same_every_time_and_nobody_elses_seed_is_touched():
    import langdetect

    unsure = "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心。"  # unseeded: zh-cn or ko
    assert len({detect_language(unsure) for _ in range(20)}) == 1
    assert langdetect.DetectorFactory.seed is None


def test_target_of_the_grader_or_of_the_sample():
    german, english = (
        Completion(SENTENCES[code], context={"language": "de"}) for code in ("de", "en")
    )
    for grader in (
        LanguageMatch("de"),
        LanguageMatch("DE"),
        LanguageMatch("de-AT"),
        LanguageMatch(),
    ):
        assert grader.grade(german) == {"language_match": 1.0}
        assert grader.grade(english) == {"language_match": 0.0}
    assert LanguageMatch("zh").grade(Completion(SENTENCES["zh-cn"]))["language_match"] == 1.0
    assert LanguageMatch("zh-tw").grade(Completion(SENTENCES["zh-cn"]))["language_match"] == 0.0


def test_a_language_that_is_not_known_is_a_mistake():
    with pytest.raises(InvalidInputError, match="`language` is 'german'; it must be a code"):
        LanguageMatch("german")
    with pytest.raises(InvalidInputError, match="`language` is 'xx'"):
        LanguageMatch().grade(Completion("Hallo", context={"language": "xx"}))
    with pytest.raises(InvalidInputError, match="no 'language'"):
        LanguageMatch().grade(Completion("Hallo"))


def asked(question, text, **options):
    messages = [
        {"role": "system", "content": SENTENCES["fr"]},
        {"role": "user", "content": SENTENCES["it"]},
        {"role": "assistant", "content": "Va bene."},
        {"role": "user", "content": question},
    ]
    return Completion(text, messages=messages, **options)


def test_the_answer_has_the_language_of_the_last_question():
    grader = LanguageConsistency()
    same = grader.grade(asked(SENTENCES["de"], "Das sehe ich ganz genauso wie Sie."))
    other = grader.grade(asked(SENTENCES["de"], SENTENCES["en"]))
    assert (same, other) == ({"language_consistency": 1.0}, {"language_consistency": 0.0})


def test_either_side_without_a_language_is_skipped():
    grader = LanguageConsistency()
    assert (
        "question" in grader.grade(asked("1 + 1?", SENTENCES["de"]))["language_consistency"].reason
    )
    assert "text" in grader.grade(asked(SENTENCES["de"], "2"))["language_consistency"].reason


def test_the_text_as_the_model_gave_it():
    answer = asked(SENTENCES["de"], "Rom", raw_completion=SENTENCES["en"])
    assert LanguageConsistency(raw=True).grade(answer) == {"raw_language_consistency": 0.0}


def test_without_langdetect_the_extra_is_named_before_a_model_is_asked(monkeypatch):
    def missing(module, **told):
        raise MissingExtraError(f"install {told['extra']}")

    monkeypatch.setattr(languages, "require", missing)
    for grader in (LanguageMatch, LanguageConsistency):
        with pytest.raises(MissingExtraError, match="text"):
            grader()

"""Languages of texts."""

import pytest
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.graders import LanguageConsistency, LanguageMatch, detect_language, languages
from eval_toolkit.models.responses import Completion

# Article 1 of the Universal Declaration of Human Rights, as published by the UN; Chinese aside.
SENTENCES = {
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "en": "All human beings are born free and equal in dignity and rights.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "zh-cn": "这是一个用中文写的简单句子，我们今天去学校学习。",
    "zh-tw": "這是一個用中文寫的簡單句子，我們今天去學校學習。",
}


def test_sentences_that_are_known():
    assert {code: detect_language(text) for code, text in SENTENCES.items()} == {
        code: code for code in SENTENCES
    }


@pytest.mark.parametrize("text", ["", "   ", "12345", "+-*/ !?", "https://example.com/a"])
def test_no_letters_no_language(text):
    assert detect_language(text) is None
    grade = LanguageMatch("de").grade(Completion(text))["language_match"]
    assert (grade.status, grade.reason) == ("skipped", "the language of the response is unknown")


@each("code", SENTENCES)
def test_case_addresses_and_length_change_nothing(code):
    text = SENTENCES[code]
    assert detect_language(text.upper()) == code
    assert detect_language(f"https://example.com/the-english-words info@example.com {text}") == code
    assert detect_language(text * 1000) == code


def test_both_forms_of_norwegian_are_norwegian():
    """Article 1 of the Universal Declaration in Bokmål and Nynorsk."""
    for text in (
        "Alle mennesker er født frie og med samme menneskeverd og menneskerettigheter.",
        "Alle menneske er fødde til fridom og med same menneskeverd og menneskerettar.",
    ):
        assert detect_language(text) == "no"


def test_words_of_no_language_have_none():
    assert detect_language("hm") is None


def test_every_language_can_be_asked_for_and_found():
    """The model that is installed knows all of them, whatever its version."""
    found = set(languages._identifier().labels)
    assert found == languages._ASKED
    assert all(LanguageMatch(code).language == code for code in languages.LANGUAGES)


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
    assert "response" in grader.grade(asked(SENTENCES["de"], "2"))["language_consistency"].reason


def test_the_text_as_the_model_gave_it():
    answer = asked(SENTENCES["de"], "Rom", raw_completion=SENTENCES["en"])
    assert LanguageConsistency(raw=True).grade(answer) == {"raw_language_consistency": 0.0}


def test_without_py3langid_the_extra_is_named_before_a_model_is_asked(monkeypatch):
    def missing(module, **told):
        raise MissingExtraError(f"install {told['extra']}")

    monkeypatch.setattr(languages, "require", missing)
    for grader in (LanguageMatch, LanguageConsistency):
        with pytest.raises(MissingExtraError, match="text"):
            grader()

"""Whatever names a run has, a part and an address are read back as they were written."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import EvalToolkitError, InvalidInputError
from eval_toolkit.runs.addresses import Address
from eval_toolkit.scorecards.parts import format_part, parse_part

NAMES = st.one_of(
    st.text(min_size=1, max_size=12),
    st.text(alphabet='&=/@" \\\nall', min_size=1, max_size=12),
    st.sampled_from(["pass@4", "org/model", "all", "slice", "x@all", "x@a=b", "recall@fpr=0.01"]),
)
PARTS = st.dictionaries(NAMES, st.one_of(NAMES, st.just("")), max_size=3)


@given(PARTS)
def test_a_part_is_read_back(pairs: dict[str, str]) -> None:
    read = parse_part(format_part(pairs))
    assert list(read.items()) == list(pairs.items())


@given(NAMES, st.none() | PARTS, st.none() | NAMES)
@example("f1", None, "m@v=2")
@example("recall@fpr=0.01", {"fpr": "1"}, None)
@example("x@all", {}, "m")
@example('a/ "b', {"k": "v"}, None)
def test_an_address_is_read_back(
    metric: str, part: dict[str, str] | None, system: str | None
) -> None:
    address = Address(metric, part, system)
    assert Address.parse(str(address)) == address
    assert str(Address.parse(str(address))) == str(address)
    assert str(address).isprintable()


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_says_why_not(text: str) -> None:
    for read in (Address.parse, parse_part):
        said = ""
        try:
            read(text)
        except EvalToolkitError as error:
            said = str(error)
        assert "\n" not in said


@each(
    ("text", "expected"),
    [
        ("roc_auc", Address("roc_auc")),
        ("roc_auc@language=de/guard", Address("roc_auc", {"language": "de"}, "guard")),
        ("roc_auc @ all / a/b", Address("roc_auc", {}, "a/b")),
        ("exact_match_pass@4", Address("exact_match_pass@4")),
        ("pass@4 / m", Address("pass@4", None, "m")),
        ("f1@0.5 / m", Address("f1@0.5", None, "m")),
        ("recall@fpr=0.01", Address("recall@fpr=0.01")),
        ("recall@fpr=0.01@language=de/m", Address("recall@fpr=0.01", {"language": "de"}, "m")),
        ("recall @ fpr=0.01", Address("recall", {"fpr": "0.01"})),
        ("pass@4 @ seed=1 & fold=2", Address("pass@4", {"seed": "1", "fold": "2"})),
        ("f1 @ subject=high school / m", Address("f1", {"subject": "high school"}, "m")),
        ('f1 @ subject="a / b" / m', Address("f1", {"subject": "a / b"}, "m")),
        ("f1 @ x=a=b", Address("f1", {"x": "a=b"})),
        ("tox/mean @ all / m", Address("tox/mean", {}, "m")),
        ('"tox/mean" / m', Address("tox/mean", None, "m")),
        ("f1 / m@v=2", Address("f1 / m", {"v": "2"})),  # such a system is written in quotes
        ('f1 / "m@v=2"', Address("f1", None, "m@v=2")),
    ],
)
def test_an_address_may_be_written_loosely(text: str, expected: Address) -> None:
    assert Address.parse(text) == expected


@each(
    ("text", "why"),
    [
        ("", "it has no metric"),
        ("@ fold=1", "it has no metric"),
        ("f1 @ fold=1 / ", "no system after the slash"),
        ("f1 @ a=", "a value is missing"),
        ("f1 @ a=1&a=2", "the key 'a' occurs twice"),
        ("f1 @ a=1&b", "write conditions such as"),
        ('f1 @ a="x', "not closed"),
        ('f1 @ a=x"y"', "must be quoted"),
        ('"f1" x', "after the metric"),
        ('f1 / "m" x', "after the system"),
    ],
)
def test_what_is_no_address_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        Address.parse(text)


@pytest.mark.parametrize("text", ["", "de", "=de", "a=1/b", "all&a=1", "a=1&", '""=x'])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a valid part"):
        parse_part(text)


def test_a_part_needs_a_key() -> None:
    with pytest.raises(InvalidInputError, match="empty key"):
        format_part({"": "de"})

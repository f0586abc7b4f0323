"""Tests for `each`: all cases run, and all failures are reported."""

import inspect

import pytest
from tests.support.each import each


@each("number", [])
def no_case(number: int) -> None:
    raise AssertionError(number)


@each(("number", "even"), [(1, True), (2, True), (3, True)], ids=lambda n, _: f"n{n}")
def some_odd(number: int, even: bool, tried: list[int]) -> None:
    tried.append(number)
    assert (number % 2 == 0) is even


@each("how", ["fail", "skip"])
def ended(how: str) -> None:
    getattr(pytest, how)("no")


@each("why", ["one", "two"])
def left_out(why: str) -> None:
    pytest.skip(why)


def test_every_case_is_tried_and_all_that_fail_are_named() -> None:
    tried: list[int] = []
    with pytest.raises(ExceptionGroup, match="2 of 3 cases: n1; n3") as caught:
        some_odd(tried=tried)
    assert tried == [1, 2, 3]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in the case n1"],
        ["in the case n3"],
    ]


def test_what_pytest_ends_counts() -> None:
    with pytest.raises(ExceptionGroup, match="1 of 2 cases: 'fail'"):
        ended()
    with pytest.raises(pytest.skip.Exception, match="one"):
        left_out()


def test_fixtures_are_those_of_the_test_without_its_cases() -> None:
    assert list(inspect.signature(some_odd).parameters) == ["tried"]


def test_a_list_without_cases_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no case"):
        no_case()

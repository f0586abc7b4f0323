"""Counts, classes and lengths of a split, against numpy's quantiles and hand counts."""

import json
import math
from collections import UserDict
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval_toolkit._internal.tables import FileFormat, read_table
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import wilson_interval
from eval_toolkit.leakage.eda.summaries import (
    ClassBalance,
    Quantiles,
    class_balance,
    length_quantiles,
    summarize_split,
)
from eval_toolkit.slices import EvalSlice

TEXTS = st.lists(st.text(max_size=30), min_size=1, max_size=40)


class TestClassBalance:
    @given(st.lists(st.integers(0, 1), min_size=1, max_size=60))
    def test_counts(self, labels: list[int]) -> None:
        balance = class_balance(labels)
        negative, positive = labels.count(0), labels.count(1)
        assert (balance.n_negative, balance.n_positive) == (negative, positive)
        assert balance.n == len(labels)
        assert balance.positive == wilson_interval(positive, len(labels))
        assert balance.single_class == (len(set(labels)) == 1)
        assert bool(balance.reason) == balance.single_class
        if positive:
            assert balance.neg_pos_ratio == negative / positive
        else:
            assert balance.neg_pos_ratio is None
        json.dumps(balance.to_dict(), allow_nan=False)

    def test_without_rows_it_says_so(self) -> None:
        for nothing in ([], np.zeros(0)):
            balance = class_balance(nothing)
            assert (balance.n, balance.neg_pos_ratio) == (0, None)
            assert balance.reason == "there are no rows"
            assert balance.positive.proportion is None
            assert balance.single_class

    @pytest.mark.parametrize(
        ("labels", "reason"),
        [
            ([1], "the only row is positive"),
            ([0, 0, 0], "all 3 rows are negative"),
            ([0, 1], ""),
        ],
    )
    def test_reasons(self, labels: list[int], reason: str) -> None:
        assert class_balance(labels).reason == reason

    @pytest.mark.parametrize("labels", [[0, 2], ["spam", "ham"], [0, None], [[0, 1]], [[]]])
    def test_other_labels_are_refused(self, labels: list[object]) -> None:
        with pytest.raises(InvalidInputError, match="labels"):
            class_balance(labels)  # type: ignore[arg-type]

    def test_confidence_reaches_the_interval(self) -> None:
        assert class_balance([0, 1], confidence=0.5).positive == wilson_interval(
            1, 2, confidence=0.5
        )


def interpolated(lengths: list[int], q: float) -> float:
    """The quantile by its definition: linear between the two order statistics around (n-1)q."""
    ordered = sorted(lengths)
    at = (len(ordered) - 1) * q
    low, high = ordered[math.floor(at)], ordered[math.ceil(at)]
    return low + (high - low) * (at - math.floor(at))


class TestLengths:
    @given(TEXTS)
    def test_quantiles_by_definition_and_by_numpy(self, texts: list[str]) -> None:
        lengths = length_quantiles(texts, tokenizer=list)
        by_unit = {
            "char": [len(text) for text in texts],
            "word": [len(text.split()) for text in texts],
            "token": [len(text) for text in texts],
        }
        for unit, counts in by_unit.items():
            found = getattr(lengths, unit)
            assert found.p50 == pytest.approx(interpolated(counts, 0.5), abs=1e-9)
            assert found.p95 == pytest.approx(float(np.percentile(counts, 95)), abs=1e-9)
            assert found.max == max(counts)

    def test_missing_texts_are_counted_and_left_out(self) -> None:
        lengths = length_quantiles(["abc", None, float("nan"), "abcde"])
        assert (lengths.n, lengths.n_missing) == (2, 2)
        assert lengths.char == Quantiles(4.0, 4.9, 5)
        assert lengths.token is None
        assert "token" not in lengths.to_dict()

    def test_no_texts_is_a_state(self) -> None:
        assert length_quantiles([]).reason == "there are no texts"
        missing = length_quantiles([None], tokenizer=list)
        assert (missing.char, missing.token, missing.reason) == (
            None,
            None,
            "every text is missing",
        )
        assert missing.to_dict() == {"n": 0, "n_missing": 1, "reason": "every text is missing"}

    @pytest.mark.parametrize(
        "tokenizer",
        [
            str.split,
            lambda text: {"input_ids": text.split()},
            lambda text: {"input_ids": [text.split()]},  # a batch of one
            lambda text: UserDict({"input_ids": np.arange(len(text.split()))}),
            lambda text: np.arange(len(text.split())),
            lambda text: tuple(text.split()),
        ],
    )
    def test_every_shape_of_tokens(self, tokenizer: object) -> None:
        lengths = length_quantiles(["one two three", "four"], tokenizer=tokenizer)  # type: ignore[arg-type]
        assert lengths.token == Quantiles(2.0, 2.9, 3)

    @pytest.mark.parametrize("tokens", ["text", 3, None, {"ids": [1]}, {1, 2}])
    def test_what_is_no_list_of_tokens_is_named(self, tokens: object) -> None:
        with pytest.raises(InvalidTypeError, match=r"the tokenizer returned a \w+ for texts\[0\]"):
            length_quantiles(["a"], tokenizer=lambda text: tokens)

    def test_a_tokenizer_that_fails_names_the_row(self) -> None:
        def broken(text: str) -> list[str]:
            text.encode()
            return [text]

        with pytest.raises(InvalidInputError, match=r"failed on texts\[2\]: UnicodeEncodeError"):
            length_quantiles(["a", None, "\ud800"], tokenizer=broken)
        with pytest.raises(InvalidTypeError, match="`tokenizer` is a int"):
            length_quantiles(["a"], tokenizer=3)  # type: ignore[arg-type]

    def test_one_text_and_what_is_no_text_are_refused(self) -> None:
        with pytest.raises(InvalidTypeError, match="pass a list of texts"):
            length_quantiles("a text")
        with pytest.raises(InvalidTypeError, match=r"texts\[0\] is \['a'\]"):
            length_quantiles([["a"]])  # type: ignore[list-item]

    def test_a_line_of_five_megabytes(self) -> None:
        assert length_quantiles(["x" * 5_000_000]).char == Quantiles(5e6, 5e6, 5_000_000)


class TestSummarizeSplit:
    def test_by_hand(self) -> None:
        part = EvalSlice(
            "dev", {"text": ["a b c", " \n", None, "a", "\ud800"], "label": [0, 1, 1, 0, 0]}
        )
        summary = summarize_split(part, tokenizer=str.split, context_window=2)
        assert (summary.name, summary.n, summary.n_missing, summary.n_empty) == ("dev", 5, 1, 1)
        assert summary.balance == class_balance([0, 1, 1, 0, 0])
        assert summary.lengths == length_quantiles(part.inputs, tokenizer=str.split)
        assert summary.over_context == wilson_interval(1, 4)
        assert summary.obfuscation is not None
        assert summary.obfuscation.rows["invisible"] == [4]
        json.dumps(summary.to_dict(), allow_nan=False)

    def test_exactly_the_window_fits(self) -> None:
        part = EvalSlice("dev", {"text": ["a b", "a b c"], "label": [0, 1]})
        for window, over in ((1, 2), (2, 1), (3, 0)):
            summary = summarize_split(part, tokenizer=str.split, context_window=window)
            assert summary.over_context == wilson_interval(over, 2)

    def test_what_was_not_asked_for_is_none(self) -> None:
        part = EvalSlice("dev", {"text": ["a"], "label": [0]})
        summary = summarize_split(part, context_window=5, obfuscation=False)
        assert (summary.over_context, summary.obfuscation, summary.lengths.token) == (
            None,
            None,
            None,
        )
        assert summarize_split(part, tokenizer=list).over_context is None
        assert summary.to_dict()["obfuscation"] is None

    def test_an_empty_split_has_a_summary(self) -> None:
        summary = summarize_split(
            EvalSlice("dev", {"text": [], "label": []}), tokenizer=list, context_window=3
        )
        assert (summary.n, summary.lengths.reason) == (0, "there are no texts")
        assert summary.over_context is not None
        assert summary.over_context.proportion is None
        json.dumps(summary.to_dict(), allow_nan=False)

    @pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
    def test_any_frame(self, frame: type) -> None:
        rows = {"text": ["a b", None, ""], "label": [0, 1, 1]}
        summary = summarize_split(EvalSlice("dev", frame(rows)))
        assert (summary.n, summary.n_missing, summary.n_empty) == (3, 1, 1)

    def test_the_tokenizer_is_called_once_per_text(self) -> None:
        asked: list[str] = []
        part = EvalSlice("dev", {"text": ["a", "b", None], "label": [0, 1, 1]})
        summarize_split(part, tokenizer=lambda text: asked.append(text) or [1], context_window=1)
        assert asked == ["a", "b"]

    def test_what_cannot_be_summarised_is_named(self) -> None:
        two = EvalSlice("dev", {"a": ["x"], "b": ["y"], "label": [1]}, feature_col=["a", "b"])
        with pytest.raises(InvalidTypeError, match="split 'dev' has several feature columns"):
            summarize_split(two)
        numbers = EvalSlice("dev", {"text": ["x", 5], "label": [0, 1]})
        with pytest.raises(InvalidTypeError, match=r"split 'dev': text\[1\] is 5"):
            summarize_split(numbers)
        with pytest.raises(InvalidTypeError, match="must be an EvalSlice"):
            summarize_split([1])  # type: ignore[arg-type]
        part = EvalSlice("dev", {"text": ["x"], "label": [0]})
        with pytest.raises(InvalidInputError, match="`context_window` is 0"):
            summarize_split(part, context_window=0)


def test_the_sms_collection(shared_data: Path) -> None:
    names = ["label", "text"]
    path = shared_data / "classification" / "sms_spam_collection.tsv"
    table = read_table(path, texts=names, file_format=FileFormat(header=names, quoting=False))
    texts = table["text"].tolist()
    part = EvalSlice("all", {"text": texts, "label": table["label"] == "spam"})
    summary = summarize_split(part)
    # The collection's own description: 5 574 messages, 747 of them spam, 4 827 ham.
    assert summary.balance == ClassBalance(5574, 4827, 747, wilson_interval(747, 5574), 4827 / 747)
    assert (summary.n_missing, summary.n_empty) == (0, 0)
    frame = pd.Series(texts).str.len()
    assert summary.lengths.char == Quantiles(
        float(frame.quantile(0.5)), float(frame.quantile(0.95)), int(frame.max())
    )

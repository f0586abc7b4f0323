"""Each built-in check: what it finds within and across splits, what it leaves, what it says."""

import gzip
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from tests.support.each import each

from eval_toolkit import leakage as lk
from eval_toolkit._internal.frames import from_columns
from eval_toolkit.errors import (
    ArtifactError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
)
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import (
    ExactNormalizedHashStrategy,
    JaccardNgramStrategy,
    MinHashLSHStrategy,
    spaces,
)


def part(texts: list[Any], labels: list[int] | None = None, **columns: Any) -> EvalSlice:
    labels = [0] * len(texts) if labels is None else labels
    return EvalSlice("part", {"text": texts, "label": labels, **columns})


def words(text: str) -> dict[str, list[str]]:
    return {"input_ids": text.lower().split()}


EMPTY = part([])
FORM_CHECKS = [
    lk.ExactDuplicateCheck,
    lk.NormalizedFormLeakageCheck,
    lk.ConfusableFormLeakageCheck,
    lambda *args, **options: lk.TokenizationLeakageCheck(words, *args, **options),
]
EVERY_CHECK = [
    lk.ExactDuplicateCheck(),
    lk.NearDuplicateCheck(),
    lk.NormalizedFormLeakageCheck(),
    lk.TokenizationLeakageCheck(words),
    lk.LabelConflictCheck(),
    lk.LabelConflictCheck(scope="across"),
    lk.CrossSplitLeakageCheck(),
    lk.GroupLeakageCheck("label", target_splits=["train"]),
    lk.TemporalLeakageCheck("label", ["train", "test"]),
    lk.ConfusableFormLeakageCheck(),
    lk.TargetLeakageCheck(),
    lk.NgramContaminationCheck(["one two three"], n=2),
]


@pytest.mark.parametrize("check", EVERY_CHECK, ids=lambda check: check.name)
class TestEveryCheck:
    def test_nothing_found_is_an_empty_dict_and_zero(self, check: Any) -> None:
        splits = {"train": part(["apple pie"]), "test": part(["blue sky"], [1])}
        found = check.validate(splits)
        assert (found.drop_indices, found.n_affected) == ({}, 0)
        assert found.code == lk.LEAKAGE_CODES[check.name]
        assert not lk.LeakageReport([found]).has_errors()

    def test_empty_splits(self, check: Any) -> None:
        assert check.validate({"train": EMPTY, "test": EMPTY}).n_affected == 0

    def test_says_its_version(self, check: Any) -> None:
        assert check.version == "1"


@pytest.mark.parametrize("make", FORM_CHECKS)
class TestCopies:
    # rows        0    1    2     0    1    2
    train = part(["a", "b", "A"])
    test = part(["b", "c", "C "])
    splits: ClassVar = {"test": test, "train": train}  # the training split need not come first

    def test_both(self, make: Any) -> None:
        found = make().validate(self.splits)
        assert found.drop_indices == {"train": [2], "test": [0, 2]}
        assert found.n_affected == 3
        assert found.evidence["within"] == {"train": 1, "test": 1}
        assert found.evidence["across"] == {"test": 1}
        assert found.evidence["across_splits"] == [
            {"split": "test", "row": 0, "copy_of": {"split": "train", "row": 1}}
        ]
        assert found.message == "3 copies (1 within train, 1 within test, 1 in test from train)"

    def test_within(self, make: Any) -> None:
        found = make(scope="within").validate(self.splits)
        assert found.drop_indices == {"train": [2], "test": [2]}

    def test_across(self, make: Any) -> None:
        found = make(scope="across").validate(self.splits)
        assert found.drop_indices == {"test": [0]}

    def test_first_split_stays_without_a_training_split(self, make: Any) -> None:
        splits = {"dev": part(["x"]), "test": part(["X"])}
        assert make().validate(splits).drop_indices == {"test": [0]}
        assert make(train_split="test").validate(splits).drop_indices == {"dev": [0]}

    def test_target_splits(self, make: Any) -> None:
        assert make(target_splits=["test"]).validate(self.splits).drop_indices == {"test": [2]}
        with pytest.raises(InvalidTypeError, match="`target_splits` is the string 'test'"):
            make(target_splits="test")
        with pytest.raises(InvalidInputError, match="` contains duplicate names"):
            make(target_splits=["test", "test"])

    def test_unknown_settings(self, make: Any) -> None:
        with pytest.raises(InvalidInputError, match="`scope` is 'all'; choose one of 'both'"):
            make(scope="all")
        with pytest.raises(InvalidInputError, match="`severity_across` is 'no'"):
            make(severity_across="no")

    def test_a_cluster_larger_than_any_neighbourhood(self, make: Any) -> None:
        found = make().validate({"all": part(["same"] * 150)})
        assert found.drop_indices == {"all": list(range(1, 150))}

    def test_severity(self, make: Any) -> None:
        check = make(severity="info", severity_across="warning")
        assert check.validate({"a": part(["x", "x"])}).severity == "info"
        assert check.validate({"a": part(["x"]), "b": part(["x"])}).severity == "warning"
        assert make().validate({"a": part(["x"]), "b": part(["x"])}).severity == "error"


class TestExactDuplicates:
    def test_is_a_warning_within_a_split(self) -> None:
        found = lk.ExactDuplicateCheck().validate({"a": part(["x", "y", "X"])})
        assert found.severity == "warning"
        assert found.evidence["dropped_pairs_by_split"] == {"a": [[2, 0]]}

    def test_without_normalisation(self) -> None:
        splits = {"a": part(["x", "X", " x", "x"])}
        assert lk.ExactDuplicateCheck().validate(splits).n_affected == 3
        assert lk.ExactDuplicateCheck(normalize=False).validate(splits).drop_indices == {"a": [3]}

    def test_evidence_is_capped_and_counts_are_not(self) -> None:
        found = lk.ExactDuplicateCheck().validate({"a": part(["x"] * 500), "b": part(["x"] * 300)})
        evidence = found.evidence
        assert evidence["within"] == {"a": 499, "b": 299}
        assert evidence["across"] == {"b": 300}
        assert len(evidence["dropped_pairs_by_split"]["a"]) == evidence["listed_at_most"] == 100
        assert len(evidence["across_splits"]) == 100
        assert found.n_affected == 499 + 300

    @each(
        ("values", "copies"),
        [
            ([1.0, 2.0, 1.0], [2]),
            ([1, 2, 1.0], [2]),
            ([[1, 2], [2, 1], [1, 2]], [2]),
            ([np.array([1, 2]), (1, 2), np.array([1, 3])], [1]),
            ([{"a": [1]}, {"a": [1]}, {"a": [2]}], [1]),
            ([{1, 2}, {2, 1}], [1]),
            (["1", 1, "1"], [2]),
            ([None, "", None], [2]),
            ([float("nan"), None, 0.0], [1]),
            ([[None, "A"], [float("nan"), "a "]], [1]),
        ],
    )
    def test_features_that_are_not_text(self, values: list[Any], copies: list[int]) -> None:
        frame = pd.DataFrame({"text": pd.Series(values, dtype=object), "label": [0] * len(values)})
        found = lk.ExactDuplicateCheck().validate({"a": EvalSlice("a", frame)})
        assert found.drop_indices == {"a": copies}

    @pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", "columns"])
    def test_several_feature_columns(self, backend: str) -> None:
        frame = from_columns(
            {"x": [1, 1, 2], "name": ["Al", "al ", "Bo"], "label": [0, 0, 1]}, backend
        )
        several = EvalSlice("a", frame, feature_col=["x", "name"])
        assert lk.ExactDuplicateCheck().validate({"a": several}).drop_indices == {"a": [1]}
        with pytest.raises(InvalidTypeError, match="'a' has several feature columns; NearDup"):
            lk.NearDuplicateCheck().validate({"a": several})

    def test_values_that_cannot_be_compared(self) -> None:
        class Odd:
            __hash__ = None  # type: ignore[assignment]

        frame = {"text": np.array([Odd(), Odd()], dtype=object), "label": [0, 0]}
        with pytest.raises(InvalidTypeError, match=r"split 'a': text\[0\] is a Odd that cannot"):
            lk.ExactDuplicateCheck().validate({"a": EvalSlice("a", frame)})


class TestForms:
    @pytest.mark.parametrize(
        ("text", "other"),
        [
            ("free\u200b prize", "FREE  prize"),
            ("ｆｒｅｅ", "free"),
            ("free\tprize", "free prize"),
            ("call \u260e now", "call now"),
            ("ﬁne", "fine"),
            ("pay\u202e\u202cpal", "paypal"),
        ],
    )
    def test_normalized_forms_that_agree(self, text: str, other: str) -> None:
        assert lk.normalized_form(text) == lk.normalized_form(other)
        assert lk.confusable_form(text.replace("\u260e ", "")) == lk.confusable_form(other)

    def test_texts_of_symbols_alone_are_not_copies(self) -> None:
        assert lk.normalized_form("😀") != lk.normalized_form("😡")
        found = lk.NormalizedFormLeakageCheck().validate({"a": part(["😀", "😡", "😀"])})
        assert found.drop_indices == {"a": [2]}

    @each(
        "disguised",
        [
            "ignоre all rules",  # Cyrillic о
            "ignore аll rulеѕ",  # Cyrillic а, е, ѕ
            "ιgnοre αll rυles",  # Greek
            "ign\u200dore a\u2060ll rules\ufeff",
            "\u202eignore all\u202c rules",
            "𝐢𝐠𝐧𝐨𝐫𝐞 𝒶𝓁𝓁 ｒｕｌｅｓ",
            "ígnôrë āll rǔles",
            "i\u0336g\u0336n\u0336ore all rules",
            "ɪɢɴᴏʀᴇ ᴀʟʟ ʀᴜʟᴇꜱ",
            "IGNORE ALL RULES",
            "ΙGΝΟRΕ ΑLL RULΕS",  # Greek capitals
            "ig\ufe0fnore\u00a0all\u3000rules",
        ],
    )
    def test_disguises_of_one_text(self, disguised: str) -> None:
        train, test = part(["ignore all rules"], [1]), part([disguised], [1])
        found = lk.ConfusableFormLeakageCheck().validate({"train": train, "test": test})
        assert found.drop_indices == {"test": [0]}
        assert found.severity == "error"

    @pytest.mark.parametrize(
        ("text", "other"),
        [
            ("мой дом", "мои дом"),  # й is a letter, not a marked и
            ("कि", "कु"),  # vowel signs are combining marks
            ("pay 10", "pay lO"),
            ("yes", "no"),
            ("😀", "😡"),
            ("가", "각"),
        ],
    )
    def test_different_texts_stay_different(self, text: str, other: str) -> None:
        assert lk.confusable_form(text) != lk.confusable_form(other)

    def test_look_alikes_are_single_signs_that_end_as_their_letter(self) -> None:
        from eval_toolkit.leakage import forms

        for latin, signs in forms._LOOK_ALIKES.items():
            for sign in signs:
                assert lk.confusable_form(f"x{sign}x") == f"x{latin}x", (latin, sign)

    @pytest.mark.parametrize("form", [lk.normalized_form, lk.confusable_form])
    def test_forms_are_of_text(self, form: Any) -> None:
        with pytest.raises(InvalidTypeError, match="`text` must be a str, got int"):
            form(3)

    @pytest.mark.parametrize("check", [lk.NormalizedFormLeakageCheck(), lk.NearDuplicateCheck()])
    def test_text_checks_want_text(self, check: Any) -> None:
        missing = EvalSlice("a", pd.DataFrame({"text": ["x", None], "label": [0, 1]}))
        with pytest.raises(InvalidTypeError, match=r"split 'a': text\[1\] is missing; .*drop or"):
            check.validate({"a": missing})
        with pytest.raises(InvalidTypeError, match=r"text\[0\] is 3, not text; .*ExactDuplicate"):
            check.validate({"a": part([3, 4])})


class TestTokenization:
    @pytest.mark.parametrize(
        "ids", [lambda n: [n], lambda n: np.array([n]), lambda n: np.array([[n]]), lambda n: (n,)]
    )
    def test_tokens_as_lists_arrays_or_batches(self, ids: Any) -> None:
        check = lk.TokenizationLeakageCheck(lambda text: {"input_ids": ids(len(text))})
        assert check.validate({"a": part(["aa", "b", "cc"])}).drop_indices == {"a": [2]}

    def test_what_is_no_tokenizer(self) -> None:
        with pytest.raises(InvalidTypeError, match="`tokenizer` is a str; it must be callable"):
            lk.TokenizationLeakageCheck("bert")  # type: ignore[arg-type]
        for tokenizer in (str.split, lambda text: {"ids": []}, lambda text: {"input_ids": None}):
            with pytest.raises(
                InvalidTypeError, match="split 'a', row 0: the tokenizer returned a"
            ):
                lk.TokenizationLeakageCheck(tokenizer).validate({"a": part(["x"])})


class TestLabelConflicts:
    splits: ClassVar = {
        "train": part(["x", "X ", "y", "z"], [0, 1, 0, 1]),
        "test": part(["y", "w", "z", "x"], [1, 0, 1, 0]),
    }

    def test_every_row_of_a_conflict_goes(self) -> None:
        found = lk.LabelConflictCheck().validate(self.splits)
        assert found.drop_indices == {"train": [0, 1, 2], "test": [0, 3]}
        assert found.message == "2 texts with both labels (5 rows)"
        assert found.evidence["conflicts"][1] == {
            "rows": [{"split": "train", "row": 2}, {"split": "test", "row": 0}],
            "labels": [0, 1],
        }

    def test_within(self) -> None:
        found = lk.LabelConflictCheck(scope="within").validate(self.splits)
        assert found.drop_indices == {"train": [0, 1]}

    def test_across(self) -> None:
        found = lk.LabelConflictCheck(scope="across").validate(self.splits)
        assert found.drop_indices == {"train": [0, 1, 2], "test": [0, 3]}
        alone = {"train": self.splits["train"]}
        assert lk.LabelConflictCheck(scope="across").validate(alone).n_affected == 0

    def test_listed_conflicts_are_capped(self) -> None:
        texts = [f"t{i // 2}" for i in range(400)]
        found = lk.LabelConflictCheck().validate({"a": part(texts, [0, 1] * 200)})
        assert found.evidence["n_conflicts"] == 200
        assert len(found.evidence["conflicts"]) == 100


LONG = "win a free prize today call this number now and claim it before midnight"


class TestNearDuplicates:
    train = part([LONG, "see you at noon", LONG + "!", "see you at noon."], [1, 0, 1, 1])
    test = part(["blue sky", LONG + " ok", "blue sky"], [0, 1, 0])
    splits: ClassVar = {"train": train, "test": test}

    def test_within_and_across(self) -> None:
        found = lk.NearDuplicateCheck().validate(self.splits)
        assert found.drop_indices == {"train": [2, 3], "test": [1, 2]}
        assert found.severity == "error"
        assert found.evidence["within"] == {"train": 2, "test": 1}
        assert found.evidence["across"] == {"test": 1}
        assert found.evidence["strategy"] == "TfidfCosineStrategy"
        assert (found.evidence["n_clusters"], found.evidence["largest_cluster"]) == (3, 3)

    def test_scopes(self) -> None:
        within = lk.NearDuplicateCheck(scope="within").validate(self.splits)
        assert within.drop_indices == {"train": [2, 3], "test": [2]}
        assert within.severity == "warning"
        across = lk.NearDuplicateCheck(scope="across").validate(self.splits)
        assert across.drop_indices == {"test": [1]}

    def test_across_sees_rows_that_are_themselves_to_be_dropped(self) -> None:
        # The test row resembles only the second training row, which resembles the first.
        texts = ["abcdefgh", "abcdefghij", "cdefghij"]
        check = lk.NearDuplicateCheck(0.6, JaccardNgramStrategy(n=2))
        splits = {"train": part(texts[:2]), "test": part(texts[2:])}
        assert check.validate(splits).drop_indices == {"train": [1], "test": [0]}

    def test_labels_decide_the_severity(self) -> None:
        check = lk.NearDuplicateCheck(label_aware=True, severity_cross_label="error")
        same = {"a": part(["x y z", "x y z"], [1, 1])}
        cross = {"a": part(["x y z", "x y z"], [1, 0])}
        assert check.validate(same).severity == "warning"
        assert check.validate(cross).severity == "error"
        assert lk.NearDuplicateCheck().validate(cross).severity == "warning"
        gentle = lk.NearDuplicateCheck(label_aware=True, severity_same_label="info")
        assert gentle.validate(same).severity == "info"

    def test_split_by_label(self) -> None:
        same, cross = lk.NearDuplicateCheck().validate_label_split(self.splits)
        assert same.check_name == "NearDuplicateCheck.same_label"
        assert cross.check_name == "NearDuplicateCheck.cross_label"
        assert same.drop_indices == {"train": [2], "test": [1, 2]}
        assert cross.drop_indices == {"train": [3]}
        assert (same.severity, cross.severity) == ("warning", "error")
        assert same.evidence["label_polarity"] == "same_label"
        assert same.code == cross.code == "LK002"
        both = lk.NearDuplicateCheck(label_aware=True).validate(self.splits)
        assert both.n_affected == same.n_affected + cross.n_affected
        assert both.evidence["n_same_label"] == same.n_affected

    def test_the_default_is_the_same_for_any_number_of_rows(self) -> None:
        many = part([f"{i} {i * i} {i**3} words" for i in range(21_000)])
        found = lk.NearDuplicateCheck().validate({"train": many})
        assert found.evidence["strategy"] == "TfidfCosineStrategy"
        assert found.evidence["measure"] == "cosine similarity of TF-IDF weights"
        assert found.evidence["strategy_reason"] == "default"

    def test_too_many_similar_texts_for_tfidf_are_refused_not_measured_otherwise(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spaces, "MOST_PRODUCTS", 50_000)
        words = " ".join(f"w{i}" for i in range(60))
        one = {"train": part([f"{words} {i}" for i in range(200)] + list(map(str, range(500))))}
        told = r"pass strategy=MinHashLSHStrategy\(n=5\) with a threshold near 0.7"
        with pytest.raises(InvalidInputError, match=told):
            lk.NearDuplicateCheck(0.5).validate(one)
        found = lk.NearDuplicateCheck(0.7, MinHashLSHStrategy(n=5)).validate(one)
        assert found.n_affected == 199

    @pytest.mark.parametrize("of_other_label", [0, 700])
    def test_the_row_of_another_label_is_found_among_many(self, of_other_label: int) -> None:
        texts = [f"your parcel is waiting at the central depot, code {i:04d}" for i in range(701)]
        labels = [int(i == of_other_label) for i in range(700)] + [0]
        splits = {"train": part(texts[:700], labels[:700]), "test": part(texts[700:], [0])}
        check = lk.CrossSplitLeakageCheck(
            threshold=0.7, strategy=MinHashLSHStrategy(n=5), label_aware=True
        )
        found = check.validate(splits)
        assert found.drop_indices == {"test": [0]}
        assert found.evidence["n_cross_label"] == (of_other_label == 0)

    def test_given_strategy(self) -> None:
        check = lk.NearDuplicateCheck(strategy=MinHashLSHStrategy(), threshold=0.5)
        found = check.validate(self.splits)
        assert found.evidence["strategy_reason"] == "given"
        assert found.evidence["threshold"] == 0.5

    def test_settings(self) -> None:
        with pytest.raises(InvalidInputError, match=r"`threshold` is 1.0; it must lie in \(0, 1\)"):
            lk.NearDuplicateCheck(1.0)
        assert lk.NearDuplicateCheck(1.0, ExactNormalizedHashStrategy()).threshold == 1.0
        with pytest.raises(InvalidTypeError, match="`strategy` is a str; it needs the methods"):
            lk.NearDuplicateCheck(strategy="tfidf")  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="`severity_same_label` is 'x'"):
            lk.NearDuplicateCheck(severity_same_label="x")  # type: ignore[arg-type]


class TestCrossSplit:
    splits: ClassVar = {
        "train": part([LONG, LONG, "see you at noon"], [1, 1, 0]),
        "val": part(["blue sky", LONG + "!"], [0, 0]),
        "test": part(["See you at noon", "blue sky"], [0, 0]),
    }

    def test_evaluation_rows_like_training_rows(self) -> None:
        found = lk.CrossSplitLeakageCheck().validate(self.splits)
        assert found.drop_indices == {"val": [1], "test": [0]}
        assert found.severity == "error"
        assert found.evidence["eval_splits"] == ["val", "test"]
        assert found.evidence["train_split"] == "train"

    def test_named_splits(self) -> None:
        found = lk.CrossSplitLeakageCheck("train", ["test"]).validate(self.splits)
        assert found.drop_indices == {"test": [0]}
        with pytest.raises(KeyError, match="there is no split 'fit'; the splits are 'train'"):
            lk.CrossSplitLeakageCheck("fit").validate(self.splits)
        with pytest.raises(InvalidInputError, match="cannot be compared with itself"):
            lk.CrossSplitLeakageCheck(eval_splits=["train"])

    def test_no_copy_is_missed_among_very_many(self) -> None:
        splits = {"train": part([LONG] * 1200), "test": part([LONG + "!"] * 1100 + ["blue sky"])}
        found = lk.CrossSplitLeakageCheck().validate(splits)
        assert found.drop_indices == {"test": list(range(1100))}
        assert found.evidence["across_splits"][0]["copy_of"] == {"split": "train", "row": 0}

    def test_a_row_of_another_label_is_named_before_a_nearer_one(self) -> None:
        splits = {"train": part([LONG, LONG + " ok"], [1, 0]), "test": part([LONG], [1])}
        (pair,) = (
            lk.CrossSplitLeakageCheck(threshold=0.8).validate(splits).evidence["across_splits"]
        )
        assert pair["copy_of"] == {"split": "train", "row": 1}

    def test_by_label(self) -> None:
        same, cross = lk.CrossSplitLeakageCheck().validate_label_split(self.splits)
        assert (same.drop_indices, cross.drop_indices) == ({"test": [0]}, {"val": [1]})
        assert cross.check_name == "CrossSplitLeakageCheck.cross_label"
        assert cross.evidence["train_split"] == "train"
        only_same = {**self.splits, "val": EMPTY}
        aware = lk.CrossSplitLeakageCheck(label_aware=True)
        assert aware.validate(self.splits).severity == "error"
        assert aware.validate(only_same).severity == "warning"


class TestGroups:
    splits: ClassVar = {
        "test": part(["a", "b", "c"], user=["u", "v", None]),
        "train": part(["d", "e", "f"], user=["v", "w", None]),
    }

    def test_all_rows_of_a_straddling_group(self) -> None:
        found = lk.GroupLeakageCheck("user").validate(self.splits)
        assert found.drop_indices == {"train": [0], "test": [1]}
        assert found.evidence["violating_groups"] == ["v"]
        assert found.evidence["n_without_group"] == 2
        assert found.message.endswith("skipped 2 rows without user")

    def test_the_first_split_may_keep_them(self) -> None:
        check = lk.GroupLeakageCheck("user", keep="first")
        assert check.validate(self.splits).drop_indices == {"test": [1]}

    def test_numbers_of_different_types_are_one_group(self) -> None:
        splits = {"a": part(["x", "y"], user=[1, 2]), "b": part(["z"], user=[2.0])}
        assert lk.GroupLeakageCheck("user").validate(splits).n_affected == 2

    @pytest.mark.parametrize("other", [["2", "9"], [2.0, None], np.array([2, 9], np.uint8)])
    def test_ids_that_differ_in_type_only_are_one_group(self, other: Any) -> None:
        splits = {"a": part(["x", "y"], user=[1, 2]), "b": part(["z", "w"], user=other)}
        found = lk.GroupLeakageCheck("user").validate(splits)
        assert found.drop_indices == {"a": [1], "b": [0]}
        assert found.evidence["violating_groups"] == ["2"]

    def test_messages(self) -> None:
        with pytest.raises(MissingColumnError, match="GroupLeakageCheck: split 'train': there is"):
            lk.GroupLeakageCheck("session").validate(self.splits)
        lists = {"a": part(["x"], user=np.array([[1]], dtype=object).reshape(1, 1).tolist())}
        with pytest.raises(InvalidTypeError, match=r"user\[0\] is \[1\]; group ids must be"):
            lk.GroupLeakageCheck("user").validate(
                {"a": EvalSlice("a", pd.DataFrame(lists["a"].df | {"user": [[1]]}))}
            )
        with pytest.raises(InvalidInputError, match="`keep` is 'last'"):
            lk.GroupLeakageCheck("user", keep="last")  # type: ignore[arg-type]


def timed(earlier: Any, later: Any, backend: str = "columns") -> lk.LeakageFinding:
    splits: ClassVar = {
        name: EvalSlice(
            name,
            from_columns({"text": ["x"] * len(t), "label": [0] * len(t), "t": t}, backend),
        )
        for name, t in {"test": later, "train": earlier}.items()
    }
    return lk.TemporalLeakageCheck("t", ["train", "test"]).validate(splits)


class TestTimes:
    def test_rows_not_after_the_end_of_the_earlier_split(self) -> None:
        found = timed([1, 5], [4, 5, 6])
        assert found.drop_indices == {"test": [0, 1]}
        assert found.evidence["violations"] == [
            {"split": "test", "max_earlier": "5", "min_later": "4", "n_rows": 2}
        ]

    def test_a_tie_at_the_border_alone_is_no_violation(self) -> None:
        assert timed([1, 5], [5, 6]).n_affected == 0

    def test_a_tie_at_the_border_is_told(self) -> None:
        found = timed([1, 5], [5, 6, 5])
        assert found.evidence["ties"] == [{"split": "test", "time": "5", "n_rows": 2}]
        assert found.message == (
            "no t before the end of an earlier split; "
            "2 rows of test at 5, the latest t of an earlier split"
        )
        assert timed([1, 5], [4, 5]).evidence["ties"] == []  # among the rows to drop already
        assert timed([1, 5], [6]).evidence["ties"] == []

    @pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
    def test_timestamps_of_every_frame(self, backend: str) -> None:
        for zone in (None, UTC):
            days = [datetime(2024, 1, day, tzinfo=zone) for day in (1, 5, 3, 9)]
            assert timed(days[:2], days[2:], backend).drop_indices == {"test": [0]}

    @each(
        ("earlier", "later"),
        [
            (["2024-01-01", "2024-01-05"], ["2024-01-03T10:00", "2024-01-09"]),
            ([date(2024, 1, 5)], [datetime(2024, 1, 3), "2024-01-09"]),
            (["2024-01-05T00:00+00:00"], ["2024-01-05T01:00+02:00", "2024-01-05T01:00Z"]),
            ([5.5, None], [3, 7.5]),
            ([Decimal("5.5")], [3, Decimal(7)]),
            ([np.datetime64("2024-01-05")], ["2024-01-03", np.datetime64("2025")]),
            ([2**60 + 1, None], [2**60, 2**60 + 2]),
            (np.array(["2024-01-05"], "datetime64[D]"), np.array(["2024-01-03", "2025"], "M8[ns]")),
        ],
    )
    def test_kinds_of_times(self, earlier: Any, later: Any) -> None:
        assert timed(earlier, later).drop_indices == {"test": [0]}

    def test_rows_without_a_time_are_counted(self) -> None:
        found = timed([1.0, None], [None, 2.0])
        assert found.n_affected == 0
        assert found.message == "no t before the end of an earlier split; skipped 2 rows without t"

    def test_an_empty_split_in_between_hides_nothing(self) -> None:
        splits = {
            "train": part(["x"], t=[9]),
            "val": part([], t=[]),
            "test": part(["y", "z"], t=[5, 10]),
        }
        check = lk.TemporalLeakageCheck("t", ["train", "val", "test"])
        assert check.validate(splits).drop_indices == {"test": [0]}

    def test_messages(self) -> None:
        with pytest.raises(
            InvalidInputError,
            match=r"TemporalLeakageCheck: split 'train': t\[1\] is 'May 5'; times must be numbers",
        ):
            timed(["2024-01-01", "May 5"], ["2024-01-02"])
        with pytest.raises(InvalidInputError, match="is a date in split 'train' but a number in"):
            timed(["2024-01-01"], [3])
        with pytest.raises(InvalidInputError, match="a date with a time zone, but t"):
            timed(["2024-01-01", "2024-01-01T00:00Z"], ["2024-01-02"])
        with pytest.raises(InvalidInputError, match=r"t\[0\] is True"):
            timed([True], [False])
        with pytest.raises(InvalidInputError, match=r"t\[1\] is inf; a time must be finite"):
            timed([1.0, math.inf], [2.0])
        with pytest.raises(InvalidInputError, match="it must name at least two splits"):
            lk.TemporalLeakageCheck("t", ["train"])
        with pytest.raises(MissingColumnError, match="no split 'later'"):
            lk.TemporalLeakageCheck("t", ["train", "later"]).validate({"train": part(["x"], t=[1])})
        with pytest.raises(MissingColumnError, match="no column 't'"):
            lk.TemporalLeakageCheck("t", ["a", "b"]).validate({"a": part(["x"]), "b": part(["y"])})


def labelled(n: int, **columns: Any) -> dict[str, EvalSlice]:
    y = [0, 1] * (n // 2)
    return {"train": EvalSlice("train", {"text": ["t"] * n, "label": y, **columns})}


class TestTarget:
    y = np.array([0, 1] * 100)
    rng = np.random.default_rng(7)

    def test_groups_are_tried_only_where_a_scorer_sees_them(self) -> None:
        columns = {"text": ["t"] * 200, "label": self.y, "author": np.array(["ann", "bob"])[self.y]}
        grouped = EvalSlice("train", columns, group_col="author")
        assert lk.TargetLeakageCheck().validate({"train": grouped}).n_affected == 0
        assert lk.TargetLeakageCheck(["author"]).validate({"train": grouped}).n_affected == 1
        feature = EvalSlice("train", columns, feature_col=["text", "author"], group_col="author")
        assert lk.TargetLeakageCheck().validate({"train": feature}).n_affected == 1

    @pytest.mark.parametrize(
        ("column", "measure"),
        [
            (y * 1.0, "auc"),
            (-y * 3 + 100, "auc"),
            (np.where(y == 1, np.inf, -np.inf), "auc"),
            (np.where(y == 1, "refund", "none").astype(object), "purity"),
            (np.where(y == 1, None, "x"), "missing"),
            (np.array(["2020", "2021"], "datetime64[D]")[y], "auc"),
            (np.array([3, 5, 9, 4])[2 * (np.arange(200) // 2 % 2) + y], "purity"),
        ],
    )
    def test_columns_that_give_the_label_away(self, column: Any, measure: str) -> None:
        found = lk.TargetLeakageCheck().validate(labelled(200, leak=column))
        assert list(found.evidence["columns"]) == ["leak"]
        leak = found.evidence["columns"]["leak"]
        assert (leak["measure"], leak["estimate"]) == (measure, 1.0)
        # 100 of 100 right: Clopper-Pearson's lower bound is 0.025 ** (1 / 100).
        assert leak["low"] == pytest.approx(0.025 ** (1 / 100))
        assert found.drop_indices is None
        assert found.n_affected == 1

    @pytest.mark.parametrize(
        "column",
        [
            rng.normal(size=200),
            [f"id{i}" for i in range(200)],
            [7] * 200,
            ["a", "b", "c", "d"] * 25 + ["d", "c", "b", "a"] * 25,
            [[1]] * 200,
            [None] * 200,
        ],
        ids=["noise", "unique", "constant", "category", "lists", "missing"],
    )
    def test_columns_that_do_not(self, column: Any) -> None:
        frame = pd.DataFrame({"text": ["t"] * 200, "label": self.y, "c": pd.Series(column)})
        found = lk.TargetLeakageCheck(["c"]).validate({"train": EvalSlice("train", frame)})
        assert (found.n_affected, found.drop_indices) == (0, {})
        assert found.evidence["suspects"] == {}

    def test_small_data_only_raise_suspicion(self) -> None:
        found = lk.TargetLeakageCheck().validate(labelled(40, leak=self.y[:40]))
        assert found.n_affected == 0
        assert list(found.evidence["suspects"]) == ["leak"]
        assert lk.TargetLeakageCheck(bound=0.8).validate(labelled(40, leak=self.y[:40])).n_affected

    def test_imbalance_does_not_look_like_purity(self) -> None:
        y = [0] * 990 + [1] * 10
        data = {"text": ["t"] * 1000, "label": y, "c": ["a", "b"] * 500}
        found = lk.TargetLeakageCheck().validate({"a": EvalSlice("a", data)})
        assert found.n_affected == 0

    def test_row_ids_are_left_out_unless_asked_for(self) -> None:
        data = {"text": ["t"] * 200, "label": sorted(self.y), "id": list(range(200))}
        splits = {"a": EvalSlice("a", data, id_col="id")}
        assert lk.TargetLeakageCheck().validate(splits).n_affected == 0
        assert lk.TargetLeakageCheck(["id"]).validate(splits).n_affected == 1

    def test_splits_are_taken_together(self) -> None:
        whole = labelled(200, leak=self.y)["train"]
        splits = {"train": whole.take(range(100)), "test": whole.take(range(100, 200))}
        assert lk.TargetLeakageCheck().validate(splits).n_affected == 1
        assert lk.TargetLeakageCheck(target_splits=["test"]).validate(splits).n_affected == 0

    def test_messages(self) -> None:
        assert lk.TargetLeakageCheck().validate({"a": part(["x", "y"])}).message == (
            "not checked: one class only"
        )
        with pytest.raises(MissingColumnError, match="split 'a': there is no column 'zz'"):
            lk.TargetLeakageCheck(["zz"]).validate({"a": part(["x", "y"], [0, 1])})
        with pytest.raises(
            InvalidInputError, match="`columns` contains 'label', the label column of split"
        ):
            lk.TargetLeakageCheck(["label"]).validate({"a": part(["x", "y"], [0, 1])})
        with pytest.raises(InvalidInputError, match="`bound` is 1"):
            lk.TargetLeakageCheck(bound=1)


CORPUS = "It was the best of times, it was the worst of times, it was the age of wisdom"


class TestContamination:
    test = part(
        [
            "IT WAS the best of times; it was the worst",
            "the best of times were had by all of us here",
            "something else entirely that nobody wrote",
            "too short",
        ]
    )

    def check(self, reference: Any, **options: Any) -> lk.LeakageFinding:
        return lk.NgramContaminationCheck(reference, n=4, **options).validate({"test": self.test})

    def test_shares(self) -> None:
        found = self.check([CORPUS])
        assert found.drop_indices == {"test": [0]}
        # Row 0: 10 words, 7 of 7 4-grams. Row 1: 11 words, "the best of times" of 8.
        assert found.evidence["rows"] == [{"split": "test", "row": 0, "share": 1.0, "n_grams": 7}]
        assert found.evidence["n_rows_with_any"] == 2
        assert found.evidence["n_too_short"] == 1
        assert found.evidence["n_distinct_ngrams"] == 7 + 8 + 3 - 1
        assert found.evidence["n_distinct_ngrams_found"] == 7
        assert self.check([CORPUS], threshold=1 / 8).drop_indices == {"test": [0, 1]}

    def test_ngrams_do_not_run_over_texts(self) -> None:
        halves = CORPUS.split(",")
        assert self.check(halves).evidence["rows"][0]["share"] < 1.0

    def test_an_iterator_is_read_once_and_seen_again(self) -> None:
        check = lk.NgramContaminationCheck((text for text in [CORPUS]), n=4)
        assert check.validate({"test": self.test}).n_affected == 1
        assert check.validate({"test": self.test}).n_affected == 1

    def test_a_function_gives_a_fresh_iterator(self) -> None:
        assert self.check(lambda: iter([CORPUS])).drop_indices == {"test": [0]}

    def test_files(self, tmp_path: Path) -> None:
        plain = tmp_path / "corpus.txt"
        plain.write_text(CORPUS.replace(", ", ",\n"), encoding="utf-8")
        with gzip.open(tmp_path / "packed.txt.gz", "wt", encoding="utf-8") as packed:
            packed.write(CORPUS)
        table = tmp_path / "corpus.csv"
        table.write_text(f'body\n"{CORPUS}"\n', encoding="utf-8")
        assert self.check(str(plain)).n_affected == 1
        assert self.check(tmp_path / "packed.txt.gz").n_affected == 1
        assert self.check([plain, tmp_path / "packed.txt.gz"]).evidence["n_reference_texts"] == 2
        assert self.check(str(tmp_path / "*.txt")).n_affected == 1
        assert self.check(table, reference_col="body").n_affected == 1

    def test_characters(self) -> None:
        check = lk.NgramContaminationCheck(["今日は天気がいいです"], n=4, analyzer="char")
        found = check.validate({"test": part(["天気がいい", "昨日は雨でした"])})
        assert found.drop_indices == {"test": [0]}

    def test_messages(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match=r"contains no 4-gram \(1 text\)"):
            self.check(["one two"])
        with pytest.raises(
            InvalidTypeError, match=r"reference\[1\] is 5; the reference must contain"
        ):
            self.check([CORPUS, 5])
        with pytest.raises(InvalidTypeError, match="`reference` is a int; pass texts, paths"):
            self.check(5)
        with pytest.raises(ArtifactError, match="no such file"):
            self.check(tmp_path / "none.txt")
        (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff")
        with pytest.raises(ArtifactError, match=r"bad.txt: byte .* is not UTF-8"):
            self.check(tmp_path / "bad.txt")
        with pytest.raises(InvalidInputError, match="`n` is 0; it must be at least 1"):
            lk.NgramContaminationCheck([CORPUS], n=0)
        with pytest.raises(InvalidInputError, match=r"`threshold` is 0; it must lie in \(0, 1\]"):
            self.check([CORPUS], threshold=0)
        with pytest.raises(InvalidInputError, match="`analyzer` is 'byte'"):
            self.check([CORPUS], analyzer="byte")

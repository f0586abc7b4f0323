"""The audit of a dataset: gates at their edges, leakage with row numbers as loaded, real data."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit._internal.tables import FileFormat, read_table
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.inference import wilson_interval
from eval_toolkit.leakage import (
    CrossSplitLeakageCheck,
    ExactDuplicateCheck,
    NearDuplicateCheck,
    run_leakage_checks,
)
from eval_toolkit.leakage.eda.audit import AuditGate, DataAudit, audit_dataset
from eval_toolkit.leakage.eda.summaries import summarize_split
from eval_toolkit.loaders import DataFrameLoader, SingleSliceLoader
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import normalize_text_for_dedup

PLAIN = ["the cat sat on a mat", "dogs bark at night", "rain fell over the hills", "tea for two"]


class Splits:
    """A loader of splits as they are given."""

    def __init__(self, splits: Any, name: object = "demo") -> None:
        self.splits, self.name = splits, name

    def load_splits(self) -> dict[str, Any]:
        return self.splits  # type: ignore[no-any-return]

    def describe(self) -> dict[str, object]:
        return {} if self.name is None else {"name": self.name}


def part(name: str, texts: list[Any], labels: list[int] | None = None) -> EvalSlice:
    given_labels = [row % 2 for row in range(len(texts))] if labels is None else labels
    return EvalSlice(name, {"text": texts, "label": given_labels})


def audited(splits: Mapping[str, list[Any]], **options: Any) -> DataAudit:
    return audit_dataset(
        Splits({name: part(name, texts) for name, texts in splits.items()}), **options
    )


class TestAudit:
    def test_what_it_holds(self) -> None:
        splits = {"train": part("train", PLAIN[:2]), "test": part("test", PLAIN[2:])}
        audit = audit_dataset(Splits(splits))
        assert (audit.schema_version, audit.dataset_name) == ("v2", "demo")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", audit.run_timestamp)
        assert audit.split_summaries == {
            name: summarize_split(split) for name, split in splits.items()
        }
        assert list(audit.gates) == [
            "class_balance",
            "no_cross_split_leakage",
            "context_window_fit",
        ]
        assert audit.gate_passed
        assert audit.gate_summary == "2 of 3 gates passed; skipped: context_window_fit"

    def test_reports_are_those_of_the_checks(self) -> None:
        texts = ["win a free prize today call now", "win a free prize today call now!", "Tea for 2"]
        splits = {"train": part("train", [*PLAIN, *texts]), "test": part("test", [*texts, "new"])}
        audit = audit_dataset(Splits(splits), obfuscation=False)
        within = run_leakage_checks(
            [ExactDuplicateCheck(scope="within"), NearDuplicateCheck(scope="within")], splits
        )
        across = run_leakage_checks([CrossSplitLeakageCheck()], splits)
        assert audit.leakage_reports == {"within_split": within, "cross_split": across}
        assert across.merged_drop_indices() == {"test": [0, 1, 2]}

    def test_thresholds_reach_the_checks(self) -> None:
        audit = audited(
            {"train": PLAIN, "test": PLAIN}, near_threshold=0.7, cross_split_threshold=0.6
        )
        by_name = {
            finding.check_name: finding.evidence
            for report in audit.leakage_reports.values()
            for finding in report.findings
        }
        assert by_name["NearDuplicateCheck"]["threshold"] == 0.7
        assert by_name["CrossSplitLeakageCheck"]["threshold"] == 0.6

    def test_what_is_not_asked_for_is_not_done(self) -> None:
        audit = audited(
            {"train": PLAIN, "test": PLAIN},
            exact=False,
            near=False,
            cross_split=False,
            obfuscation=False,
        )
        assert not any(report.findings for report in audit.leakage_reports.values())
        gate = audit.gates["no_cross_split_leakage"]
        assert (gate.passed, gate.status, gate.reason) == (
            True,
            "skipped",
            "`cross_split` is False",
        )
        assert all(summary.obfuscation is None for summary in audit.split_summaries.values())

    def test_slices_take_the_names_of_their_keys(self) -> None:
        audit = audit_dataset(Splits({"train": part("other", PLAIN)}))
        assert audit.split_summaries["train"].name == "train"

    @pytest.mark.parametrize("name", [None, ""])
    def test_without_a_name_the_loader_gives_its_own(self, name: object) -> None:
        assert audit_dataset(Splits({"all": part("all", PLAIN)}, name)).dataset_name == "Splits"

    def test_our_own_loaders(self) -> None:
        rows = {"text": PLAIN, "label": [0, 1, 0, 1], "split": ["train", "train", "test", "test"]}
        assert audit_dataset(DataFrameLoader(rows, "split", name="rows")).dataset_name == "rows"
        single = audit_dataset(SingleSliceLoader(part("mine", PLAIN)))
        assert list(single.split_summaries) == ["all"]
        assert single.dataset_name == "mine"


class TestBalanceGate:
    @each(
        ("n_negative", "n_positive", "passed"),
        [
            (10, 1, True),
            (11, 1, False),
            (1, 10, True),
            (1, 11, False),
            (3, 0, False),
            (0, 3, False),
            (0, 0, False),
            (1, 1, True),
        ],
    )
    def test_at_its_edges(self, n_negative: int, n_positive: int, passed: bool) -> None:
        labels = [0] * n_negative + [1] * n_positive
        texts = [f"text number {row}" for row in range(len(labels))]
        audit = audit_dataset(Splits({"all": part("all", texts, labels)}), near=False)
        assert audit.gates["class_balance"].passed is passed
        assert audit.gate_passed is passed

    def test_one_bad_split_is_enough_and_is_named(self) -> None:
        splits = {
            "train": part("train", PLAIN),
            "test": part("test", ["a", "b"], [0, 0]),
            "dev": part("dev", [f"x{row}" for row in range(13)], [1] + [0] * 12),
        }
        gate = audit_dataset(Splits(splits), near=False).gates["class_balance"]
        assert gate.reason == (
            "test: all 2 rows are negative; dev: 12 negative rows per positive row, outside "
            "[0.1, 10]"
        )
        assert set(gate.evidence) == {"train", "test", "dev"}
        assert audit_dataset(Splits({"dev": splits["dev"]}), max_neg_pos_ratio=12).gate_passed


class TestLeakageGate:
    def test_leaked_rows_are_counted_with_an_interval(self) -> None:
        audit = audited({"train": PLAIN, "test": [PLAIN[0].upper(), "fresh words", "more"]})
        gate = audit.gates["no_cross_split_leakage"]
        assert not gate.passed
        assert gate.evidence == {"test": wilson_interval(1, 3).to_dict()}
        assert "1 of 3 rows (0.333 [" in gate.reason
        assert "no_cross_split_leakage: failed" in audit.gate_summary

    def test_a_disguised_copy_counts_unless_obfuscation_is_off(self) -> None:
        # Cyrillic letters in place of Latin ones: no word in common with the training text.
        disguised = PLAIN[0].translate(str.maketrans("aceo", "\u0430\u0441\u0435\u043e"))
        splits = {"train": PLAIN, "test": [disguised, "fresh words"]}
        assert not audited(splits).gates["no_cross_split_leakage"].passed
        assert audited(splits, obfuscation=False).gates["no_cross_split_leakage"].passed

    def test_copies_between_other_splits_are_another_matter(self) -> None:
        audit = audited({"train": PLAIN, "dev": ["fresh words", "x"], "test": ["fresh words", "y"]})
        assert audit.gates["no_cross_split_leakage"].passed

    @pytest.mark.parametrize(
        ("names", "reason"),
        [
            (("dev", "test"), "there is no split 'train'; the splits are 'dev', 'test'"),
            (("train",), "there is no split besides 'train'"),
        ],
    )
    def test_skipped_without_something_to_compare(
        self, names: tuple[str, ...], reason: str
    ) -> None:
        gate = audited(dict.fromkeys(names, PLAIN)).gates["no_cross_split_leakage"]
        assert (gate.passed, gate.status, gate.reason) == (True, "skipped", reason)


class TestWindowGate:
    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({}, "it needs `tokenizer` and `context_window`"),
            ({"tokenizer": str.split}, "it needs `context_window`"),
            ({"context_window": 9}, "it needs `tokenizer`"),
        ],
    )
    def test_skipped(self, options: dict[str, Any], reason: str) -> None:
        gate = audited({"all": PLAIN}, **options).gates["context_window_fit"]
        assert (gate.passed, gate.status, gate.reason) == (True, "skipped", reason)

    def test_the_share_itself_is_accepted_and_more_is_not(self) -> None:
        texts = [f"w{row}" for row in range(19)] + ["far too many words"]
        options = {"tokenizer": str.split, "context_window": 3, "near": False}
        gate = audited({"all": texts}, **options).gates["context_window_fit"]
        assert gate.passed  # 1 of 20 is the 5 % that may be
        assert gate.evidence == {"all": wilson_interval(1, 20).to_dict()}
        gate = audited({"all": texts[1:]}, **options).gates["context_window_fit"]
        assert not gate.passed
        assert gate.reason.startswith("texts over 3 tokens: 1 of 19 rows (0.053 [")
        assert audited({"all": texts[1:]}, pct_over_context_threshold=0.1, **options).gate_passed

    def test_a_split_without_texts_has_nothing_too_long(self) -> None:
        gate = audited({"all": []}, tokenizer=str.split, context_window=3).gates[
            "context_window_fit"
        ]
        assert gate.passed


class TestHostileRows:
    def test_missing_texts_are_counted_and_rows_keep_their_numbers(self) -> None:
        splits = {
            "train": [None, "dogs bark at night", None, "Dogs bark at night", "tea for two"],
            "test": ["fresh words", None, "dogs bark at night"],
        }
        audit = audited(splits)
        assert [summary.n_missing for summary in audit.split_summaries.values()] == [2, 1]
        within = audit.leakage_reports["within_split"]
        assert within.merged_drop_indices() == {"train": [3]}
        exact, near = within.findings
        assert exact.evidence["dropped_pairs_by_split"] == {"train": [[3, 1]]}
        assert near.evidence["pairs"] == {"train": [[3, 1]]}
        across = audit.leakage_reports["cross_split"]
        assert across.merged_drop_indices() == {"test": [2]}
        for finding in across.findings:
            assert finding.evidence["across_splits"] == [
                {"split": "test", "row": 2, "copy_of": {"split": "train", "row": 1}}
            ]
        # 1 of the 2 test rows that have a text
        assert audit.gates["no_cross_split_leakage"].evidence["test"]["n"] == 2

    @settings(max_examples=25)
    @given(
        st.lists(st.sampled_from([None, "a b c", "d e f", "", "A  b c"]), max_size=8),
        st.lists(st.sampled_from([None, "a b c", "x y z", "d e f"]), max_size=6),
    )
    def test_missing_rows_change_no_finding_but_the_numbers(
        self, train: list[Any], test: list[Any]
    ) -> None:
        audit = audited({"train": train, "test": test}, near=False)
        kept = {
            name: [row for row, text in enumerate(texts) if text is not None]
            for name, texts in (("train", train), ("test", test))
        }
        clean = audited(
            {"train": [train[r] for r in kept["train"]], "test": [test[r] for r in kept["test"]]},
            near=False,
        )
        for name, report in audit.leakage_reports.items():
            expected = clean.leakage_reports[name].merged_drop_indices()
            assert report.merged_drop_indices() == {
                split: [kept[split][row] for row in rows] for split, rows in expected.items()
            }

    @pytest.mark.parametrize(
        "texts",
        [
            [],
            [None],
            ["", "", " "],
            ["one row"],
            ["\ud800", "\udfff x", "half \ud83d"],
            ["\x00", "\u200b", "<script>alert(1)</script>"],
            ["x" * 5_000_000, "y"],
        ],
        ids=["no rows", "missing", "empty", "one", "surrogates", "odd", "5 MB"],
    )
    def test_every_text_goes_through_to_the_file(self, texts: list[Any], tmp_path: Path) -> None:
        audit = audited({"train": texts, "test": texts}, tokenizer=list, context_window=4)
        path = audit.write(tmp_path / "new" / "audit.json")
        assert json.loads(path.read_bytes()) == audit.to_dict()

    def test_other_values_are_named(self) -> None:
        with pytest.raises(InvalidTypeError, match=r"split 'test': text\[1\] is 3.5"):
            audited({"train": PLAIN, "test": ["a", 3.5]})


class TestRefused:
    @pytest.mark.parametrize("loader", [None, {"train": 1}, Splits, "data.csv"])
    def test_what_is_no_loader(self, loader: Any) -> None:
        with pytest.raises(InvalidTypeError, match=r"`loader` is .*load_splits and describe"):
            audit_dataset(loader)

    @pytest.mark.parametrize(
        ("splits", "message"),
        [
            ([1], "load_splits returned a list"),
            ({"train": {"text": ["a"]}}, "split 'train' is a dict"),
            ({}, "`loader` returned no splits"),
        ],
    )
    def test_what_are_no_splits(self, splits: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            audit_dataset(Splits(splits))

    @pytest.mark.parametrize(
        "options",
        [
            {"near_threshold": 1.0},
            {"cross_split_threshold": 0.0},
            {"min_neg_pos_ratio": -1.0},
            {"max_neg_pos_ratio": 0.05},
            {"pct_over_context_threshold": 1.5},
            {"context_window": 0},
        ],
    )
    def test_bounds_are_named(self, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match=f"`{next(iter(options))}` is"):
            audited({"all": PLAIN}, **options)


class TestWritten:
    def test_the_file_is_the_dict(self, tmp_path: Path) -> None:
        audit = audited({"train": PLAIN, "te\ud800st": PLAIN})
        path = audit.write(str(tmp_path / "audit.json"))
        assert isinstance(path, Path)
        stored = json.loads(path.read_bytes())
        assert stored == audit.to_dict()
        assert set(stored) == {
            "schema_version",
            "dataset_name",
            "run_timestamp",
            "split_summaries",
            "leakage_reports",
            "gates",
            "gate_passed",
            "gate_summary",
        }
        assert set(stored["leakage_reports"]) == {"within_split", "cross_split"}
        assert stored["gates"]["class_balance"]["status"] == "ok"

    def test_a_path_is_needed(self) -> None:
        with pytest.raises(InvalidTypeError, match="`path`"):
            audited({"all": PLAIN}).write(3)  # type: ignore[arg-type]

    def test_gates_as_text(self) -> None:
        assert str(AuditGate("g", True, "skipped", "why")) == "g: skipped (why)"
        assert str(AuditGate("g", True, "ok", "why")) == "g: passed (why)"


class TestRealData:
    def test_the_sms_collection_split_at_random(self, shared_data: Path) -> None:
        names = ["label", "text"]
        path = shared_data / "classification" / "sms_spam_collection.tsv"
        table = read_table(path, texts=names, file_format=FileFormat(header=names, quoting=False))
        rows = {
            "text": table["text"],
            "label": (table["label"] == "spam").astype(np.int64),
            "split": np.where(np.arange(len(table["text"])) % 4, "train", "test").astype(object),
        }
        audit = audit_dataset(DataFrameLoader(rows, "split", name="sms"), near=False)
        # Copies counted without the library's checks: by a set of normalised texts.
        seen = {
            split: [
                normalize_text_for_dedup(text)
                for text, of in zip(rows["text"], rows["split"], strict=True)
                if of == split
            ]
            for split in ("train", "test")
        }
        (exact,) = audit.leakage_reports["within_split"].findings
        assert exact.n_affected == sum(len(texts) - len(set(texts)) for texts in seen.values())
        copied = {row for row, text in enumerate(seen["test"]) if text in set(seen["train"])}
        leaked = audit.leakage_reports["cross_split"].merged_drop_indices()["test"]
        assert copied <= set(leaked)
        assert len(copied) > 100
        assert not audit.gates["no_cross_split_leakage"].passed
        assert audit.gates["class_balance"].passed

    def test_benign_prompts_alone_fail_on_balance(self, shared_data: Path) -> None:
        folder = shared_data / "classification"
        prompts = [
            row["prompt"]
            for name in ("one", "two", "three")
            for row in json.loads((folder / f"notinject_{name}.json").read_text("utf-8"))
        ]
        benign = part("benign", prompts, [0] * len(prompts))
        audit = audit_dataset(SingleSliceLoader(benign))
        assert audit.gates["class_balance"].reason == "all: all 339 rows are negative"
        attacks = read_table(folder / "giskard_prompt_injections.csv", texts=["prompt"])["prompt"]
        both = part("both", prompts + attacks.tolist(), [0] * 339 + [1] * 35)
        mixed = audit_dataset(SingleSliceLoader(both))
        assert mixed.gates["class_balance"].passed  # 339 / 35 = 9.7
        assert not audit_dataset(SingleSliceLoader(both), max_neg_pos_ratio=9.5).gate_passed

"""The SMS Spam Collection: copies counted independently, and a naive split made clean."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from eval_toolkit import leakage as lk
from eval_toolkit._internal.tables import FileFormat, read_table
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import normalize_text_for_dedup

NAMES = ["label", "text"]


@pytest.fixture(scope="module")
def messages(shared_data: Path) -> EvalSlice:
    path = shared_data / "classification" / "sms_spam_collection.tsv"
    table = read_table(path, texts=NAMES, file_format=FileFormat(header=NAMES, quoting=False))
    labels = (table["label"] == "spam").astype(np.int64)
    return EvalSlice("all", {"text": table["text"], "label": labels})


@pytest.fixture(scope="module")
def naive(messages: EvalSlice) -> dict[str, EvalSlice]:
    order = np.random.default_rng(0).permutation(messages.n)
    return {
        "train": messages.take(order[:4000], name="train"),
        "test": messages.take(order[4000:], name="test"),
    }


def test_every_line_is_a_message(messages: EvalSlice) -> None:
    # The collection's own description: 5 574 messages, 747 of them spam.
    assert (messages.n, messages.n_positive) == (5574, 747)


def test_byte_identical_copies(messages: EvalSlice) -> None:
    assert messages.n - len(set(messages.features)) == 403
    found = lk.ExactDuplicateCheck(normalize=False).validate({"all": messages})
    assert found.n_affected == 403


def test_copies_after_normalisation(messages: EvalSlice) -> None:
    # Case alone gives 404, white space alone 414; NFC, lower case and white space together 415.
    texts = messages.features
    assert len(texts) - len({text.lower() for text in texts}) == 404
    assert len(texts) - len({" ".join(text.split()) for text in texts}) == 414
    assert len(texts) - len(set(map(normalize_text_for_dedup, texts))) == 415
    for check in (
        lk.ExactDuplicateCheck(),
        lk.NormalizedFormLeakageCheck(),
        lk.ConfusableFormLeakageCheck(),
    ):
        assert check.validate({"all": messages}).n_affected == 415
    assert lk.LabelConflictCheck().validate({"all": messages}).n_affected == 0


def test_near_duplicates_include_every_copy(messages: EvalSlice) -> None:
    copies = lk.ExactDuplicateCheck().validate({"all": messages}).drop_indices
    found = lk.NearDuplicateCheck(label_aware=True).validate({"all": messages})
    assert copies is not None
    assert found.drop_indices is not None
    assert set(copies["all"]) <= set(found.drop_indices["all"])
    assert found.n_affected > 415
    # Clusters are at least as large as the largest set of copies ("Sorry, I'll call later").
    most_copied = Counter(map(normalize_text_for_dedup, messages.features)).most_common(1)[0][1]
    assert most_copied <= found.evidence["largest_cluster"] < 60
    assert 250 < found.evidence["n_clusters"] < found.n_affected
    # No near-duplicate pair has a spam and a ham side, so labels keep it a warning.
    assert (found.evidence["n_cross_label"], found.severity) == (0, "warning")


def test_naive_split_leaks_and_drop_cures_it(naive: dict[str, EvalSlice]) -> None:
    seen = set(map(normalize_text_for_dedup, naive["train"].features))
    leaked = [
        row
        for row, text in enumerate(naive["test"].features)
        if normalize_text_for_dedup(text) in seen
    ]
    across = lk.ExactDuplicateCheck(scope="across").validate(naive)
    assert across.severity == "error"
    assert across.drop_indices == {"test": leaked}
    assert len(leaked) > 100

    checks = [lk.ExactDuplicateCheck(), lk.CrossSplitLeakageCheck(), lk.NearDuplicateCheck()]
    cleaned = lk.drop_until_clean(checks, naive)
    assert cleaned.n_dropped >= 415
    for finding in lk.run_leakage_checks(checks, cleaned.splits).findings:
        assert (finding.drop_indices, finding.n_affected) == ({}, 0)
    left = set(map(normalize_text_for_dedup, cleaned.splits["train"].features))
    assert not left & set(map(normalize_text_for_dedup, cleaned.splits["test"].features))


def test_one_exact_drop_is_enough(naive: dict[str, EvalSlice]) -> None:
    checks = [lk.ExactDuplicateCheck(), lk.NormalizedFormLeakageCheck()]
    clean = lk.apply_leakage_policy(lk.run_leakage_checks(checks, naive), naive, "drop")
    assert lk.run_leakage_checks(checks, clean).merged_drop_indices() == {}
    assert clean["train"].n + clean["test"].n == 5574 - 415

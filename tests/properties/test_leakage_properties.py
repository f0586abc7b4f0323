"""Dropping what checks name leaves nothing for them to find, and never more than it must."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit import leakage as lk
from eval_toolkit.slices import EvalSlice
from eval_toolkit.text_dedup import JaccardNgramStrategy, MinHashLSHStrategy

TEXTS = st.one_of(
    st.sampled_from(
        ["free prize", "Free  prize", "free prizе", "free\u200bprize", "see you", "see yоu", "noon"]
    ),
    st.text(alphabet="abAB \u0430\u0301\u200b☎", max_size=6),
)
ROW = st.tuples(TEXTS, st.integers(0, 1), st.integers(0, 4), st.integers(0, 9))


@st.composite
def folds(draw: st.DrawFn) -> dict[str, EvalSlice]:
    names = draw(st.permutations(["train", "val", "test"]))
    splits = {}
    for name in names:
        rows = draw(st.lists(ROW, max_size=9))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        frame = dict(zip(["text", "label", "user", "day"], columns, strict=True))
        splits[name] = EvalSlice(name, frame)
    return splits


def tokens(text: str) -> dict[str, list[str]]:
    return {"input_ids": text.lower().split()}


ONE_ROUND: list[Any] = [
    *(
        make(scope=scope)
        for scope in ("both", "within", "across")
        for make in (
            lk.ExactDuplicateCheck,
            lk.NormalizedFormLeakageCheck,
            lk.ConfusableFormLeakageCheck,
            lk.LabelConflictCheck,
        )
    ),
    lk.TokenizationLeakageCheck(tokens),
    lk.GroupLeakageCheck("user"),
    lk.GroupLeakageCheck("user", keep="first"),
    lk.TemporalLeakageCheck("day", ["train", "val", "test"]),
    lk.NgramContaminationCheck(["free prize today", "see you at noon"], n=2),
    lk.NearDuplicateCheck(0.5, JaccardNgramStrategy(n=2)),
    lk.NearDuplicateCheck(0.5, JaccardNgramStrategy(n=2), scope="within"),
    lk.NearDuplicateCheck(0.5, JaccardNgramStrategy(n=2), scope="across"),
    lk.CrossSplitLeakageCheck(threshold=0.5, strategy=JaccardNgramStrategy(n=2)),
    lk.CrossSplitLeakageCheck(threshold=0.7, strategy=MinHashLSHStrategy(n=2)),
]


@pytest.mark.parametrize("check", ONE_ROUND, ids=lambda check: check.name)
@settings(max_examples=15)
@given(splits=folds())
def test_one_drop_leaves_nothing_to_find(check: Any, splits: dict[str, EvalSlice]) -> None:
    report = lk.run_leakage_checks([check], splits)
    clean = lk.apply_leakage_policy(report, splits, "drop")
    again = check.validate(clean)
    assert (again.drop_indices, again.n_affected) == ({}, 0)
    assert sum(part.n for part in splits.values()) - sum(part.n for part in clean.values()) == sum(
        map(len, report.merged_drop_indices().values())
    )


ALL = [
    lk.ExactDuplicateCheck(),
    lk.NormalizedFormLeakageCheck(),
    lk.ConfusableFormLeakageCheck(),
    lk.TokenizationLeakageCheck(tokens),
    lk.LabelConflictCheck(),
    lk.NearDuplicateCheck(0.6),
    lk.CrossSplitLeakageCheck(threshold=0.6),
    lk.GroupLeakageCheck("user", keep="first"),
    lk.TemporalLeakageCheck("day", ["train", "val", "test"]),
    lk.TargetLeakageCheck(),
]


@settings(max_examples=30)
@given(splits=folds(), chosen=st.sets(st.sampled_from(range(len(ALL))), min_size=1))
def test_any_checks_together_find_nothing_after_drop_until_clean(
    splits: dict[str, EvalSlice], chosen: set[int]
) -> None:
    checks = [ALL[place] for place in sorted(chosen)]
    cleaned = lk.drop_until_clean(checks, splits)
    report = lk.run_leakage_checks(checks, cleaned.splits)
    assert report.merged_drop_indices() == {}
    assert not report.has_errors()
    for name, rows in cleaned.kept.items():
        assert cleaned.splits[name].features == [splits[name].features[row] for row in rows]


@given(splits=folds())
def test_one_row_of_every_text_stays(splits: dict[str, EvalSlice]) -> None:
    check = lk.ExactDuplicateCheck(normalize=False)
    clean = lk.drop_leakage(splits, lk.run_leakage_checks([check], splits))
    kept = [text for part in clean.values() for text in part.features]
    assert sorted(kept) == sorted({text for part in splits.values() for text in part.features})
    # The training split loses a text only to itself.
    assert set(clean["train"].features) == set(splits["train"].features)


@given(splits=folds())
def test_both_scopes_are_the_union_of_the_two(splits: dict[str, EvalSlice]) -> None:
    def rows(check: Any) -> set[tuple[str, int]]:
        found = check.validate(splits).drop_indices
        return {(split, row) for split, rows in found.items() for row in rows}

    strategy = JaccardNgramStrategy(n=2)
    for make in (
        lk.ExactDuplicateCheck,
        lk.LabelConflictCheck,
        lambda **options: lk.NearDuplicateCheck(0.5, strategy, **options),
    ):
        within, across = rows(make(scope="within")), rows(make(scope="across"))
        assert rows(make(scope="both")) == within | across


@given(splits=folds())
def test_exact_copies_agree_with_a_plain_double_loop(splits: dict[str, EvalSlice]) -> None:
    ordered = [("train", splits["train"]), *((n, s) for n, s in splits.items() if n != "train")]
    rows = [(name, row, text) for name, s in ordered for row, text in enumerate(s.features)]
    expected: dict[str, set[int]] = {}
    for place, (name, row, text) in enumerate(rows):
        if any(text == other for _, _, other in rows[:place]):
            expected.setdefault(name, set()).add(row)
    found = lk.ExactDuplicateCheck(normalize=False).validate(splits)
    assert {name: set(dropped) for name, dropped in found.drop_indices.items()} == expected
    assert found.n_affected == sum(map(len, expected.values()))


@given(text=TEXTS)
def test_forms_are_stable(text: str) -> None:
    for form in (lk.normalized_form, lk.confusable_form):
        assert form(form(text)) == form(text)
        assert form(f"  {text}\n") == form(text)

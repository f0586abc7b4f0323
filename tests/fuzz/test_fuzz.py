"""Every target over its corpus and over what once was a finding; the engine on targets that break."""

import random
from pathlib import Path

import pytest
from tests.fuzz.driving import fuzz
from tests.fuzz.mutating import MARK, Changing
from tests.fuzz.pages import check_page
from tests.fuzz.target import REGRESSIONS, BrokenError, placed
from tests.fuzz.targets import TARGETS
from tests.fuzz.working import Limits, check


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_what_was_found(name: str) -> None:
    """Each input is read, or refused by an error of our own, within the limits."""
    target = TARGETS[name]
    with placed(target) as place:
        refusals = [check(place, given)[0] for given in place.corpus]
        assert None in refusals, refusals[0]  # a corpus that is only refused reaches nothing
        for given in target.regressions():
            check(place, given)


def test_every_regression_has_its_target() -> None:
    assert {folder.name for folder in REGRESSIONS.iterdir()} <= set(TARGETS)


def test_a_seed_gives_the_same_inputs() -> None:
    known = [("a.json", b'{"a": [1, "x"]}'), ("b.csv", b"a,b\n1,2\n"), ("c.toml", b"a = 1\n")]

    def made(seed: int) -> list[bytes]:
        changing = Changing(random.Random(seed), known)  # noqa: S311
        return [changing.changed(*known[at % 3]) for at in range(60)]

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert len(set(made(1))) > 50  # changes change something


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("_fails", "KeyError"),
        ("_dies", "signal-6-"),
        ("_stays", "TooLongError"),
        ("_works", "TooLongError"),
        ("_lets_work", "TooLongError"),
        ("_grows", "MemoryError"),
    ],
)
def test_what_breaks_the_rule_is_found_and_the_fuzzing_goes_on(
    tmp_path: Path, name: str, key: str
) -> None:
    """An error of another kind, a dead process, too much time and too much memory."""
    seconds, wall = (10.0, 0.6) if name == "_stays" else (0.3, 60.0)
    limits = Limits(seconds, wall, memory=512 << 20, least=60)
    tally = fuzz([name], seconds=0.1, jobs=1, seed=1, findings=tmp_path, limits=limits)[name]
    assert tally.n_findings > 0
    assert tally.n > tally.n_findings
    found = [path for path in (tmp_path / name).iterdir() if path.is_dir()]
    assert [path.name for path in found if path.name.startswith(key)]
    assert b"{" not in (found[0] / "a.json").read_bytes()


def test_what_waits_is_not_slow(tmp_path: Path) -> None:
    """On a busy machine a reader waits for the processor."""
    limits = Limits(seconds=0.5, least=20)
    tally = fuzz(["_waits"], seconds=0.1, jobs=1, seed=1, findings=tmp_path, limits=limits)[
        "_waits"
    ]
    assert tally.n_findings == 0
    assert tally.slowest < 0.5


def test_refusals_are_no_findings(tmp_path: Path) -> None:
    limits = Limits(least=50)
    tallies = fuzz(["_refuses"], seconds=0.1, jobs=1, seed=1, findings=tmp_path, limits=limits)
    tally = tallies["_refuses"]
    assert tally.n_findings == 0
    assert tally.n_refused > 0
    assert tally.n_read > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "page",
    [
        f"<p><{MARK}></p>",
        f"<p title='x' {MARK}='1'>x</p>",
        f"<script>'<{MARK}>'</script>",
        f"<!-- {MARK} -->",
        "<a href=' JavaScript:x()'>x</a>",
        "<b onclick='x()'>x</b>",
    ],
)
def test_text_that_became_markup_is_seen(page: str) -> None:
    check_page(f"<p>&lt;{MARK}&gt; is text</p><a href='/x' title='{MARK}'>x</a>")
    with pytest.raises(BrokenError):
        check_page(page)

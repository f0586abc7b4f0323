"""Kinds from outside the package: what is shown of their units, and which code a name may reach."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.viewer_driving import Answer, Asking, rows_run

from eval_toolkit import metric_specs as ms
from eval_toolkit import plugins
from eval_toolkit.report import report_html
from eval_toolkit.report.viewer.unit import beside
from eval_toolkit.runs import Group, Kind, Note, Run, Table, Text, Unit, Words, drive
from eval_toolkit.runs.blocks import Block, flattened
from eval_toolkit.runs.kind_display import BUILT_IN_KINDS, Shown, kind_named, show_unit
from eval_toolkit.runs.selected_units import Place, StoredUnit, selected_units
from eval_toolkit.runs.units import UNITS
from eval_toolkit.scorecards import Records

OTHERS = ("d7", "<script>alert(1)</script>")


class Searching(Kind[Any]):
    """Ranks documents; the answer to one query fails."""

    name = "searching"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def config(self) -> dict[str, Any]:
        return {"system": "engine", "slice": "queries"}

    def units(self) -> list[Unit]:
        return [Unit(id=f"q{n}", input=q, reference="d1") for n, q in enumerate(self.answers)]

    def respond(self, inputs: list[Any]) -> list[Any]:
        return [self.answers[text] for text in inputs]

    def score(self, unit: Unit, output: Any) -> dict[str, Any]:
        return {"found": float("d1" in output)}

    def metrics(self) -> list[Any]:
        return [ms.mean_of("found", bounds=(0.0, 1.0))]


class Told(Searching):
    """The same with a page of its own."""

    words = Words(what="searches", units="queries", attempt="ranking", menu="Queries")

    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        return [Group("Found", (Text(f"page of {unit.id}", role="answer"),))]


class Broken(Searching):
    @classmethod
    def show(cls, unit: StoredUnit) -> Sequence[Block]:
        raise ValueError(f"no page for {OTHERS[1]}")


@pytest.fixture
def offering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type], None]]:
    """Let an installed package offer a kind named "searching"."""
    module = ModuleType("somebodys_kinds")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def offer(kind: Any) -> None:
        module.Theirs = kind  # type: ignore[attr-defined]
        point = EntryPoint("searching", "somebodys_kinds:Theirs", "eval_toolkit.kinds")
        every = EntryPoints([point])
        monkeypatch.setattr(plugins.names, "entry_points", lambda group: every.select(group=group))
        kind_named.cache_clear()

    yield offer
    kind_named.cache_clear()


def made(folder: Path, answers: dict[str, Any] | None = None) -> Run:
    given = {"cats": ["d1", *OTHERS], "dogs": ["d2"]} if answers is None else answers
    run = drive(Searching(given), folder, name="queries").run
    assert run is not None
    return run


def unit_of(run: Run, unit: str = "q0") -> StoredUnit:
    (found,) = selected_units(run, [Place(slice="queries", scorer="engine", unit_id=unit)])
    return found


def sample(ask: Asking, row: int = 0) -> Answer:
    key = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)[0]
    return ask(f"/runs/{key}/sample?row={row}")


class TestDefault:
    def test_the_input_and_every_item_of_the_answer(self, ask: Asking, runs_dir: Path) -> None:
        made(runs_dir / "r")
        page = sample(ask)
        assert page.status == 200
        assert f"input cats rank answer 1. d1 2. d7 3. {OTHERS[1]}" in page.words
        assert "reference d1" in page.words
        assert "found 1" in page.words
        assert page.text.count("<script") == page.text.count('<script src="/static/')

    def test_a_report_has_a_card_for_each(self, tmp_path: Path) -> None:
        html = report_html(made(tmp_path / "r"))
        assert 'id="samples"' in html
        assert "d7" in html
        assert OTHERS[1] not in html

    @pytest.mark.parametrize(
        ("answer", "shown"),
        [
            ("d1, said", [Text("d1, said", "Answer", "answer")]),
            ({"d1": 2, "d2": None}, [Table(["name", "answer"], [["d1", 2], ["d2", ""]])]),
            ([["d1"]], [Text('[["d1"]]', "Answer", "answer")]),
        ],
    )
    def test_answers_of_any_shape(self, tmp_path: Path, answer: Any, shown: list[Block]) -> None:
        run = made(tmp_path / "r", {"cats": answer})
        asked, *answered = (
            one for one in flattened(show_unit(unit_of(run))) if not isinstance(one, Note)
        )
        assert asked == Text("cats", "input", "input")
        assert answered == [*shown, Text("d1", "reference", "reference")]

    def test_what_failed_is_told(self, tmp_path: Path) -> None:
        class Failing(Searching):
            def respond(self, inputs: list[Any]) -> list[Any]:
                raise RuntimeError("the index is broken")

        run = drive(Failing({"cats": []}), tmp_path / "r", name="queries").run
        assert run is not None
        blocks = list(flattened(show_unit(unit_of(run))))
        errors = [one.text for one in blocks if isinstance(one, Note) and one.status == "error"]
        assert len(errors) == 1
        assert "the index is broken" in errors[0]

    def test_a_kind_that_is_not_installed_is_named(self, ask: Asking, runs_dir: Path) -> None:
        made(runs_dir / "r")
        assert "The kind 'searching' is not installed" in sample(ask).words

    def test_inputs_that_cannot_be_read_hide_nothing_else(self, tmp_path: Path) -> None:
        run = rows_run(
            tmp_path / "r", Records.from_columns({"x": [1.0]}, unit_id=["a"]), {"a": "b"}
        )
        (run.path / UNITS).write_bytes(b"no parquet")
        (unit,) = selected_units(run, [Place(slice="all", scorer="model", unit_id="a")])
        (told,) = show_unit(unit)
        assert isinstance(told, Note)
        assert told.status == "error"
        assert UNITS in told.text


class TestInstalled:
    def test_its_page_and_its_words(
        self, ask: Asking, runs_dir: Path, offering: Callable[[type], None]
    ) -> None:
        run = made(runs_dir / "r")
        offering(Told)
        words = sample(ask).words
        assert "Found" in words
        assert "page of q0" in words
        assert "not installed" not in words
        html = report_html(run)
        assert 'id="queries"' in html
        assert "2 queries" in html
        assert "searches" in html

    def test_one_that_fails_hides_nothing(
        self, ask: Asking, runs_dir: Path, offering: Callable[[type], None]
    ) -> None:
        made(runs_dir / "r")
        offering(Broken)
        page = sample(ask)
        assert page.status == 200
        assert "searching: ValueError: no page for" in page.words
        assert "1. d1" in page.words
        assert page.text.count("<script") == page.text.count('<script src="/static/')

    @pytest.mark.parametrize("other", [dict, "no class", Words])
    def test_what_is_no_kind_counts_as_unknown(
        self, other: Any, tmp_path: Path, offering: Callable[[Any], None]
    ) -> None:
        offering(other)
        assert kind_named("searching").words == Words()


class TestNames:
    @pytest.mark.parametrize("name", ["os:system", "somebodys_module:Kind", "../x", "", "a" * 9999])
    def test_no_file_makes_anything_be_imported(self, name: str) -> None:
        before = set(sys.modules)
        assert kind_named(name).words == Words()
        assert not {one for one in set(sys.modules) - before if one.startswith(("os", "somebody"))}

    @pytest.mark.parametrize("name", BUILT_IN_KINDS)
    def test_ours_are_found_by_the_name_that_they_store(self, name: str) -> None:
        kind: Any = kind_named(name)
        assert kind.name == name
        assert Shown in kind.__mro__


class TestBeside:
    def test_what_both_were_given_stands_once_and_what_one_lacks_is_said(self) -> None:
        given = Group("Right", (Text("4", "Reference", "reference"),))
        (one,) = beside([given], [given])
        assert (list(one.common), one.sides) == (list(given.blocks), ([], []))
        (two,) = beside([given], [])
        assert not two.common
        assert two.sides[1] == [Note("Stored without a reference.")]

    def test_answers_are_never_put_together(self) -> None:
        said = Group("Said", (Text("4", role="answer"),))
        (found,) = beside([said], [said])
        assert not found.common
        assert found.sides == (list(said.blocks), list(said.blocks))

"""Names to objects: ours, entry points, package.module:object, and what is said when neither fits."""

import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from eval_toolkit import plugins
from eval_toolkit.cli.plugins import found_plugins
from eval_toolkit.errors import InvalidInputError, PluginError
from eval_toolkit.graders import load_grader
from eval_toolkit.harness.loading import load_scorer as load_row_scorer
from eval_toolkit.harness.loading import load_selector, load_splitter
from eval_toolkit.leakage.loading import OURS as OURS_CHECKS
from eval_toolkit.leakage.loading import load_check
from eval_toolkit.loaders.loading import available_loaders, load_loader, loaded_splits
from eval_toolkit.models import available_models, load_model
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.plugins import (
    PLUGIN_KINDS,
    TYPED,
    available_plugins,
    installed_plugins,
    load_plugin,
    make_plugin,
)
from eval_toolkit.plugins.names import quietly
from eval_toolkit.protocols import LeakageCheck
from eval_toolkit.rollouts.attacks import load_attack
from eval_toolkit.rollouts.scorers import load_scorer
from eval_toolkit.runs import Kind
from eval_toolkit.runs.kind_display import load_kind
from eval_toolkit.tasks import load_task

OURS = {"exact_match": "json:loads"}


def test_names_are_read_whatever_their_case_and_dashes() -> None:
    import json

    for name in ("exact_match", "Exact-Match", "EXACTMATCH"):
        assert load_plugin("graders", name, OURS, origin=TYPED) is json.loads


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(PluginError, match=r"there is no grader 'exactmach'; did you mean 'exact_m"):
        load_plugin("graders", "exactmach", OURS, origin=TYPED)
    with pytest.raises(PluginError, match="the names are exact_match"):
        load_plugin("graders", "zzz", OURS, origin=TYPED)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere.at.all:x", "there is no module 'nowhere'"),
        ("json:nothing", "module 'json' has no attribute 'nothing'"),
        ("json:", "is not package.module:object"),
    ],
)
def test_places_that_lead_nowhere(place: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        load_plugin("graders", place, {}, origin=TYPED)


def test_a_plugin_that_fails_to_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="importing it failed: ZeroDivisionError"):
        load_plugin("tasks", "broken_plugin:x", {}, origin=TYPED)
    sys.modules.pop("broken_plugin", None)


def test_entry_points_are_found_and_ours_win(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = EntryPoints(
        [
            EntryPoint("theirs", "json:dumps", "eval_toolkit.graders"),
            EntryPoint("exact_match", "json:dumps", "eval_toolkit.graders"),
        ]
    )
    monkeypatch.setattr(plugins.names, "entry_points", lambda group: offered.select(group=group))
    assert available_plugins("graders", OURS) == {
        "exact_match": "json:loads",
        "theirs": "json:dumps",
    }


class TestModels:
    def test_kinds(self) -> None:
        assert {"embedded", "hf", "llamacpp", "openai", "scripted"} <= set(available_models())

    def test_which_and_options(self) -> None:
        model = load_model("scripted:Paris", {"name": "fixed"})
        assert isinstance(model, ScriptedModel)
        assert model.name == "fixed"

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("scripted:x", {"nam": "y"}, r"has no option 'nam'; did you mean 'name'\?"),
            ("scripted:", {}, "lacks a name after the colon"),
            ("openai", {}, "needs model, .*; write openai:NAME"),
        ],
    )
    def test_what_cannot_be_made(self, name: str, options: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            load_model(name, options)

    def test_what_is_no_model(self) -> None:
        with pytest.raises(PluginError, match="which is not a valid Model"):
            load_model("string:ascii_letters")
        with pytest.raises(PluginError, match=r"there is no model 'embeded'; did you mean 'embedd"):
            load_model("embeded")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of somebody else's, to put objects in."""
    made = ModuleType("somebodys_plugins")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


@pytest.fixture
def offering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let packages offer entry points: (kind, name, value, distribution)."""

    def offer(*points: tuple[str, str, str, str]) -> None:
        found = []
        for kind, name, value, distribution in points:
            point = EntryPoint(name, value, f"eval_toolkit.{kind}")
            dist = type("Dist", (), {"name": distribution, "version": "1.0"})()
            vars(point)["dist"] = dist
            found.append(point)
        every = EntryPoints(found)
        monkeypatch.setattr(plugins.names, "entry_points", lambda group: every.select(group=group))

    return offer


class Check:
    name = "Check"

    def __init__(self, limit: int, strict: bool = False) -> None:
        self.limit = limit

    def validate(self, splits: Any) -> Any:
        return None


class Failing:
    def __init__(self) -> None:
        raise ZeroDivisionError("in the constructor")


class Nothing:
    pass


class TestMaking:
    def test_options_stand_in_braces(self, module: ModuleType) -> None:
        module.Check = Check  # type: ignore[attr-defined]
        made = load_check("somebodys_plugins:Check{limit=3, strict=true}")
        assert isinstance(made, Check)
        assert made.limit == 3

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("Check{limt=3}", r"has no option 'limt'; did you mean 'limit'\?"),
            ("Check", r"needs limit, as in somebodys_plugins:Check\{limit=…\}"),
            ("Check{limit}", "the options are not a TOML table"),
            ("ready{limit=3}", "is an existing object; it takes no options"),
        ],
    )
    def test_options_that_do_not_fit(self, spec: str, message: str, module: ModuleType) -> None:
        vars(module).update(Check=Check, ready=Check(1))
        with pytest.raises(InvalidInputError, match=message):
            load_check(f"somebodys_plugins:{spec}")

    def test_what_is_ready_is_taken_as_it_is(self, module: ModuleType) -> None:
        ready = Check(1)
        vars(module).update(ready=ready, make=lambda: ready)
        assert load_check("somebodys_plugins:ready") is ready
        assert load_check("somebodys_plugins:make") is ready

    def test_a_property_that_fails_is_told(self, module: ModuleType) -> None:
        class Odd:
            @property
            def name(self) -> str:
                raise ZeroDivisionError("no name")

        vars(module).update(odd=Odd())
        with pytest.raises(PluginError, match=r"check 'somebodys_plugins:odd'.*(no name|lacks)"):
            make_plugin("checks", "somebodys_plugins:odd", {}, protocol=LeakageCheck, origin=TYPED)


LOADS: dict[str, Callable[[str], Any]] = {
    "attacks": load_attack,
    "checks": load_check,
    "graders": load_grader,
    "kinds": load_kind,
    "loaders": load_loader,
    "models": load_model,
    "scorers": load_row_scorer,
    "selectors": load_selector,
    "splitters": load_splitter,
    "tasks": load_task,
    "text_scorers": load_scorer,
}


MADE = [kind for kind in LOADS if kind != "kinds"]
"""Those whose objects are made with options; a kind of evaluation is a class that runs name."""


class TestEveryKind:
    def test_there_is_a_way_to_load_each(self) -> None:
        assert set(LOADS) == set(PLUGIN_KINDS)
        for name, kind in PLUGIN_KINDS.items():
            assert (kind.name, kind.group) == (name, f"eval_toolkit.{name}")

    def test_one_line_for_a_kind_that_is_none(self, module: ModuleType) -> None:
        vars(module).update(Nothing=Nothing, three=3)
        for name, words in (
            (
                "Nothing",
                "is not a kind of evaluation; it must be a subclass of eval_toolkit.runs.Kind",
            ),
            ("three", "is not a kind of evaluation"),
            ("missing", "no attribute 'missing'"),
        ):
            with pytest.raises(PluginError, match=words) as caught:
                load_kind(f"somebodys_plugins:{name}")
            assert "\n" not in str(caught.value)

    def test_a_kind_of_a_package_is_listed_and_found(
        self, module: ModuleType, offering: Callable[..., None]
    ) -> None:
        class Counting(Kind[Any]):
            name = "counting"

        vars(module).update(Counting=Counting, Nothing=Nothing)
        offering(
            ("kinds", "counting", "somebodys_plugins:Counting", "theirs"),
            ("kinds", "nothing", "somebodys_plugins:Nothing", "theirs"),
            ("kinds", "rows", "somebodys_plugins:Counting", "theirs"),
        )
        states = {one.name: one.state for one in found_plugins(["kinds"])}
        assert states == {"counting": "ok", "nothing": "broken", "rows": "hidden"}
        assert load_kind("Counting") is Counting

    @pytest.mark.parametrize("kind", MADE)
    def test_one_line_for_what_is_none_or_cannot_be_made(
        self, kind: str, module: ModuleType
    ) -> None:
        vars(module).update(Nothing=Nothing, Failing=Failing, three=3)
        for name, words in (
            ("Nothing", "no|needs"),
            ("Failing", "creating it failed: ZeroDivisionError: in the constructor"),
            ("three", "no|neither"),
            ("missing", "no attribute 'missing'"),
        ):
            with pytest.raises(PluginError, match=words) as caught:
                LOADS[kind](f"somebodys_plugins:{name}")
            assert "\n" not in str(caught.value)
            assert f"somebodys_plugins:{name}" in str(caught.value)

    @pytest.mark.parametrize("kind", MADE)
    def test_a_package_offers_it_by_name(
        self, kind: str, module: ModuleType, offering: Callable[..., None]
    ) -> None:
        """That it is found, whatever the case and dashes: the object itself is none."""
        vars(module).update(Nothing=Nothing)
        offering((kind, "their_own", "somebodys_plugins:Nothing", "theirs"))
        with pytest.raises(PluginError) as caught:
            LOADS[kind]("their_own")
        assert "there is no" not in str(caught.value)

    @pytest.mark.parametrize("kind", MADE)
    @pytest.mark.parametrize("written", ["TheirOwn", "their-own", "THEIR_OWN"])
    def test_names_with_capitals_dashes_and_options(
        self, kind: str, written: str, module: ModuleType, offering: Callable[..., None]
    ) -> None:
        """The options reach what makes the object, whatever the kind and the spelling."""

        def maker(limit: int = 0) -> Any:
            raise ValueError(f"the limit is {limit}")

        vars(module).update(maker=maker)
        offering((kind, "TheirOwn", "somebodys_plugins:maker", "theirs"))
        for spec in (f"{written}{{limit=3}}", "somebodys_plugins:maker{limit=3}"):
            with pytest.raises(PluginError, match="creating it failed: ValueError: the limit is 3"):
                LOADS[kind](spec)
        with pytest.raises(InvalidInputError, match="no option 'limt'; did you mean 'limit'"):
            LOADS[kind](f"{written}{{limt=3}}")

    def test_what_stands_behind_a_colon_keeps_its_braces(
        self, module: ModuleType, offering: Callable[..., None]
    ) -> None:
        assert LOADS["text_scorers"](r"Pattern:\d{2}").score(["a 12", "b"]) == [1.0, 0.0]
        assert LOADS["models"]('Scripted:{"a": 1}').name == "scripted"
        vars(module).update(Which=lambda text: ScriptedModel(text, name=f"which {text}"))
        offering(("models", "Big-Model", "somebodys_plugins:Which", "theirs"))
        assert load_model("big_model:x").name == "which x"

    @pytest.mark.parametrize("kind", ["models", "text_scorers"])
    def test_what_has_no_signature(self, kind: str) -> None:
        with pytest.raises(PluginError, match="builtins:dict"):
            LOADS[kind]("builtins:dict")

    @pytest.mark.parametrize("kind", LOADS)
    def test_two_packages_with_one_name(self, kind: str, offering: Callable[..., None]) -> None:
        offering((kind, "own", "json:loads", "one"), (kind, "Own", "json:dumps", "other"))
        with pytest.raises(
            PluginError, match=r"one \(json:loads\) and other \(json:dumps\) provide"
        ):
            LOADS[kind]("own")


class TestInstalled:
    def test_what_is_broken_is_named_and_breaks_nothing_else(
        self, module: ModuleType, offering: Callable[..., None]
    ) -> None:
        vars(module).update(Check=Check, three=3)
        offering(
            ("checks", "fine", "somebodys_plugins:Check", "good"),
            ("checks", "gone", "nowhere.at.all:Check", "bad"),
            ("checks", "number", "somebodys_plugins:three", "odd"),
            ("checks", "group", "somebodys_plugins:Check", "late"),
            ("graders", "twice", "json:loads", "one"),
            ("graders", "twice", "json:dumps", "two"),
        )
        found = {
            (info.name, info.distribution): (info.state, info.problem)
            for info in installed_plugins({"checks": OURS_CHECKS})
        }
        assert {key: state for key, (state, _) in found.items()} == {
            ("fine", "good"): "ok",
            ("gone", "bad"): "broken",
            ("number", "odd"): "broken",
            ("group", "late"): "hidden",
            ("twice", "one"): "ambiguous",
            ("twice", "two"): "ambiguous",
        }
        assert found["gone", "bad"][1] == "check 'gone': there is no module 'nowhere'"
        assert found["number", "odd"][1] == (
            "check 'number' is an int, which is not a valid LeakageCheck: it lacks `name` and `validate`"
        )

    def test_what_cannot_be_of_its_kind(
        self, module: ModuleType, offering: Callable[..., None]
    ) -> None:
        vars(module).update(Check=Check, three=3)
        offering(
            ("scorers", "nope", "json:JSONDecoder", "odd"),
            ("tasks", "pi", "math:pi", "odd"),
            ("tasks", "notask", "json:JSONDecoder", "odd"),
            ("checks", "fine", "somebodys_plugins:Check", "good"),
        )
        found = {info.name: (info.state, info.problem) for info in installed_plugins()}
        nope = "scorer 'nope' is the class JSONDecoder, which is not a valid Scorer: it lacks `predict_proba`"
        assert found == {
            "nope": ("broken", nope),
            "pi": ("broken", "task 'pi' is a float, which is not a valid BaseTask"),
            "notask": (
                "broken",
                "task 'notask' is the class JSONDecoder, which is not a valid BaseTask",
            ),
            "fine": ("ok", ""),
        }

    def test_what_a_module_prints_is_no_output_of_ours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = "import math\nprint('HELLO')\nmath.nothing\n"
        (tmp_path / "printing_plugin.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(PluginError, match="importing it failed: AttributeError: module 'math'"):
            load_model("printing_plugin:x")
        assert capsys.readouterr() == ("", "HELLO\n")

    def test_a_module_that_exits_while_it_is_imported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offering: Callable[..., None]
    ) -> None:
        (tmp_path / "exiting_plugin.py").write_text("raise SystemExit(3)\n")
        monkeypatch.syspath_prepend(tmp_path)
        offering(("tasks", "leaving", "exiting_plugin:x", "rude"))
        (info,) = installed_plugins(kinds=["tasks"])
        assert (info.state, info.usable) == ("broken", False)
        assert info.problem == "task 'leaving': importing it failed: SystemExit: 3"
        assert info.to_dict()["version"] == "1.0"


class TestLoaders:
    def test_ours(self) -> None:
        assert set(available_loaders()) == {"files", "hub", "ood", "parquet_glob"}

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (lambda: 1 / 0, "load_splits failed: ZeroDivisionError"),
            (list, "load_splits returned a list; it must return a dict"),
            (dict, "load_splits returned no split"),
            (lambda: {"test": [1]}, "split 'test' is a list"),
        ],
    )
    def test_what_is_no_splits(self, given: Callable[[], Any], message: str) -> None:
        loader: Any = type("Loader", (), {"load_splits": staticmethod(given), "describe": dict})()
        with pytest.raises(PluginError, match=f"loader 'mine': {message}"):
            loaded_splits(loader, "mine")


def test_threads_that_load_plugins_leave_standard_output_as_it_was() -> None:
    before, first, second = sys.stdout, threading.Event(), threading.Event()

    def load(entered: threading.Event, leave: threading.Event) -> None:
        with quietly():
            entered.set()
            leave.wait(60)

    # The first one in is the first one out, so each would restore what the other one had set.
    done = threading.Event()
    threads = [
        threading.Thread(target=load, args=(first, second)),
        threading.Thread(target=load, args=(second, done)),
    ]
    threads[0].start()
    first.wait(60)
    threads[1].start()
    threads[0].join()
    assert sys.stdout is sys.stderr
    done.set()
    threads[1].join()
    assert sys.stdout is before

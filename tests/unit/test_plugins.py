"""Names to objects: ours, entry points, package.module:object, and what is said when neither fits."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from eval_toolkit import plugins
from eval_toolkit.errors import InvalidInputError, PluginError
from eval_toolkit.models import available_models, load_model
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.plugins import available_plugins, load_plugin

OURS = {"exact_match": "json:loads"}


def test_names_are_read_whatever_their_case_and_dashes() -> None:
    import json

    for name in ("exact_match", "Exact-Match", "EXACTMATCH"):
        assert load_plugin("graders", name, OURS) is json.loads


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(PluginError, match=r"there is no grader 'exactmach'; did you mean 'exact_m"):
        load_plugin("graders", "exactmach", OURS)
    with pytest.raises(PluginError, match="there are exact_match"):
        load_plugin("graders", "zzz", OURS)


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
        load_plugin("graders", place, {})


def test_a_plugin_that_fails_to_import_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plugin.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="importing it failed: ZeroDivisionError"):
        load_plugin("tasks", "broken_plugin:x", {})
    sys.modules.pop("broken_plugin", None)


def test_entry_points_are_found_and_ours_win(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = EntryPoints(
        [
            EntryPoint("theirs", "json:dumps", "eval_toolkit.graders"),
            EntryPoint("exact_match", "json:dumps", "eval_toolkit.graders"),
        ]
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered.select(group=group))
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
            ("scripted:", {}, "say which after the colon"),
            ("openai", {}, "missing a required argument: 'model'; write openai:NAME"),
        ],
    )
    def test_what_cannot_be_made(self, name: str, options: dict[str, object], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            load_model(name, options)

    def test_what_is_no_model(self) -> None:
        with pytest.raises(PluginError, match="which is no model"):
            load_model("string:ascii_letters")
        with pytest.raises(PluginError, match=r"there is no model 'embeded'; did you mean 'embedd"):
            load_model("embeded")

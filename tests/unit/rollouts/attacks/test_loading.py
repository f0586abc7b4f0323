"""Names, models and lists to attacks."""

import sys
from types import ModuleType
from typing import Any

import pytest

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, PluginError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.rollouts.attacks import (
    Base64,
    BestOfN,
    Crescendo,
    Mixed,
    Refinement,
    RolePlay,
    Scripted,
    Static,
    Template,
    as_attack,
    available_attacks,
    load_attack,
)
from eval_toolkit.rollouts.attacks.base import is_attack

MODEL = ScriptedModel("<prompt>Hello</prompt>")
NEEDED: dict[str, dict[str, Any]] = {
    "refinement": {"model": MODEL},
    "scripted": {"probes": ["Hello"]},
    "template": {"text": "{probe}"},
}


class TestNames:
    def test_every_name_makes_an_attack_of_that_name(self) -> None:
        for name, line in available_attacks().items():
            attack: Any = load_attack(name, **NEEDED.get(name, {}))
            assert is_attack(attack)
            assert attack.name == attack.KIND == name
            assert line
            assert "\n" not in line

    def test_names_are_sorted_and_spelling_is_free(self) -> None:
        names = list(available_attacks())
        assert names == sorted(names)
        assert load_attack("Role-Play") == load_attack("roleplay") == RolePlay()

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ("role_play+base64", RolePlay(Base64())),
            (" role_play + base64 + best_of_n ", RolePlay(Base64(BestOfN()))),
            ("base64+static", Base64()),
            ("best_of_n{n=4}+role_play", BestOfN(RolePlay(), n=4)),
            ("role_play{role='a + b'}+base64", RolePlay(Base64(), role="a + b")),
            ('scripted{probes=["{goal} + 1", "}"]}', Scripted(["{goal} + 1", "}"])),
            ("base64+crescendo", Base64(Crescendo())),
        ],
    )
    def test_compositions(self, spec: str, expected: Any) -> None:
        assert load_attack(spec) == expected

    def test_a_name_made_of_parts_loads_the_same_again(self) -> None:
        attack = RolePlay(Base64(BestOfN()))
        assert load_attack(attack.name) == attack

    def test_options_go_to_the_part_that_has_them(self) -> None:
        attack = load_attack("role_play+best_of_n+refinement", n=3, model=MODEL, role="a clown")
        assert attack == RolePlay(BestOfN(Refinement(MODEL), n=3), role="a clown")
        named: Any = load_attack("role_play+base64", name="mine")
        assert (named.name, named.inner.name) == ("mine", "base64")
        assert load_attack("role_play+base64", inner=Scripted(["a"])) == RolePlay(
            Base64(Scripted(["a"]))
        )

    @pytest.mark.parametrize(
        ("spec", "options", "message"),
        [
            ("static+base64", {}, "'static' cannot wrap 'base64'; write it last"),
            ("base64", {"explian": True}, "no option 'explian'; did you mean 'explain'"),
            ("role_play+base64", {"explian": True}, "no option 'explian'; did you mean 'explain'"),
            ("static", {"zzz": 1}, "no option 'zzz'; it has follow_ups, name"),
            ("leetspeak+homoglyphs", {"share": 0.5}, "'leetspeak' and 'homoglyphs' have an option"),
            ("refinement", {}, "'refinement': needs model"),
            ("role_play+refinement", {}, "'refinement': needs model"),
            ("role_play+", {}, "a name is missing"),
            ("", {}, "a name is missing"),
            ("best_of_n{n=}", {}, "not a TOML table"),
            ("best_of_n{n=0}", {}, "`n` is 0"),
        ],
    )
    def test_mistakes(self, spec: str, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            load_attack(spec, **options)

    def test_an_unknown_name_suggests_the_nearest(self) -> None:
        with pytest.raises(PluginError, match="no attack 'crescando'; did you mean 'crescendo'"):
            load_attack("role_play+crescando")

    def test_a_spec_is_text(self) -> None:
        with pytest.raises(InvalidTypeError, match="`spec` is"):
            load_attack(Static())  # type: ignore[arg-type]


class TestPlaces:
    @pytest.fixture(autouse=True)
    def module(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = ModuleType("attacks_of_ones_own")
        made.READY = Static(["Why?"], name="mine")  # type: ignore[attr-defined]
        made.make = lambda text="x": Template(f"{text} {{probe}}")  # type: ignore[attr-defined]
        made.NUMBER = 3  # type: ignore[attr-defined]
        made.wrong = lambda: 3  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def test_an_attack_or_what_makes_one(self) -> None:
        assert load_attack("attacks_of_ones_own:READY").name == "mine"
        assert load_attack("attacks_of_ones_own:make", text="Now") == Template("Now {probe}")
        assert load_attack("base64+attacks_of_ones_own:READY").name == "base64+mine"

    @pytest.mark.parametrize(
        ("name", "error", "message"),
        [
            ("attacks_of_ones_own:NUMBER", PluginError, "is an int, which is not a valid Attack"),
            ("attacks_of_ones_own:wrong", PluginError, "is an int, which is not a valid Attack"),
            ("attacks_of_ones_own:absent", PluginError, "has no attribute 'absent'"),
            ("no_such_module:x", PluginError, "there is no module 'no_such_module'"),
        ],
    )
    def test_mistakes(self, name: str, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            load_attack(name)

    def test_a_ready_one_takes_no_options(self) -> None:
        with pytest.raises(InvalidInputError, match="is an existing object"):
            load_attack("attacks_of_ones_own:READY", follow_ups=[])

    def test_a_function_says_what_it_does_not_take(self) -> None:
        with pytest.raises(InvalidInputError, match="has no option 'words'"):
            load_attack("attacks_of_ones_own:make", words=1)


class TestAsAttack:
    def test_an_attack_is_itself(self) -> None:
        attack = Mixed([Static(), RolePlay()])
        assert as_attack(attack) is attack

    def test_a_model_refines(self) -> None:
        assert as_attack(MODEL) == Refinement(MODEL)

    def test_texts_are_a_script(self) -> None:
        assert as_attack(["a", "{goal}"]) == as_attack(("a", "{goal}")) == Scripted(["a", "{goal}"])

    @pytest.mark.parametrize("given", ["static", None, 3, b"x", Static, ScriptedModel, print])
    def test_what_is_none_of_these(self, given: Any) -> None:
        with pytest.raises(InvalidTypeError, match=r"is not an attack; pass an attack, a model"):
            as_attack(given)

    @pytest.mark.parametrize("given", [[], ["a", 3]])
    def test_lists_that_are_no_script(self, given: Any) -> None:
        with pytest.raises(InvalidInputError, match="probes"):
            as_attack(given)

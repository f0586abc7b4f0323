"""Attacks without a model: what they say, that nothing but conversation and seed decides it."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import each

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.protocols import Attack
from eval_toolkit.rollouts.attacks import (
    Base64,
    BestOfN,
    Crescendo,
    Homoglyphs,
    Leetspeak,
    Mixed,
    PrefixInjection,
    Refinement,
    RefusalSuppression,
    Reversed,
    RolePlay,
    Rot13,
    Scripted,
    Static,
    StopAttack,
    Template,
    ZeroWidth,
)
from eval_toolkit.rollouts.attacks.base import filled
from eval_toolkit.rollouts.attacks.loading import named_attack
from eval_toolkit.rollouts.conversations import Conversation, Turn

GOAL = "Write a limerick about the harbour master"
MODEL = ScriptedModel("<prompt>Hello</prompt>")
WRAPPERS: list[Callable[..., Any]] = [
    RefusalSuppression,
    RolePlay,
    PrefixInjection,
    Base64,
    Rot13,
    Reversed,
    Leetspeak,
    Homoglyphs,
    ZeroWidth,
    BestOfN,
    lambda *inner: Template("Now: {probe}", "", *inner),
]
PLAIN = [
    Static(),
    Static(["Why not?"]),
    Scripted(["One {goal}", "Two"]),
    Crescendo(),
    *(make() for make in WRAPPERS),
    Leetspeak(share=0.5),
    Mixed([Static(), RolePlay(), Leetspeak(share=0.3)]),
    RolePlay(Base64(BestOfN(Scripted(["{goal}", "Again"])))),
]
ASKING = [Refinement(MODEL), Crescendo(MODEL), RolePlay(Refinement(MODEL))]
ALL = [*PLAIN, *ASKING]
SOME_TURNS = st.lists(
    st.builds(
        Turn,
        st.text(max_size=20),
        st.one_of(st.text(max_size=20), st.just("I cannot help.")),
        st.one_of(st.none(), st.floats(0, 1)),
    ),
    max_size=4,
)


def after(n: int, goal: str = GOAL, *, opening: bool = False) -> Conversation:
    """Return a conversation of so many turns."""
    turns = [Turn(f"probe {at}", f"response {at}") for at in range(1, n + 1)]
    return Conversation(goal, turns, opening=opening)


class TestWhatAllHave:
    @pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
    def test_they_follow_the_protocol_and_describe_themselves_in_json(self, attack: Any) -> None:
        assert isinstance(attack, Attack)
        told = attack.describe()
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        assert (told["name"], told["version"]) == (attack.name, attack.version)

    @given(st.data(), st.text(max_size=60), SOME_TURNS, st.integers(0, 2**64 - 1), st.booleans())
    def test_conversation_and_seed_decide(
        self, data: Any, goal: str, turns: list[Turn], seed: int, opening: bool
    ) -> None:
        attack = data.draw(st.sampled_from(ALL))
        state = Conversation(goal, turns, opening=opening)
        again = replace(attack)
        assert again is not attack
        said = attack.ask(state, seed)
        assert said == again.ask(Conversation(goal, list(turns), opening=opening), seed)
        if not isinstance(said, str):
            reply = data.draw(st.sampled_from(["<prompt>Hi</prompt>", "Prompt: x", "Well then"]))
            assert attack.read(reply, state) == again.read(reply, state)

    @pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
    def test_a_plain_text_is_the_goal_of_a_conversation_that_has_not_begun(
        self, attack: Any
    ) -> None:
        assert attack.ask(GOAL, 3) == attack.ask(Conversation(GOAL), 3)

    @each(
        ("one", "other"),
        [
            (Static(), Static(["More"])),
            (Static(["a", "b"]), Static(["a b"])),
            (Scripted(["a"]), Scripted(["b"])),
            (Scripted(["a"]), Scripted(["a"], after="stop")),
            (Template("A {probe}"), Template("B {probe}")),
            (RolePlay(), RolePlay(role="a clown")),
            (RolePlay(Base64()), RolePlay(Rot13())),
            (RolePlay(Base64()), RolePlay(Base64(explain=False))),
            (PrefixInjection(), PrefixInjection(prefix="Of course:")),
            (Leetspeak(), Leetspeak(share=0.5)),
            (BestOfN(), BestOfN(noise=0.5)),
            (BestOfN(), BestOfN(changes=["noise"])),
            (Mixed([Static(), Rot13()]), Mixed([Rot13(), Static()])),
            (Crescendo(), Crescendo(steps=["{goal}"])),
            (Crescendo(), Crescendo(MODEL)),
            (Refinement(MODEL), Refinement(MODEL, temperature=1.0)),
            (Refinement(MODEL), Refinement(MODEL, instruction="Write.")),
            (Refinement(MODEL), Refinement(ScriptedModel("other"))),
            (Refinement(MODEL), Refinement(ScriptedModel("<prompt>Hello</prompt>", name="b"))),
        ],
    )
    def test_the_version_changes_with_the_options(self, one: Any, other: Any) -> None:
        assert one.version != other.version
        assert one.version == replace(one).version

    def test_the_usual_options_are_not_in_the_version_and_a_name_is_none(self) -> None:
        assert RolePlay().version == RolePlay(Static(), name="scene").version == "1"
        assert Leetspeak(share=0.5).version == "1+share=0.5"
        assert RolePlay(Base64()).version == "1+inner=base64@1"
        long = Scripted(["word " * 100]).version
        assert long.startswith("1+probes=")
        assert len(long) < 30

    def test_an_attack_of_ones_own_can_be_inside(self) -> None:
        @dataclass(frozen=True)
        class Shout:
            name: str = "shout"
            version: str = "7"

            def ask(self, conversation: Any, seed: int) -> str:
                return str(conversation.goal).upper()

        attack = Rot13(Shout(), explain=False)
        assert attack.ask("abc", 1) == "NOP"
        assert attack.name == "rot13+shout"
        assert attack.describe()["inner"] == {"name": "shout", "version": "7"}
        assert attack.version == "1+inner=shout@7+explain=False"

    @pytest.mark.parametrize("given", ["static", None, Static, 3])
    @pytest.mark.parametrize("make", [RolePlay, Base64, BestOfN])
    def test_only_an_attack_can_be_inside(self, make: Any, given: Any) -> None:
        with pytest.raises(InvalidTypeError, match=r"`inner` is .*it must be an attack"):
            make(given)

    def test_a_name_is_text(self) -> None:
        with pytest.raises(InvalidTypeError, match="`name` is 3"):
            Static(name=3)  # type: ignore[arg-type]


class TestStatic:
    def test_the_goal_then_the_follow_ups_and_the_last_of_them_again(self) -> None:
        attack = Static(["Sure about {goal}?", "Really?"])
        said = [attack.ask(after(n), 1) for n in range(4)]
        assert said == [GOAL, f"Sure about {GOAL}?", "Really?", "Really?"]

    def test_without_follow_ups_it_repeats(self) -> None:
        assert [Static().ask(after(n), 1) for n in range(3)] == [GOAL] * 3

    @pytest.mark.parametrize("opening", [False, True])
    @pytest.mark.parametrize("spec", ["static", "role_play", "leetspeak+role_play"])
    def test_what_is_named_differs_in_every_turn(self, spec: str, opening: bool) -> None:
        attack: Any = named_attack(spec)
        probes = [attack.ask(after(n, opening=opening), 1) for n in range(20)]
        assert len(set(probes)) == 20
        if spec == "static":
            assert (probes[0] == GOAL) is not opening

    def test_what_is_named_can_repeat(self) -> None:
        assert named_attack("static{follow_ups=[]}") == Static()
        assert named_attack("static{follow_ups=['a']}") == Static(["a"])
        assert named_attack("static").version != Static().version == "1"

    def test_an_opening_is_not_said_twice(self) -> None:
        assert Static().ask(after(0, opening=True), 1) == "Please go on."
        attack = Static(["And then?"])
        state = after(0, opening=True)
        probe = attack.ask(state, 1)
        (message,) = state.with_probe(probe).messages
        assert message.content == f"{GOAL}\n\nAnd then?"

    @pytest.mark.parametrize("given", ["text", 3, {"a": 1}])
    def test_follow_ups_are_a_list(self, given: Any) -> None:
        with pytest.raises(InvalidTypeError, match="`follow_ups` is"):
            Static(given)

    def test_follow_ups_are_texts(self) -> None:
        with pytest.raises(InvalidInputError, match=r"follow_ups\[1\] is ' '"):
            Static(["a", " "])


class TestScripted:
    def test_one_probe_per_turn_and_the_last_again(self) -> None:
        attack = Scripted(["Hello", "{goal}!", 'As {"json": 1}'])
        said = [attack.ask(after(n), 1) for n in range(5)]
        assert said == ["Hello", f"{GOAL}!", *['As {"json": 1}'] * 3]

    def test_it_can_stop(self) -> None:
        attack = Scripted(["Hello", "{goal}"], after="stop")
        assert attack.ask(after(1), 1) == GOAL
        with pytest.raises(StopAttack, match="all 2 probes were sent"):
            attack.ask(after(2), 1)

    def test_the_end_goes_through_what_is_around(self) -> None:
        attack = RolePlay(Base64(Scripted(["Hello"], after="stop")))
        with pytest.raises(StopAttack):
            attack.ask(after(1), 1)

    def test_a_goal_with_braces_is_not_read_as_a_template(self) -> None:
        assert Scripted(["{goal} now"]).ask("{goal}{probe}{x", 1) == "{goal}{probe}{x now"
        assert filled("{probe}|{goal}", "{probe}", "{goal}") == "{goal}|{probe}"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"probes": []}, "`probes` is empty"),
            ({"probes": "text"}, "must be a list of strings"),
            ({"probes": ["a", 3]}, r"probes\[1\] is 3"),
            ({"probes": ["a"], "after": "end"}, "`after` is 'end'"),
        ],
    )
    def test_bad_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Scripted(**options)


class TestTemplates:
    @pytest.mark.parametrize("make", [RefusalSuppression, RolePlay, PrefixInjection])
    @given(goal=st.text(min_size=1, max_size=40))
    def test_the_probe_is_inside_as_it_is(self, make: Any, goal: str) -> None:
        said = make().ask(goal, 1)
        assert goal in said
        assert len(said) > len(goal) + 50
        assert "{role}" not in said.replace(goal, "")
        assert "{prefix}" not in said.replace(goal, "")

    def test_fields_in_goal_and_options_are_left_alone(self) -> None:
        said = RolePlay(role="{probe}").ask("{role}", 1)
        assert "You play {probe}, and" in said
        assert "\n\n{role}\n\n" in said
        said = PrefixInjection(prefix="{goal}").ask("{prefix}", 1)
        assert said.startswith("{prefix}\n")
        assert said.endswith('"{goal}"')

    def test_words_of_ones_own(self) -> None:
        attack = Template("{goal} / {probe}", "mine", Rot13(explain=False))
        assert attack.ask("abc", 1) == "abc / nop"
        assert attack.name == "mine"
        assert Template("{probe}").name == "template"

    @pytest.mark.parametrize("text", ["", "no field", None, "{text}"])
    def test_a_template_has_a_field(self, text: Any) -> None:
        with pytest.raises(
            InvalidInputError, match=r"must be a string that contains \{probe\} or \{goal\}"
        ):
            Template(text)

    @pytest.mark.parametrize(("make", "option"), [(RolePlay, "role"), (PrefixInjection, "prefix")])
    def test_empty_words(self, make: Any, option: str) -> None:
        with pytest.raises(InvalidInputError, match=f"`{option}` is ' '"):
            make(**{option: " "})


class TestComposition:
    def test_the_outer_one_wraps_the_inner_ones_text(self) -> None:
        attack = RolePlay(Base64())
        said = attack.ask(GOAL, 1)
        assert Base64().ask(GOAL, 1) in said
        assert GOAL not in said
        other = Base64(RolePlay(), explain=False)
        assert other.decode(other.ask(GOAL, 1)) == RolePlay().ask(GOAL, 1)

    @given(
        st.lists(st.sampled_from(range(len(WRAPPERS))), max_size=4),
        st.integers(0, 2**32),
        st.text(),
    )
    def test_names_say_what_is_inside_and_every_order_works(
        self, order: list[int], seed: int, goal: str
    ) -> None:
        attack: Any = Static()
        kinds = []
        for at in order:
            attack = WRAPPERS[at](attack)
            kinds.insert(0, attack.KIND)
        assert attack.name == ("+".join(kinds) or "static")
        assert isinstance(attack.ask(goal, seed), str)
        assert len({attack.version, attack.name}) == 2

    def test_a_request_is_passed_on_and_the_reply_is_changed(self) -> None:
        inner = Refinement(MODEL)
        attack = Base64(inner, explain=False)
        state = after(1)
        assert attack.ask(state, 5) == inner.ask(state, 5)
        assert attack.model is MODEL
        assert attack.decode(attack.read("<prompt>Hello</prompt>", state)) == "Hello"

    def test_replies_that_differ_are_changed_differently(self) -> None:
        attack = BestOfN(Refinement(MODEL))
        text = "a long enough probe to be changed at random"
        said = {attack.read(f"{' ' * n}{text}", after(0)) for n in range(5)}
        assert len(said) == 5

    def test_nobody_is_asked_where_nobody_is(self) -> None:
        assert RolePlay().model is None
        assert RolePlay().read("as it is", GOAL) == RolePlay().ask("as it is", 1)


class TestEncodings:
    @pytest.mark.parametrize("make", [Base64, Rot13, Reversed])
    @given(goal=st.text())
    def test_what_is_coded_can_be_read_again(self, make: Any, goal: str) -> None:
        attack = make(explain=False)
        assert attack.decode(attack.ask(goal, 1)) == goal
        assert attack.decode(attack.encode(goal)) == goal

    @pytest.mark.parametrize("make", [Base64, Rot13, Reversed])
    def test_the_probe_says_how_to_read_it(self, make: Any) -> None:
        how, _, coded = make().ask(GOAL, 1).partition("\n\n")
        assert how.startswith(make.HOW)
        assert make().decode(coded) == GOAL

    @pytest.mark.parametrize("make", [Homoglyphs, ZeroWidth])
    @given(
        goal=st.text(st.characters(max_codepoint=0x3FF)),
        share=st.floats(0, 1),
        seed=st.integers(0, 2**64),
    )
    def test_what_looks_alike_can_be_undone(
        self, make: Any, goal: str, share: float, seed: int
    ) -> None:
        # No Cyrillic letter and no character without width has a code below U+0400.
        attack = make(share=share)
        assert attack.decode(attack.ask(goal, seed)) == goal

    def test_base64_is_that_of_the_standard_library(self) -> None:
        said = Base64(explain=False).ask("Größe 5 €", 1)
        assert base64.b64decode(said).decode("utf-8") == "Größe 5 €"
        assert Base64().decode(Base64().encode("\ud800")) == "\ud800"

    @pytest.mark.parametrize("text", ["not base64!", "AAA", "/w=="])
    def test_what_is_not_base64(self, text: str) -> None:
        with pytest.raises(InvalidInputError, match="is not valid Base64"):
            Base64().decode(text)

    @pytest.mark.parametrize("make", [Leetspeak, Homoglyphs])
    @given(goal=st.text(), seed=st.integers(0, 2**64))
    def test_a_letter_stands_for_a_letter(self, make: Any, goal: str, seed: int) -> None:
        assert make(share=0.0).ask(goal, seed) == goal
        assert len(make(share=0.5).ask(goal, seed)) == len(goal)
        # At 1 the seed has nothing to draw.
        assert make().ask(goal, seed) == make().ask(goal, seed + 1)

    def test_leetspeak_by_hand(self) -> None:
        assert (
            Leetspeak().ask("A test of SIX words, 8 o'clock", 1) == "4 7357 0f 51X w0rd5, 8 0'cl0ck"
        )

    def test_homoglyphs_look_alike_and_are_not_latin(self) -> None:
        said = Homoglyphs().ask("aceiopsxyABCEHIKMOPTX", 1)
        assert all("\u0400" <= sign <= "\u04ff" for sign in said)

    @pytest.mark.parametrize("make", [Leetspeak, Homoglyphs, ZeroWidth])
    def test_the_share_is_that_of_what_can_be_changed(self, make: Any) -> None:
        goal = "e" * 1000
        n = [sum(sign != "e" for sign in make(share=0.3).ask(goal, seed)) for seed in range(20)]
        # 20 000 draws: the share is within 5 standard errors (0.0032) of 0.3.
        assert abs(sum(n) / 20_000 - 0.3) < 5 * 0.0033
        assert len(set(n)) > 1

    @pytest.mark.parametrize("make", [Leetspeak, Homoglyphs, ZeroWidth])
    @pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "x", True])
    def test_a_share_is_between_0_and_1(self, make: Any, share: Any) -> None:
        with pytest.raises(InvalidInputError, match="`share`"):
            make(share=share)


class TestBestOfN:
    TEXT = "Which famous river flows through the beautiful old town of Heidelberg?"

    def test_branches_differ_and_each_is_the_same_again(self) -> None:
        attack = BestOfN(n=16)
        said = [attack.ask(self.TEXT, seed) for seed in range(16)]
        assert attack.branches == 16
        assert len(set(said)) == 16
        assert said == [BestOfN(n=4).ask(self.TEXT, seed) for seed in range(16)]

    @given(goal=st.text(), seed=st.integers(0, 2**64))
    def test_capitals_change_case_alone(self, goal: str, seed: int) -> None:
        said = BestOfN(changes=["capitals"]).ask(goal, seed)
        assert len(said) == len(goal)
        assert all(b in (a, a.swapcase()) for a, b in zip(goal, said, strict=True))

    @given(goal=st.text(), seed=st.integers(0, 2**64))
    def test_shuffling_keeps_letters_and_the_ends_of_words(self, goal: str, seed: int) -> None:
        said = BestOfN(changes=["shuffle"], share=1.0).ask(goal, seed)
        assert sorted(said) == sorted(goal)
        for a, b in zip(goal.split(), said.split(), strict=True):
            assert (a[0], a[-1], sorted(a)) == (b[0], b[-1], sorted(b))

    @given(goal=st.text(), seed=st.integers(0, 2**64))
    def test_noise_moves_to_a_neighbour_that_can_be_seen(self, goal: str, seed: int) -> None:
        said = BestOfN(changes=["noise"], noise=1.0).ask(goal, seed)
        for a, b in zip(goal, said, strict=True):
            seen = 33 <= ord(a) <= 126
            assert abs(ord(a) - ord(b)) == seen
            assert not seen or 33 <= ord(b) <= 126

    @given(goal=st.text(), seed=st.integers(0, 2**64))
    def test_nothing_happens_at_zero(self, goal: str, seed: int) -> None:
        assert BestOfN(share=0.0, noise=0.0).ask(goal, seed) == goal

    def test_turns_differ(self) -> None:
        attack = BestOfN()
        assert len({attack.ask(after(n, self.TEXT), 1) for n in range(5)}) == 5

    def test_the_shares_are_as_asked_for(self) -> None:
        goal = "e" * 5000
        capitals = BestOfN(changes=["capitals"], share=0.6).ask(goal, 1).count("E")
        noisy = 5000 - BestOfN(changes=["noise"], noise=0.06).ask(goal, 1).count("e")
        # Within 5 standard errors of a binomial count: 34.6 and 16.8.
        assert abs(capitals - 3000) < 5 * 34.7
        assert abs(noisy - 300) < 5 * 16.8

    def test_encodings_around_it_have_as_many_branches(self) -> None:
        attack = Base64(BestOfN(n=5), explain=False)
        assert attack.branches == 5
        assert attack.decode(attack.ask(self.TEXT, 2)) == BestOfN().ask(self.TEXT, 2)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n": 0}, "`n` is 0"),
            ({"n": 1.5}, "`n` must be an integer"),
            ({"changes": []}, "`changes` is empty"),
            ({"changes": ["caps"]}, "`changes` is 'caps'; choose one of 'capitals'"),
            ({"changes": "noise"}, "`changes` is 'noise'; it must be a list"),
            ({"noise": 2}, "`noise` is 2"),
        ],
    )
    def test_bad_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            BestOfN(**options)


class TestMixed:
    def test_branches_take_turns(self) -> None:
        attacks = [Static(), RolePlay(), Base64()]
        mixed = Mixed(attacks)
        assert mixed.branches == 3
        assert [mixed.for_branch(k) for k in range(5)] == [*attacks, *attacks[:2]]

    def test_mixes_inside_are_spread_over_the_rounds(self) -> None:
        mixed = Mixed([Mixed([Rot13(), Reversed()], name="codes"), Static()])
        names = [mixed.for_branch(k).name for k in range(6)]
        assert names == ["rot13", "static", "reversed", "static", "rot13", "static"]

    def test_what_is_around_a_mix_is_around_each_of_it(self) -> None:
        attack = RolePlay(Base64(Mixed([Static(), Rot13()])))
        assert attack.branches == 2
        assert attack.name == "role_play+base64+mixed"
        assert [attack.for_branch(k).name for k in (0, 1)] == [
            "role_play+base64",
            "role_play+base64+rot13",
        ]
        assert attack.for_branch(1).ask(GOAL, 1) == RolePlay(Base64(Rot13())).ask(GOAL, 1)
        named = RolePlay(Mixed([Static(), Rot13()]), name="scene")
        assert named.for_branch(1).name == "scene"
        assert not hasattr(RolePlay(), "for_branch")
        assert not hasattr(attack.for_branch(1), "for_branch")

    def test_asked_itself_it_draws_by_the_seed(self) -> None:
        mixed = Mixed([Static(), Rot13(explain=False)])
        said = {mixed.ask("abc", seed) for seed in range(20)}
        assert said == {"abc", "nop"}

    def test_a_model_can_only_be_asked_in_its_branch(self) -> None:
        mixed = Mixed([Refinement(MODEL)])
        with pytest.raises(
            InvalidInputError, match=r"'refinement' queries a model; in a mix, use `for_branch"
        ):
            mixed.ask(GOAL, 1)
        assert mixed.for_branch(0).ask(GOAL, 1) == Refinement(MODEL).ask(GOAL, 1)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ([], "`attacks` is empty"),
            ("static", "must be a list of attacks"),
            (Static(), "must be a list of attacks"),
            ([Static(), "base64"], r"`attacks\[1\]` is 'base64'"),
            ([Static(), Static(["Why?"])], "two attacks have the name 'static'"),
        ],
    )
    def test_bad_input(self, given: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            Mixed(given)

    def test_a_branch_has_a_number(self) -> None:
        with pytest.raises(InvalidInputError, match="`branch` is -1"):
            Mixed([Static()]).for_branch(-1)

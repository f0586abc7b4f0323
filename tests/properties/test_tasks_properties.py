"""What holds of every task: identity, order and examples depend on the item alone."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eval_toolkit.models.messages import Message, Role
from eval_toolkit.tasks import (
    BaseTask,
    MCStyle,
    ResponseType,
    Template,
    format_prompt,
    joined_choice,
)
from eval_toolkit.tasks.order import permutation

TEXTS = st.text(min_size=1, max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries({"q": TEXTS, "a": st.integers(0, 3), "x": st.none() | st.booleans()}),
    min_size=1,
    max_size=12,
)


class Quiz(BaseTask[str]):
    NAME = "Quiz"
    TASK_STYLER = MCStyle()

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        return str(item["q"])

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        return ["a", "b", "c", "d"]

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        return int(item["a"])


@given(rows=ROWS, limit=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_a_limit_is_a_prefix_and_ids_are_unique(
    rows: list[dict[str, Any]], limit: int, seed: int
) -> None:
    task = Quiz(rows=rows, seed=seed, shuffle_choices=True)
    whole = task.samples()
    assert task.samples(limit) == whole[:limit]
    assert len({sample.id for sample in whole}) == len(rows)
    assert sorted(sample.index for sample in whole) == list(range(len(rows)))


@given(rows=ROWS, data=st.data())
def test_rows_in_another_order_are_the_same_units(rows: list[dict[str, Any]], data: Any) -> None:
    mixed = data.draw(st.permutations(rows))
    units = [(s.id, s.content_hash, s.messages) for s in Quiz(rows=rows).samples()]
    assert [(s.id, s.content_hash, s.messages) for s in Quiz(rows=mixed).samples()] == units


@settings(max_examples=50)
@given(rows=ROWS, pool=ROWS, shots=st.integers(1, 3))
def test_examples_never_ask_the_question_itself(
    rows: list[dict[str, Any]], pool: list[dict[str, Any]], shots: int
) -> None:
    pool = [*pool, *({"q": f"spare {n}", "a": 0, "x": None} for n in range(shots))]
    task = Quiz(shots, rows={"test": rows, "train": [*pool, *rows]})
    plain = Quiz(0, rows={"test": rows})
    for sample, bare in zip(task.samples(), plain.samples(), strict=True):
        asked = [m.content for m in sample.messages if m.role is Role.USER]
        assert len(asked) == shots + 1
        assert asked[-1] not in asked[:-1]
        assert (sample.id, sample.content_hash) == (bare.id, bare.content_hash)
        assert sample.messages[-2:] == bare.messages


@given(seed=st.integers(0, 2**64 - 1), n=st.integers(0, 60))
def test_permutations(seed: int, n: int) -> None:
    assert sorted(permutation(seed, n)) == list(range(n))
    assert list(permutation(seed, n)) == list(permutation(seed, n))


def test_permutations_are_uniform() -> None:
    # 3! = 6 orders, 6000 seeds: each 1000 times, standard deviation 29; five of them allowed
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(6000):
        order = tuple(permutation(seed, 3))
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())


@given(end=st.text(), choice=st.text(min_size=1))
def test_one_space_at_most_is_added(end: str, choice: str) -> None:
    joined = joined_choice(end, choice)
    assert joined in (choice, f" {choice}")
    if end:
        assert end[-1].isspace() or joined[0].isspace()
    assert joined_choice(end, joined) == joined


@given(contents=st.lists(TEXTS, min_size=1, max_size=6), system=st.none() | TEXTS)
def test_text_formatters_keep_every_message_in_order(
    contents: list[str], system: str | None
) -> None:
    roles = [Role.USER, Role.ASSISTANT] * 3
    turns = [Message(role, text) for role, text in zip(roles, contents, strict=False)]
    if system is not None:
        turns.insert(0, Message(Role.SYSTEM, system))
    for formatter in ("plain", "chatml"):
        text = format_prompt(turns, formatter)
        assert isinstance(text, str)
        at = 0
        for turn in turns:
            at = text.index(turn.content, at) + len(turn.content)
        if turns[-1].role is Role.ASSISTANT:
            assert text.endswith(turns[-1].content)  # a cue is never closed


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.text(), min_size=1))
def test_templates_put_values_in_as_they_are(row: dict[str, str]) -> None:
    template = "|".join(f"{{{name}}}" for name in row)
    assert Template(template).render(row) == "|".join(row.values())


@given(st.text())
def test_doubled_braces_write_any_text(text: str) -> None:
    assert Template(text.replace("{", "{{").replace("}", "}}")).render({}) == text


def test_response_type() -> None:
    assert Quiz.RESPONSE_TYPE is ResponseType.LOGLIKELIHOODS

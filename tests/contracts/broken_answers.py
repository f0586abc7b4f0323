"""Objects that handle answers and conversations, each of which breaks one rule of its contract."""

import itertools
from typing import Any

from tests.contracts.broken import Mutants, counting, like

from eval_toolkit.artifacts import CsvPredictionReader
from eval_toolkit.errors import ModelError
from eval_toolkit.graders import ColumnInfo
from eval_toolkit.metric_specs import mean_of
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.models.responses import RawCompletion, RawLoglikelihood, ResponseType
from eval_toolkit.rollouts.attacks import StopAttack
from eval_toolkit.runs import Kind, Unit
from eval_toolkit.runs.kinds import Identity
from eval_toolkit.tasks import BaseTask
from eval_toolkit.testing import ODD_TEXTS, TEXTS

# --- graders ------------------------------------------------------------------------------------


class Same:
    """Whether the answer is the reference."""

    name = "same"
    version = "1"

    def columns(self) -> Any:
        return {"same": ColumnInfo(bounds=(0.0, 1.0), binary=True)}

    def grade(self, response: Any) -> Any:
        return {"same": float(response.completion in response.ground_truth_list)}


def _marking(self: Any, response: Any) -> Any:
    grades = Same.grade(self, response)
    response.subject = "graded"
    return grades


def _plain_alone(self: Any, response: Any) -> Any:
    if response.completion and response.completion in ODD_TEXTS:
        raise ZeroDivisionError("what is that")
    return Same.grade(self, response)


GRADERS: Mutants = {
    "is_named": (like(Same, name=None),),
    "has_a_version": (like(Same, version=2),),
    "says_what_it_grades": (like(Same, response_types=[ResponseType.COMPLETION]),),
    "grades_are_numbers_or_reasons": (
        like(Same, grade=lambda self, response: {"same": float("nan")}),
        "grades_the_same_again",  # no NaN is another's equal
        "odd_texts_are_graded",
    ),
    "fills_the_columns_it_names": (like(Same, grade=lambda self, response: {"other": 1.0}),),
    "grades_keep_within_bounds": (
        like(Same, grade=lambda self, response: {"same": 0.5}),
        "odd_texts_are_graded",
    ),
    "grades_the_same_again": (like(Same, grade=counting(lambda n, r: {"same": float(n % 2)})),),
    "responses_stay_as_they_are": (like(Same, grade=_marking),),
    "odd_texts_are_graded": (like(Same, grade=_plain_alone),),
    "answers_in_texts": (like(Same, answer=lambda self, response: 42),),
    "lists_its_metrics": (like(Same, metrics=lambda self: [mean_of("same"), mean_of("same")]),),
}


# --- tasks --------------------------------------------------------------------------------------


class Sums(BaseTask[str]):
    """Additions, one of two choices."""

    NAME = "Sums"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def __init__(self) -> None:
        super().__init__(rows=[{"n": n} for n in range(4)])

    def _get_instruction_text(self, item: Any) -> str:
        return f"{item['n']} + 1 ="

    def _get_ground_truth(self, item: Any) -> str:
        return str(item["n"] + 1)

    def _get_possible_completions(self, item: Any) -> list[str]:
        return [str(item["n"] + 1), str(item["n"] + 2)]


class Twice(Sums):
    """Shows one sample twice."""

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        found = super().samples(limit, order=order)
        return [*found, found[0]]


class Endless(Sums):
    """Asks something else every time."""

    asked = itertools.count()

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        from dataclasses import replace

        found = super().samples(limit, order=order)
        return [replace(one, context=next(self.asked)) for one in found]


class FromTheEnd(Sums):
    """Where few are asked for, they are others."""

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        from dataclasses import replace

        found = super().samples(limit, order=order)
        return [replace(one, id="last") for one in found] if limit == 1 else found


class Silent(Sums):
    """Asks nothing."""

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        return []


class OfOne(Sums):
    """There is nothing to choose."""

    def _get_possible_completions(self, item: Any) -> list[str]:
        return [str(item["n"] + 1)]


TASKS: Mutants = {
    "task_is_named": (like(Sums, VERSION=3),),
    "asks_something": (Silent(),),
    "samples_have_ids_of_their_own": (Twice(),),
    "choices_hold_the_answer": (OfOne(),),
    "asks_the_same_again": (Endless(),),
    "a_limit_takes_the_first": (FromTheEnd(),),
    "graders_fit": (like(Sums, METRICS=["accuracy", "accuracy"]),),
    "describes_the_task": (like(Sums, describe=counting(lambda n: {"asked": n})),),
}


# --- models -------------------------------------------------------------------------------------


class Parrot:
    """Says the last word, and finds short continuations likely."""

    name = "parrot"

    def describe(self) -> Any:
        return {"kind": "parrot"}

    async def generate(self, request: GenerateRequest) -> Any:
        prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
        text = (prompt.split() or ["hm"])[-1]
        for stop in request.stop:
            text = text.partition(stop)[0]
        return RawCompletion(text)

    async def loglikelihood(self, request: LoglikelihoodRequest) -> Any:
        numbers = [-float(len(text)) for text in request.continuations]
        return RawLoglikelihood(numbers, request.continuations)


async def _cannot(self: Any, request: Any) -> Any:
    raise ModelError("cannot", kind="unsupported")


async def _bare_text(self: Any, request: Any) -> Any:
    return (await Parrot().generate(request)).text


async def _turned(self: Any, request: Any) -> Any:
    answer = await Parrot().loglikelihood(request)
    return RawLoglikelihood(list(answer.loglikelihoods)[::-1], request.continuations[::-1])


async def _first_likely(self: Any, request: Any) -> Any:
    return RawLoglikelihood([-1.0, -2.0][: len(request.continuations)], request.continuations)


async def _goes_on(self: Any, request: Any) -> Any:
    return await Parrot().generate(GenerateRequest(request.prompt))


async def _texts_alone(self: Any, request: Any) -> Any:
    return RawCompletion(request.prompt.strip()[-3:].partition((*request.stop, "\0")[0])[0])


async def _no_blanks(self: Any, request: Any) -> Any:
    if isinstance(request.prompt, str) and not request.prompt.strip():
        raise ZeroDivisionError("nothing to say")
    return await Parrot().generate(request)


class Moody(Parrot):
    """Says more every time."""

    def __init__(self) -> None:
        self.n = 0

    async def generate(self, request: GenerateRequest) -> Any:
        self.n += 1
        return RawCompletion("" if request.stop else "a" * self.n)


class Crowded(Parrot):
    """Mixes up what is under way together."""

    def __init__(self) -> None:
        self.under_way = 0

    async def generate(self, request: GenerateRequest) -> Any:
        import asyncio

        self.under_way += 1
        await asyncio.sleep(0)
        crowded = self.under_way > 1
        self.under_way -= 1
        answer = await super().generate(request)
        return RawCompletion("?") if crowded else answer


class InItsLoop(Parrot):
    """Keeps what belongs to the loop it was first asked in."""

    loop: Any = None

    async def generate(self, request: GenerateRequest) -> Any:
        import asyncio

        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("Event loop is closed")
        return await super().generate(request)


MODELS: Mutants = {
    "is_named": (like(Parrot, name=""),),
    "describes_itself": (like(Parrot, describe=counting(lambda n: {"n": n})),),
    "describes_without_secrets": (
        like(Parrot, describe=lambda self: {"api_key": "sk-Zx81kQ0pLm2Nv7Rt4Wy9"}),
    ),
    "works_in_another_loop": (
        InItsLoop(),
        # every rule asks in a loop of its own
        "can_do_something",
        "generates_texts",
        "likeliest_text_again",
        "many_at_once",
        "stops_before_the_stop",
        "takes_conversations",
        "odd_texts_are_answered",
    ),
    "can_do_something": (like(Parrot, generate=_cannot, loglikelihood=_cannot),),
    "generates_texts": (
        like(Parrot, generate=_bare_text),
        # nothing can be read off an answer that is none
        "likeliest_text_again",
        "many_at_once",
        "stops_before_the_stop",
        "takes_conversations",
    ),
    "scores_every_continuation": (like(Parrot, loglikelihood=_turned),),
    "likeliest_text_again": (Moody(), "many_at_once"),
    "order_of_continuations_does_not_matter": (like(Parrot, loglikelihood=_first_likely),),
    "many_at_once": (Crowded(),),
    "stops_before_the_stop": (like(Parrot, generate=_goes_on),),
    "takes_conversations": (like(Parrot, generate=_texts_alone),),
    "odd_texts_are_answered": (like(Parrot, generate=_no_blanks),),
    "counts_tokens": (like(Parrot, count_tokens=lambda self, text: len(text) / 4),),
    "closes": (like(Parrot, aclose=lambda self: 1 / 0),),
}


# --- scorers of texts ---------------------------------------------------------------------------


class Shouting:
    """The share of capitals."""

    name = "shouting"
    version = "1"
    threshold = 0.5
    higher_is_worse = True
    bounds = (0.0, 1.0)

    def score(self, texts: Any) -> Any:
        return [sum(map(str.isupper, text)) / max(len(text), 1) for text in texts]


def _reversing(self: Any, texts: Any) -> Any:
    numbers = Shouting.score(self, texts)
    texts.reverse()
    return numbers


TEXT_SCORERS: Mutants = {
    "is_named": (like(Shouting, name="two\nlines"),),
    "name_starts_columns": (like(Shouting, name="a/b"),),
    "has_a_version": (like(Shouting, version=""),),
    "says_what_is_bad": (like(Shouting, mode="sometimes"),),
    "one_number_per_text": (
        like(
            Shouting,
            score=lambda self, texts: [True if t in TEXTS else n for t, n in _scored(texts)],
        ),
    ),
    "no_text_no_number": (
        like(Shouting, score=lambda self, texts: Shouting.score(self, texts) or [0.0]),
    ),
    "numbers_keep_within_bounds": (like(Shouting, bounds=(0.2, 1.0)),),
    "same_texts_same_numbers": (
        like(Shouting, score=counting(lambda n, texts: [n * 1e-9] * len(texts))),
    ),
    "order_of_texts_does_not_matter": (
        like(Shouting, score=lambda self, texts: [1 / len(texts) for _ in texts]),
    ),
    "scored_texts_stay_as_they_are": (like(Shouting, score=_reversing),),
    "odd_texts_get_numbers": (
        like(Shouting, score=lambda self, texts: [0.5 / (len(text) and 1) for text in texts]),
    ),
    "tells_categories_apart": (
        like(
            Shouting,
            categories=("loud", "rude"),
            score_categories=lambda self, texts: {"loud": [0.0] * len(texts)},
        ),
    ),
    "describes_itself_if_at_all": (like(Shouting, describe=lambda self: {"of": {1, 2}}),),
}


def _scored(texts: Any) -> Any:
    return zip(texts, Shouting().score(texts), strict=True)


# --- attacks and changes of texts ---------------------------------------------------------------


class Plain:
    """Says the goal."""

    name = "plain"
    version = "1"

    def ask(self, conversation: Any, seed: int) -> Any:
        return conversation.goal


def _never(self: Any, conversation: Any, seed: int) -> Any:
    raise StopAttack("nothing to say")


ATTACKS: Mutants = {
    "is_named": (like(Plain, name=""),),
    "has_a_version": (like(Plain, version=None),),
    "asks_in_texts_or_requests": (like(Plain, ask=lambda self, conversation, seed: " "),),
    "begins": (like(Plain, ask=_never),),
    "same_seed_same_probe": (like(Plain, ask=counting(lambda n, state, seed: f"number {n}")),),
    "needs_a_model_to_ask": (
        like(Plain, ask=lambda self, conversation, seed: GenerateRequest("Write a probe.")),
    ),
    "odd_goals_are_pursued": (
        like(Plain, ask=lambda self, conversation, seed: conversation.goal.format()),
    ),
    "has_branches": (like(Plain, branches=0),),
    "describes_itself_if_at_all": (like(Plain, describe=lambda self: ["plain"]),),
}


class Upper:
    """Capitals."""

    name = "upper"

    def transform(self, text: str) -> Any:
        return text.upper()


TRANSFORMS: Mutants = {
    "is_named": (like(Upper, name=7),),
    "version_if_any": (like(Upper, version=7),),
    "returns_a_text": (like(Upper, transform=lambda self, text: text in ODD_TEXTS and text),),
    "same_text_same_change": (like(Upper, transform=counting(lambda n, text: f"{text}{n}")),),
    "odd_texts_are_changed": (
        like(Upper, transform=lambda self, text: text[0] + text[1:].lower()),
    ),
}


class Reader(CsvPredictionReader):
    """Reads CSV."""


def reading(**changed: Any) -> Any:
    def read_predictions(self: Any, uri: str, *, columns: Any) -> Any:
        found = dict(CsvPredictionReader().read_predictions(uri, columns=columns))
        return {name: values for name, values in (found | changed).items() if values is not None}

    return like(Reader, read_predictions=read_predictions)


READERS: Mutants = {
    "version_if_any": (like(Reader, version=[]),),
    "reads_the_columns_that_are_named": (reading(score=None), "reads_every_row"),
    "reads_every_row": (reading(score=[0.25]),),
}


class Doubling(Kind[Any]):
    """Doubles numbers."""

    name = "doubling"

    def config(self) -> dict[str, Any]:
        return {"system": "adder"}

    def units(self) -> list[Unit]:
        return [Unit(id=str(n), input=n, reference=2 * n) for n in range(3)]

    def respond(self, inputs: list[Any]) -> list[Any]:
        return [n + 2 for n in inputs]

    def score(self, unit: Unit, output: Any) -> dict[str, float | None]:
        return {"right": float(output == unit.reference)}

    def metrics(self) -> list[Any]:
        return [mean_of("right")]


def _fails_at_two(self: Any, unit: Unit, output: Any) -> dict[str, float]:
    return {"right": 1.0 / (unit.input - 2)}


_FORGETFUL = itertools.count()


def _asking_again(self: Any, context: Any) -> Any:
    return context.answers(self.respond, self.units(), f"number {next(_FORGETFUL)}")


KINDS: Mutants = {
    "kind_is_named": (like(Doubling, name="two\nlines"),),
    "configuration_is_plain": (
        like(Doubling, config=lambda self: {"system": "adder", "at": next(_FORGETFUL)}),
        "runs_again_ask_nothing",
    ),
    "identity_is_configured": (
        like(Doubling, identity=lambda self: Identity(settings=("sytem",))),
    ),
    "units_have_ids_of_their_own": (
        like(
            Doubling,
            units=lambda self: [Unit(id=str(next(_FORGETFUL)), input=1, reference=2)],
            asks=False,
            produce=lambda self, context: [],
        ),
    ),
    "metrics_have_names_of_their_own": (
        like(Doubling, metrics=lambda self: [mean_of("right")] * 2),
        *("every_unit_gets_its_numbers", "runs_again_ask_nothing", "shows_its_units"),
    ),
    "every_unit_gets_its_numbers": (like(Doubling, score=_fails_at_two),),
    "runs_again_ask_nothing": (like(Doubling, produce=_asking_again),),
    "shows_its_units": (like(Doubling, show=classmethod(lambda cls, unit: "text")),),
}
MUTANTS = {
    "attack": ATTACKS,
    "grader": GRADERS,
    "kind": KINDS,
    "model": MODELS,
    "prediction_reader": READERS,
    "task": TASKS,
    "text_scorer": TEXT_SCORERS,
    "text_transform": TRANSFORMS,
}
FINE = {
    "attack": Plain(),
    "grader": Same(),
    "kind": Doubling(),
    "model": Parrot(),
    "prediction_reader": Reader(),
    "task": Sums(),
    "text_scorer": Shouting(),
    "text_transform": Upper(),
}
"""What the broken ones are made of."""

"""Graders, tasks, models and scorers that each violate one rule of their contract."""

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
    """Grader that compares the answer with the reference."""

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
    "response_types_are_valid": (like(Same, response_types=[ResponseType.COMPLETION]),),
    "grades_are_valid": (
        like(Same, grade=lambda self, response: {"same": float("nan")}),
        "grading_is_deterministic",  # no NaN is another's equal
        "grades_unusual_texts",
    ),
    "fills_declared_columns": (like(Same, grade=lambda self, response: {"other": 1.0}),),
    "grades_within_bounds": (
        like(Same, grade=lambda self, response: {"same": 0.5}),
        "grades_unusual_texts",
    ),
    "grading_is_deterministic": (like(Same, grade=counting(lambda n, r: {"same": float(n % 2)})),),
    "does_not_modify_responses": (like(Same, grade=_marking),),
    "grades_unusual_texts": (like(Same, grade=_plain_alone),),
    "answer_is_string": (like(Same, answer=lambda self, response: 42),),
    "metrics_are_valid": (like(Same, metrics=lambda self: [mean_of("same"), mean_of("same")]),),
}


# --- tasks --------------------------------------------------------------------------------------


class Sums(BaseTask[str]):
    """Task with additions and two choices."""

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
    """Task that returns one sample twice."""

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        found = super().samples(limit, order=order)
        return [*found, found[0]]


class Endless(Sums):
    """Task whose samples change on every call."""

    asked = itertools.count()

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        from dataclasses import replace

        found = super().samples(limit, order=order)
        return [replace(one, context=next(self.asked)) for one in found]


class FromTheEnd(Sums):
    """Task whose first sample depends on the limit."""

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        from dataclasses import replace

        found = super().samples(limit, order=order)
        return [replace(one, id="last") for one in found] if limit == 1 else found


class Silent(Sums):
    """Task without samples."""

    def samples(self, limit: int | None = None, *, order: str = "shuffled") -> Any:
        return []


class OfOne(Sums):
    """Task with a single choice."""

    def _get_possible_completions(self, item: Any) -> list[str]:
        return [str(item["n"] + 1)]


TASKS: Mutants = {
    "task_has_name_and_version": (like(Sums, VERSION=3),),
    "has_samples": (Silent(),),
    "sample_ids_are_unique": (Twice(),),
    "choices_include_reference": (OfOne(),),
    "samples_are_deterministic": (Endless(),),
    "limits_are_nested": (FromTheEnd(),),
    "graders_are_compatible": (like(Sums, METRICS=["accuracy", "accuracy"]),),
    "task_description_is_json": (like(Sums, describe=counting(lambda n: {"asked": n})),),
}


# --- models -------------------------------------------------------------------------------------


class Parrot:
    """Model that repeats the last word and prefers short continuations."""

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
    """Model whose responses grow with every call."""

    def __init__(self) -> None:
        self.n = 0

    async def generate(self, request: GenerateRequest) -> Any:
        self.n += 1
        return RawCompletion("" if request.stop else "a" * self.n)


class Crowded(Parrot):
    """Model that mixes up concurrent requests."""

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
    """Model that keeps resources of its first event loop."""

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
    "description_has_no_secrets": (
        like(Parrot, describe=lambda self: {"api_key": "sk-Zx81kQ0pLm2Nv7Rt4Wy9"}),
    ),
    "works_in_several_event_loops": (
        InItsLoop(),
        # every rule asks in a loop of its own
        "generates_or_scores",
        "generates_completions",
        "greedy_decoding_is_deterministic",
        "concurrency_invariant",
        "respects_stop_sequences",
        "accepts_messages",
        "answers_unusual_prompts",
    ),
    "generates_or_scores": (like(Parrot, generate=_cannot, loglikelihood=_cannot),),
    "generates_completions": (
        like(Parrot, generate=_bare_text),
        # nothing can be read off an answer that is none
        "greedy_decoding_is_deterministic",
        "concurrency_invariant",
        "respects_stop_sequences",
        "accepts_messages",
    ),
    "scores_every_continuation": (like(Parrot, loglikelihood=_turned),),
    "greedy_decoding_is_deterministic": (Moody(), "concurrency_invariant"),
    "continuation_order_invariant": (like(Parrot, loglikelihood=_first_likely),),
    "concurrency_invariant": (Crowded(),),
    "respects_stop_sequences": (like(Parrot, generate=_goes_on),),
    "accepts_messages": (like(Parrot, generate=_texts_alone),),
    "answers_unusual_prompts": (like(Parrot, generate=_no_blanks),),
    "counts_tokens": (like(Parrot, count_tokens=lambda self, text: len(text) / 4),),
    "closes": (like(Parrot, aclose=lambda self: 1 / 0),),
}


# --- scorers of texts ---------------------------------------------------------------------------


class Shouting:
    """Text scorer that returns the fraction of capital letters."""

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
    "name_has_no_separators": (like(Shouting, name="a/b"),),
    "has_a_version": (like(Shouting, version=""),),
    "threshold_is_valid": (like(Shouting, mode="sometimes"),),
    "one_score_per_text": (
        like(
            Shouting,
            score=lambda self, texts: [True if t in TEXTS else n for t, n in _scored(texts)],
        ),
    ),
    "accepts_empty_list": (
        like(Shouting, score=lambda self, texts: Shouting.score(self, texts) or [0.0]),
    ),
    "scores_within_bounds": (like(Shouting, bounds=(0.2, 1.0)),),
    "text_scores_are_deterministic": (
        like(Shouting, score=counting(lambda n, texts: [n * 1e-9] * len(texts))),
    ),
    "text_order_invariant": (
        like(Shouting, score=lambda self, texts: [1 / len(texts) for _ in texts]),
    ),
    "does_not_modify_texts": (like(Shouting, score=_reversing),),
    "scores_unusual_texts": (
        like(Shouting, score=lambda self, texts: [0.5 / (len(text) and 1) for text in texts]),
    ),
    "category_scores_are_valid": (
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
    """Attack that sends the goal."""

    name = "plain"
    version = "1"

    def ask(self, conversation: Any, seed: int) -> Any:
        return conversation.goal


def _never(self: Any, conversation: Any, seed: int) -> Any:
    raise StopAttack("nothing to say")


ATTACKS: Mutants = {
    "is_named": (like(Plain, name=""),),
    "has_a_version": (like(Plain, version=None),),
    "returns_probe_or_request": (like(Plain, ask=lambda self, conversation, seed: " "),),
    "starts_conversations": (like(Plain, ask=_never),),
    "seed_determines_probe": (like(Plain, ask=counting(lambda n, state, seed: f"number {n}")),),
    "requests_need_a_model": (
        like(Plain, ask=lambda self, conversation, seed: GenerateRequest("Write a probe.")),
    ),
    "accepts_unusual_goals": (
        like(Plain, ask=lambda self, conversation, seed: conversation.goal.format()),
    ),
    "branches_are_valid": (like(Plain, branches=0),),
    "describes_itself_if_at_all": (like(Plain, describe=lambda self: ["plain"]),),
}


class Upper:
    """Text transform to upper case."""

    name = "upper"

    def transform(self, text: str) -> Any:
        return text.upper()


TRANSFORMS: Mutants = {
    "is_named": (like(Upper, name=7),),
    "version_if_any": (like(Upper, version=7),),
    "returns_string": (like(Upper, transform=lambda self, text: text in ODD_TEXTS and text),),
    "transform_is_deterministic": (like(Upper, transform=counting(lambda n, text: f"{text}{n}")),),
    "transforms_unusual_texts": (
        like(Upper, transform=lambda self, text: text[0] + text[1:].lower()),
    ),
}


class Reader(CsvPredictionReader):
    """Prediction reader for CSV files."""


def reading(**changed: Any) -> Any:
    def read_predictions(self: Any, uri: str, *, columns: Any) -> Any:
        found = dict(CsvPredictionReader().read_predictions(uri, columns=columns))
        return {name: values for name, values in (found | changed).items() if values is not None}

    return like(Reader, read_predictions=read_predictions)


READERS: Mutants = {
    "version_if_any": (like(Reader, version=[]),),
    "reads_requested_columns": (reading(score=None), "reads_all_rows"),
    "reads_all_rows": (reading(score=[0.25]),),
}


class Doubling(Kind[Any]):
    """Kind that doubles numbers."""

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
    "class_has_a_name": (like(Doubling, name="two\nlines"),),
    "configuration_is_json": (
        like(Doubling, config=lambda self: {"system": "adder", "at": next(_FORGETFUL)}),
        "resumes_without_requests",
    ),
    "identity_is_in_configuration": (
        like(Doubling, identity=lambda self: Identity(settings=("sytem",))),
    ),
    "unit_ids_are_unique": (
        like(
            Doubling,
            units=lambda self: [Unit(id=str(next(_FORGETFUL)), input=1, reference=2)],
            asks=False,
            produce=lambda self, context: [],
        ),
    ),
    "metric_names_are_unique": (
        like(Doubling, metrics=lambda self: [mean_of("right")] * 2),
        *("scores_every_unit", "resumes_without_requests", "can_show_units"),
    ),
    "scores_every_unit": (like(Doubling, score=_fails_at_two),),
    "resumes_without_requests": (like(Doubling, produce=_asking_again),),
    "can_show_units": (like(Doubling, show=classmethod(lambda cls, unit: "text")),),
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
"""Valid objects from which the violations are derived."""

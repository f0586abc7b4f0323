"""The task chapter this project grew from: its classes run with their import lines changed."""

from typing import Any

import pytest

from eval_toolkit.tasks import (
    BaseTask,
    Completion,
    Loglikelihood,
    Message,
    RawCompletion,
    RawLoglikelihood,
    ResponseType,
    Role,
    format_prompt,
)

IMPORTS = """
from eval_toolkit.tasks import BaseTask, Message, ResponseType, Role
"""

# "Task Implementation Pattern", both classes as printed
CLASSES = '''
class MyCompletionTask(BaseTask[str]):
    NAME = "My Task"
    DATASET_PATH = "dataset_name"
    RESPONSE_TYPE = ResponseType.COMPLETION

    def _get_instruction_text(self, item: dict) -> str:
        """Format the question/instruction."""
        return f"Question: {item['question']}"

    def _get_ground_truth(self, item: dict) -> str:
        """Return the expected answer."""
        return item['answer']


class MyLoglikelihoodTask(BaseTask[str]):
    NAME = "My Task"
    DATASET_PATH = "dataset_name"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def _get_instruction_text(self, item: dict) -> str:
        """Format the question without choices."""
        return f"Question: {item['question']}"

    def _get_ground_truth(self, item: dict) -> str:
        """Return the correct answer choice."""
        return item['choices'][item['answer_idx']]

    def _get_possible_completions(self, item: dict) -> list[str]:
        """Return all answer choices for ranking."""
        return item['choices']
'''

# "Few-Shot Example Construction", put into a subclass
CONSTRUCT_PROMPT = """
class WithItsOwnPrompt(MyCompletionTask):
    def construct_prompt(self, item: dict) -> list[Message]:
        messages = []

        # 1. System prompt (optional)
        if system_prompt := self._get_system_prompt_text(item):
            messages.append(Message(role=Role.SYSTEM, content=system_prompt))

        # 2. Few-shot examples
        fewshot_examples = self._sample_fewshot_examples(item)
        for example in fewshot_examples:
            # User instruction
            messages.append(Message(
                role=Role.USER,
                content=self._get_instruction_text(example)
            ))
            # Assistant response
            messages.append(Message(
                role=Role.ASSISTANT,
                content=self._get_fewshot_target_text(example)
            ))

        # 3. Actual instruction
        messages.append(Message(
            role=Role.USER,
            content=self._get_instruction_text(item)
        ))

        # 4. Response cue (optional)
        if cue := self._get_cue_text(item):
            messages.append(Message(role=Role.ASSISTANT, content=cue))

        return messages
"""

# "Example: Geography Quiz"
GEOGRAPHY = """
messages = [
    Message(Role.SYSTEM, "Answer geography questions accurately."),
    Message(Role.USER, "Question: What is the capital of Germany?"),
    Message(Role.ASSISTANT, "Answer: Berlin"),
    Message(Role.USER, "Question: What is the capital of France?"),
    Message(Role.ASSISTANT, "Answer: Paris"),
    Message(Role.USER, "Question: What is the capital of Italy?"),
    Message(Role.ASSISTANT, "Answer:")
]
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    for block in (IMPORTS, CLASSES, CONSTRUCT_PROMPT, GEOGRAPHY):
        exec(compile(block, "seed document", "exec"), namespace)  # noqa: S102
    return namespace


QUESTIONS = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(6)]


def test_the_completion_class(names: dict[str, Any]) -> None:
    task = names["MyCompletionTask"](rows=QUESTIONS)
    samples = {sample.index: sample for sample in task.samples()}
    assert samples[3].messages == (Message(Role.USER, "Question: What is 3 + 3?"),)
    assert samples[3].ground_truth == "6"
    assert samples[3].possible_completions is None
    assert task.get_metadata()["sample_split"] == "test"


def test_the_loglikelihood_class(names: dict[str, Any]) -> None:
    row = {"question": "Capital of Italy?", "choices": ["Rome", " Madrid"], "answer_idx": 0}
    (sample,) = names["MyLoglikelihoodTask"](rows={"test": [row]}).samples()
    assert sample.messages == (Message(Role.USER, "Question: Capital of Italy?"),)
    assert sample.possible_completions == (" Rome", " Madrid")
    assert sample.ground_truth == " Rome"


def test_construct_prompt_of_the_chapter_is_ours(names: dict[str, Any]) -> None:
    rows = {"test": QUESTIONS[:2], "train": QUESTIONS[2:]}
    theirs = names["WithItsOwnPrompt"](2, rows=rows).samples()
    ours = names["MyCompletionTask"](2, rows=rows).samples()
    assert theirs == ours
    assert [len(sample.messages) for sample in ours] == [5, 5]


class Geography(BaseTask[str]):
    NAME = "Geography"
    DATASET_PATH = "geography"
    RESPONSE_TYPE = ResponseType.LOGLIKELIHOODS

    def _get_system_prompt_text(self, item: dict[str, Any]) -> str:
        return "Answer geography questions accurately."

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        return f"Question: What is the capital of {item['country']}?"

    def _get_cue_text(self, item: dict[str, Any]) -> str:
        return "Answer:"

    def _get_ground_truth(self, item: dict[str, Any]) -> str:
        return str(item["capital"])

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str]:
        return ["Rome", "Madrid", "Athens", "Vienna"]


def geography(seed: int) -> BaseTask[str]:
    train = [
        {"country": "Germany", "capital": "Berlin"},
        {"country": "France", "capital": "Paris"},
    ]
    return Geography(
        2, rows={"test": [{"country": "Italy", "capital": "Rome"}], "train": train}, seed=seed
    )


def test_the_geography_prompt_comes_out_of_plain_answers(names: dict[str, Any]) -> None:
    # the draw decides which example comes first; both orders occur, one is the chapter's
    prompts = [list(geography(seed).samples()[0].messages) for seed in range(12)]
    assert names["messages"] in prompts
    assert all(len(prompt) == 7 for prompt in prompts)
    assert {prompt[2].content for prompt in prompts} == {"Answer: Berlin", "Answer: Paris"}


def test_the_options_carry_their_leading_space() -> None:
    (sample,) = geography(42).samples()
    assert sample.possible_completions == (" Rome", " Madrid", " Athens", " Vienna")
    assert sample.ground_truth == " Rome"


def test_rendered_by_concatenation(names: dict[str, Any]) -> None:
    # tasks.md §4: what the framework behind the chapter writes, run there
    assert format_prompt(names["messages"], "concat") == (
        "Answer geography questions accurately.\n\n"
        "Question: What is the capital of Germany?Answer: Berlin\n\n"
        "Question: What is the capital of France?Answer: Paris\n\n"
        "Question: What is the capital of Italy?Answer:"
    )


def test_rendered_as_people_write_it(names: dict[str, Any]) -> None:
    text = format_prompt(names["messages"], "plain")
    assert isinstance(text, str)
    assert text.endswith("Question: What is the capital of Italy?\nAnswer:")
    assert "Germany?\nAnswer: Berlin\n\nQuestion" in text


def test_core_data_types() -> None:
    assert Completion(completion_text="Rome").completion_text == "Rome"
    assert Loglikelihood(loglikelihoods=[-1.0, -2.0]).loglikelihoods == [-1.0, -2.0]
    assert RawCompletion(text=" Rome").text == " Rome"
    assert RawLoglikelihood(loglikelihoods=[-1.0]).loglikelihoods == [-1.0]
    for made in (
        Completion(completion_text="Rome", ground_truth="Rome"),
        Loglikelihood([-1.0, -2.0], ["a", "a"]),
        RawCompletion(text=" Rome"),
        RawLoglikelihood({"a": -1.0}),
    ):
        assert type(made).from_dict(made.to_dict()) == made

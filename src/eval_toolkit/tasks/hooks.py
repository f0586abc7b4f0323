"""Prompt hooks of tasks, and construction of conversations from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.prompts import joined_choice
from eval_toolkit.seeds import derive_seed
from eval_toolkit.tasks.dataset import SubjectT, TaskData
from eval_toolkit.tasks.identity import identity_of
from eval_toolkit.tasks.order import permutation
from eval_toolkit.tasks.subjects import subject_name
from eval_toolkit.tasks.types import Item, Sample

if TYPE_CHECKING:
    from eval_toolkit.tasks.styles import TaskStyler


def place_of(item: Mapping[str, Any]) -> str:
    """Return the location of an item for error messages."""
    return item.place if isinstance(item, Item) else "item"


class TaskPrompts(TaskData[SubjectT]):
    """Prompt methods of `BaseTask`."""

    TASK_STYLER: TaskStyler | None = None

    seed: int
    shuffle_choices: bool
    user_prompt_suffix: str | None

    def _set_prompts(self) -> None:
        self._pools: dict[str, list[Item]] = {}
        # Each entry keeps a reference to its example, so that the example's id() stays unique.
        self._shots: dict[int, tuple[Item, tuple[Message, ...]]] = {}

    def _get_raw_question(self, item: dict[str, Any]) -> str:
        """Return the question to be formatted by the styler; required with a ``TASK_STYLER``."""
        raise NotImplementedError(f"{type(self).__name__}._get_raw_question")

    def _get_choices(self, item: dict[str, Any]) -> list[str]:
        """Return the choices as strings; required with a ``TASK_STYLER``."""
        raise NotImplementedError(f"{type(self).__name__}._get_choices")

    def _get_correct_index(self, item: dict[str, Any]) -> int:
        """Return the index of the correct choice; required with a ``TASK_STYLER``."""
        raise NotImplementedError(f"{type(self).__name__}._get_correct_index")

    def _styled(self, item: dict[str, Any]) -> tuple[TaskStyler, list[str], int]:
        """Return the styler, the choices in the order of this item, and the correct index."""
        if self.TASK_STYLER is None:
            raise NotImplementedError(
                f"{type(self).__name__} has no TASK_STYLER and lacks a hook: define "
                "_get_instruction_text and _get_ground_truth"
            )
        choices, right = list(self._get_choices(item)), self._get_correct_index(item)
        if not 0 <= right < len(choices):
            raise InvalidInputError(
                f"the correct index is {right}, but there are {len(choices)} choices; the label may be hidden"
            )
        if self.shuffle_choices:
            order = self._choice_order(item, len(choices))
            return self.TASK_STYLER, [choices[at] for at in order], order.index(right)
        return self.TASK_STYLER, choices, right

    def _choice_order(self, item: Mapping[str, Any], n: int) -> list[int]:
        unit_id, _ = identity_of(item, self.ID_FIELD)
        return list(permutation(derive_seed(self.seed, "choices", unit_id), n))

    def _get_instruction_text(self, item: dict[str, Any]) -> str:
        """Return the text of the question."""
        styler, choices, _ = self._styled(item)
        return styler.get_instruction_text(self._get_raw_question(item), choices)

    def _get_ground_truth(self, item: dict[str, Any]) -> str | list[str] | None:
        """Return the reference or references."""
        styler, choices, right = self._styled(item)
        return styler.get_ground_truth(choices, right)

    def _get_possible_completions(self, item: dict[str, Any]) -> list[str] | None:
        """Return the continuations to score in a log-likelihood task."""
        if self.TASK_STYLER is None:
            return None
        styler, choices, right = self._styled(item)
        return styler.get_possible_completions(choices, right)

    def _get_cue_text(self, item: dict[str, Any]) -> str:
        """Return the cue, i.e. the beginning of the answer; "" for none."""
        return "" if self.TASK_STYLER is None else self.TASK_STYLER.get_cue_text()

    def _get_fewshot_target_text(self, item: dict[str, Any]) -> str:
        """Return the answer of an example: the cue, a space if needed, and the reference."""
        if self.TASK_STYLER is not None:
            styler, choices, right = self._styled(item)
            return styler.get_fewshot_target_text(choices, right)
        truth = self._get_ground_truth(item)
        if isinstance(truth, (list, tuple)):
            truth = truth[0] if truth else None
        if not isinstance(truth, str):
            raise InvalidTypeError(
                f"{place_of(item)}: the answer of an example must be a string, got {truth!r}; define "
                "_get_fewshot_target_text"
            )
        cue = self._get_cue_text(item)
        return cue + joined_choice(cue, truth)

    def _get_initial_prompt_text(self, item: dict[str, Any]) -> str:
        """Return text to insert before the first message, followed by a blank line; "" for none."""
        return ""

    def _get_system_prompt_text(self, item: dict[str, Any]) -> str | None:
        """Return the system message; "" or None for none."""
        return None

    def _get_context(self, item: dict[str, Any]) -> Any:
        """Return additional context for the graders."""
        return None

    def _get_instruction_messages(self, item: dict[str, Any]) -> list[Message]:
        """Return the question as messages; override this for items with several turns."""
        text = self._get_instruction_text(item)
        if not isinstance(text, str) or not text:
            raise InvalidInputError(
                f"{place_of(item)}: the question is {text!r}; it must not be empty"
            )
        return [Message(Role.USER, text)]

    def post_process_generated_completion(self, text: str, sample: Sample | None = None) -> str:
        """Return the part of a generated answer to grade; by default, all of it."""
        return text

    def construct_prompt(self, item: dict[str, Any]) -> list[Message]:
        """Return the complete conversation for one item.

        Parameters
        ----------
        item : dict
            Row of the data, or another mapping with the same fields.

        Returns
        -------
        list of Message
            System prompt, examples (each a question and an answer), question and cue; empty parts
            are omitted.

        Raises
        ------
        InvalidInputError
            If there are too few examples, or a required string is empty.
        """
        return self._get_messages(item)

    def _get_messages(self, item: dict[str, Any]) -> list[Message]:
        messages = self._get_example_messages(item)
        messages += self._with_suffix(self._get_instruction_messages(item))
        # A space before the answer belongs to the answer.
        if cue := self._get_cue_text(item).rstrip(" "):
            messages.append(Message(Role.ASSISTANT, cue))
        if initial := self._get_initial_prompt_text(item):
            if messages[0].role is not Role.USER:
                raise InvalidInputError(
                    f"{place_of(item)}: the initial prompt text is added to the first message, "
                    f"which must be a user message, but has the role {messages[0].role.value}"
                )
            messages[0] = Message(Role.USER, f"{initial}\n\n{messages[0].content}")
        if system := self._get_system_prompt_text(item):
            messages.insert(0, Message(Role.SYSTEM, system))
        return messages

    def _with_suffix(self, messages: list[Message]) -> list[Message]:
        if not self.user_prompt_suffix:
            return messages
        last = next((m for m in reversed(messages) if m.role is Role.USER), None)
        if last is None:
            raise InvalidInputError(
                "`user_prompt_suffix`: the prompt has no user message to append it to"
            )
        changed = Message(Role.USER, last.content + self.user_prompt_suffix)
        return [changed if message is last else message for message in messages]

    def _get_example_messages(self, item: dict[str, Any]) -> list[Message]:
        """Return the question and answer of each example as messages."""
        examples = self._sample_fewshot_examples(item)
        return [message for example in examples for message in self._shot(example)]

    def _shot(self, example: dict[str, Any]) -> tuple[Message, ...]:
        """Return the messages of an example (cached)."""
        if isinstance(example, Item) and id(example) in self._shots:
            return self._shots[id(example)][1]
        target = self._get_fewshot_target_text(example)
        answer = [Message(Role.ASSISTANT, target)] if target else []
        shot = (*self._get_instruction_messages(example), *answer)
        if isinstance(example, Item):
            self._shots[id(example)] = (example, shot)
        return shot

    def _sample_fewshot_examples(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        """Draw ``num_fewshot`` examples for an item, all different from it."""
        if not self.num_fewshot:
            return []
        unit_id, digest = identity_of(item, self.ID_FIELD)
        pool = self._pool(item)
        question = tuple(self._get_instruction_messages(item))
        chosen: list[dict[str, Any]] = []
        seen = {digest}
        for at in permutation(derive_seed(self.seed, "few-shot", unit_id), len(pool)):
            example = pool[at]
            if example.content_hash in seen or self._shot(example)[: len(question)] == question:
                continue
            seen.add(example.content_hash)
            chosen.append(example)
            if len(chosen) == self.num_fewshot:
                return chosen
        raise InvalidInputError(
            f"{place_of(item)}: num_fewshot is {self.num_fewshot}, but the split "
            f"{self.FEWSHOT_SPLIT!r} has only {len(chosen)} distinct items other than this one"
        )

    def _draws_examples(self) -> bool:
        own = type(self)._sample_fewshot_examples is not TaskPrompts._sample_fewshot_examples
        return super()._draws_examples() and not own

    def _pool(self, item: Mapping[str, Any]) -> list[Item]:
        """Return the pool of examples, sorted by unit id."""
        name = item.subject if isinstance(item, Item) else subject_name(item.get("subject", ""))
        if name not in self._pools:
            if not self.FEWSHOT_SPLIT:
                raise InvalidInputError(
                    f"task {self.NAME!r} has no FEWSHOT_SPLIT; set it, or use num_fewshot=0"
                )
            by_name = {subject_name(subject): subject for subject in self.subjects}
            subject = by_name.get(name, self.subjects[0])
            items = self._items(subject, self.FEWSHOT_SPLIT)
            self._pools[name] = sorted(items, key=lambda item: item.unit_id)
        return self._pools[name]

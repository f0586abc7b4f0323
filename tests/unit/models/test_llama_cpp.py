"""`LlamaCppModel` with the real 135M weights, and what can go wrong before there are any."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.model_fixture import ask, tiny_metadata, tiny_weights, write_gguf

from eval_toolkit.errors import InvalidInputError, MissingExtraError, ModelError
from eval_toolkit.models.llama_cpp import LlamaCppModel, LlamaCppServer
from eval_toolkit.models.llama_cpp.engine import Engine, _checked
from eval_toolkit.models.messages import Message, Role
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest
from eval_toolkit.protocols import Model

pytest.importorskip("xllamacpp")

CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo", "Egypt": "Cairo"}
CITIES = tuple(f" {city}" for city in CAPITALS.values())


@pytest.fixture(scope="module")
def model(embedded_weights: Path) -> LlamaCppModel:
    return LlamaCppModel(embedded_weights, n_ctx=96)


def test_it_is_a_model(model: LlamaCppModel) -> None:
    assert isinstance(model, Model)


def test_a_file_without_a_template_does_not_chat(tmp_path: Path) -> None:
    """llama.cpp would make up a template that the model was never trained on."""
    metadata = tiny_metadata()
    talking = write_gguf(tmp_path / "talking.gguf", metadata, tiny_weights())
    assert LlamaCppModel(talking, n_ctx=64).speaks_chat
    del metadata["tokenizer.chat_template"]
    bare = write_gguf(tmp_path / "bare.gguf", metadata, tiny_weights())
    assert not LlamaCppModel(bare, n_ctx=64).speaks_chat
    with pytest.raises(ModelError, match="is not a file"):
        LlamaCppModel(tmp_path / "absent.gguf").speaks_chat  # noqa: B018


def test_it_knows_capitals(model: LlamaCppModel) -> None:
    requests = [LoglikelihoodRequest(f"The capital of {land} is", CITIES) for land in CAPITALS]
    answers = ask(model, *requests)
    right = [int(np.argmax(answer.loglikelihoods)) == at for at, answer in enumerate(answers)]
    assert sum(right) >= 3
    assert all(number < 0.0 for answer in answers for number in answer.loglikelihoods)


def test_the_same_request_has_the_same_answer_whatever_came_before(model: LlamaCppModel) -> None:
    """Exactly: llama.cpp's numbers depend on its cache, so every request starts from an empty one."""
    request = LoglikelihoodRequest("The capital of France is", (*CITIES, " Paris, of course"))
    [first] = ask(model, request)
    ask(
        model,
        GenerateRequest("The capital of France is", max_tokens=3),
        LoglikelihoodRequest("The capital of France", (" is Paris",)),
    )
    [second] = ask(model, request)
    assert second.loglikelihoods == first.loglikelihoods


def test_the_order_of_choices_changes_no_score(model: LlamaCppModel) -> None:
    choices = (*CITIES, " Paris, of course", " Paris")
    prompt = "The capital of Italy is"
    forward, backward = ask(
        model,
        LoglikelihoodRequest(prompt, choices),
        LoglikelihoodRequest(prompt, choices[::-1]),
    )
    assert backward.loglikelihoods[::-1] == forward.loglikelihoods
    assert forward.loglikelihoods[0] == forward.loglikelihoods[-1], "equal choices, equal scores"


def test_tokens_and_greediness_are_told(model: LlamaCppModel) -> None:
    [answer] = ask(model, LoglikelihoodRequest("The capital of France is", (" Paris", " Rome 12")))
    assert answer.n_tokens == (1, 4)  # every digit alone, and the space before them
    assert answer.is_greedy == (True, False)
    assert answer.prompt_tokens == 5


def test_parts_of_characters_are_scored(model: LlamaCppModel) -> None:
    """A character of several tokens: llama.cpp shows no probability before the last of them."""
    [answer] = ask(model, LoglikelihoodRequest("Hello in Chinese is", ("你", " hello")))
    assert answer.n_tokens[0] > 1
    assert np.isfinite(answer.loglikelihoods).all()


def test_likely_choices_are_scored_in_one_step(
    model: LlamaCppModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Any] = []
    complete = Engine.complete

    def counted(self: Engine, ids: Any, **options: Any) -> Any:
        steps.append(options.get("logit_bias"))
        return complete(self, ids, **options)

    monkeypatch.setattr(Engine, "complete", counted)
    [four] = ask(
        model, LoglikelihoodRequest("The capital of France is", (" Paris", " a", " the", " in"))
    )
    assert len(steps) == 2, "the prompt, and one forced token"
    alone = [
        ask(model, LoglikelihoodRequest("The capital of France is", (choice,)))[0]
        for choice in four.choices
    ]
    assert [one.loglikelihoods[0] for one in alone] == list(four.loglikelihoods)
    assert [one.is_greedy[0] for one in alone] == list(four.is_greedy)


def test_several_slots_answer_at_once(model: LlamaCppModel, embedded_weights: Path) -> None:
    """The same within rounding: concurrent requests share batches."""
    several = LlamaCppModel(embedded_weights, n_ctx=96, slots=3)
    assert several.concurrency == 12
    prompts = [f"The capital of {land} is" for land in CAPITALS]
    scored = [LoglikelihoodRequest(prompt, CITIES) for prompt in prompts]
    made = [GenerateRequest(prompt, max_tokens=4) for prompt in prompts]
    long = GenerateRequest(" one" * 96)
    *answers, refused = ask(several, *scored, *made, long)
    alone = ask(model, *scored, *made)
    for one, other in zip(answers[:4], alone[:4], strict=True):
        assert one.loglikelihoods == pytest.approx(other.loglikelihoods, abs=0.3)
    assert [one.text for one in answers[4:]] == [one.text for one in alone[4:]]
    assert refused.kind == "too_long", "a request that fails affects no other"
    assert several.describe()["slots"] == 3
    assert "slots" not in model.describe()


def test_rolling_equals_scoring_after_the_first_token(model: LlamaCppModel) -> None:
    text = "The capital of France is Paris."
    rolling, scored = ask(
        model, LoglikelihoodRequest("", (text,), rolling=True), LoglikelihoodRequest("", (text,))
    )
    assert rolling.loglikelihoods == scored.loglikelihoods
    assert rolling.n_tokens == scored.n_tokens == (7,)


def test_rolling_goes_beyond_the_context(embedded_weights: Path) -> None:
    small = LlamaCppModel(embedded_weights, n_ctx=16)
    [answer] = ask(small, LoglikelihoodRequest("", ("one two three four " * 5,), rolling=True))
    assert answer.n_tokens[0] > 16
    assert answer.loglikelihoods[0] < 0.0


def test_texts_are_continued(model: LlamaCppModel) -> None:
    [answer] = ask(model, GenerateRequest("The capital of France is", max_tokens=2))
    assert answer.text.startswith(" Paris")
    assert (answer.completion_tokens, answer.finish_reason) == (2, "length")


def test_a_cue_is_continued_and_not_repeated(model: LlamaCppModel) -> None:
    messages = (
        Message(Role.USER, "What is the capital of Italy?"),
        Message(Role.ASSISTANT, "The capital of Italy is"),
    )
    [answer] = ask(model, GenerateRequest(messages, max_tokens=8, stop=(".", "\n")))
    assert answer.text.startswith(" Rome")
    assert answer.prompt.endswith("<|im_start|>assistant\nThe capital of Italy is")


def test_the_answer_ends_before_a_stop_string(model: LlamaCppModel) -> None:
    [answer] = ask(model, GenerateRequest("One, two, three,", max_tokens=12, stop=(" five",)))
    assert " five" not in answer.text
    assert answer.finish_reason == "stop"


def test_draws_depend_on_the_seed(model: LlamaCppModel) -> None:
    def request(seed: int | None) -> GenerateRequest:
        return GenerateRequest(
            "Once upon a time", max_tokens=6, temperature=0.7, top_p=0.9, seed=seed
        )

    texts = [answer.text for answer in ask(model, *map(request, (1, 2, 2**40, None)))]
    again = [answer.text for answer in ask(model, *map(request, (None, 2**40, 2, 1)))]
    assert again[::-1] == texts
    assert len(set(texts)) > 1


def test_a_message_cannot_end_its_own_turn(model: LlamaCppModel) -> None:
    said = "Hi<|im_end|>"
    plain, spelled = ask(
        model,
        GenerateRequest((Message(Role.USER, "Hi"),), max_tokens=1),
        GenerateRequest((Message(Role.USER, said),), max_tokens=1),
    )
    # letters and signs, where the control token would be one more token
    assert spelled.prompt_tokens > plain.prompt_tokens + 1


def test_prompts_that_do_not_fit_are_refused(model: LlamaCppModel) -> None:
    long, scored, last = ask(
        model,
        GenerateRequest(" one" * 96),
        LoglikelihoodRequest(" one" * 96, (" two",)),
        GenerateRequest(" one" * 95, max_tokens=9),
    )
    assert long.kind == scored.kind == "too_long"
    assert str(long).endswith("which leaves no room for an answer; the model reads at most 96")
    assert (last.prompt_tokens, last.completion_tokens) == (95, 1)


def test_half_a_surrogate_pair_can_be_asked_and_stored(model: LlamaCppModel) -> None:
    [answer] = ask(model, GenerateRequest("ab\ud800", max_tokens=1, stop=("\udc00",)))
    assert answer.prompt == "ab\ufffd"


def test_the_description_names_the_weights(model: LlamaCppModel, embedded_weights: Path) -> None:
    described = model.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["weights_sha256"].startswith("b179c952")
    assert (described["kind"], described["dtype"]) == ("llama_cpp", "Q4_1")
    assert str(embedded_weights.parent) not in json.dumps(described)
    assert model.count_tokens("The capital of France") == 4


def test_it_agrees_with_the_exact_model(model: LlamaCppModel, embedded_model: Any) -> None:
    """Same weights, other arithmetic: within half a nat on average, the same winner in most."""
    prompts = [f"The capital of {land} is" for land in CAPITALS]
    requests = [LoglikelihoodRequest(prompt, CITIES) for prompt in prompts]
    theirs = np.array([answer.loglikelihoods for answer in ask(model, *requests)])
    ours = np.array([answer.loglikelihoods for answer in ask(embedded_model, *requests)])
    assert abs(theirs - ours).mean() < 0.5
    assert (theirs.argmax(1) == ours.argmax(1)).sum() >= 3


# -- without weights


def test_a_missing_file_is_said_once_per_request(tmp_path: Path) -> None:
    path = tmp_path / "absent.gguf"
    one, other = ask(LlamaCppModel(path), GenerateRequest("a"), LoglikelihoodRequest("a", ("b",)))
    assert str(one) == str(other) == f"{path} is not a file"
    assert one.kind == "not_found"
    with pytest.raises(ModelError, match="is not a file"):
        LlamaCppServer(path).start()


def test_a_file_that_is_no_gguf_is_said_so(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF but no more")
    [error] = ask(LlamaCppModel(path), GenerateRequest("a"))
    assert error.kind == "not_found"
    assert str(error).endswith("Is it a complete GGUF file?")


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    path = tmp_path / "model.gguf"
    path.touch()
    [error] = ask(LlamaCppModel(path), GenerateRequest("a"))
    assert isinstance(error, MissingExtraError)
    assert "eval-toolkit[llamacpp]" in str(error)
    with pytest.raises(MissingExtraError):
        LlamaCppServer(path).start()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "`threads` is 0; it must be at least 1"),
        ({"n_ctx": -1}, "`n_ctx` is -1; it must be at least 0"),
        ({"max_tokens": 0}, "`max_tokens` is 0; it must be at least 1"),
        ({"slots": 0}, "`slots` is 0; it must be at least 1"),
    ],
)
def test_arguments_are_checked(options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        LlamaCppModel("model.gguf", **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "message": "m"}, "too_long"),
        ({"code": 400, "type": "invalid_request_error", "message": "m"}, "bad_request"),
        ({"code": 500, "type": "server_error", "message": "m"}, "server"),
        ({"message": "m"}, "server"),
    ],
)
def test_complaints_become_errors_of_their_kind(error: dict[str, Any], kind: str) -> None:
    with pytest.raises(ModelError, match=r"^llama.cpp: m$") as caught:
        _checked({"error": error})
    assert caught.value.kind == kind


def test_the_server_imports_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``python -c`` looks for modules where the user stands first."""
    for name in ("json", "xllamacpp", "eval_toolkit"):
        (tmp_path / f"{name}.py").write_text("open('canary', 'w').close()\n")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError), LlamaCppServer(tmp_path / "broken.gguf"):
        pass
    assert not (tmp_path / "canary").exists()

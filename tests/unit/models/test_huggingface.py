"""What `HuggingFaceModel` does before torch is needed; the rest is run by `make test-hf`."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from eval_toolkit.errors import InvalidInputError, MissingExtraError
from eval_toolkit.models.huggingface import HuggingFaceModel
from eval_toolkit.models.requests import GenerateRequest
from eval_toolkit.protocols import Model


def test_nothing_is_loaded_before_it_is_used() -> None:
    model = HuggingFaceModel("org/no-such-model", batch_size=3)
    assert isinstance(model, Model)
    assert (model.name, model.concurrency) == ("no-such-model", 12)


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError) as caught:
        HuggingFaceModel(str(tmp_path)).count_tokens("a")
    told = "HuggingFaceModel requires transformers. Install with: pip install 'eval-toolkit[hf]'"
    assert str(caught.value) == told


def test_torch_is_asked_for_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra brings it: which build is right depends on the machine."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        MissingExtraError, match=r"requires torch\. Install with: pip install 'torch'"
    ):
        asyncio.run(HuggingFaceModel(str(tmp_path)).generate(GenerateRequest("a")))


@pytest.mark.parametrize("template", [None, "{{ messages }}"])
def test_a_tokenizer_without_a_template_does_not_chat(template: str | None) -> None:
    class Tokenizer:
        bos_token_id, eos_token_id, all_special_ids = 0, 1, (0, 1)
        chat_template = template

        def __call__(self, text: str | list[str], **options: object) -> SimpleNamespace:
            one = [5 for _ in text]
            return SimpleNamespace(input_ids=one if isinstance(text, str) else [one])

    model = HuggingFaceModel("t", tokenizer=Tokenizer(), model=object())
    assert model.speaks_chat is (template is not None)
    assert HuggingFaceModel(
        "t", tokenizer=Tokenizer(), model=object(), chat_template="{{ messages }}"
    ).speaks_chat


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dtype": "int8"},
            "`dtype` is 'int8'; choose one of 'auto', 'float32', 'float16', 'bfloat16'",
        ),
        (
            {"quantization": "int3"},
            "`quantization` is 'int3'; choose one of 'int8', 'int4'",
        ),
        (
            {"tokenizer": object(), "model": object(), "attention": "eager"},
            "`attention` applies only when weights are loaded; omit it when passing `model`",
        ),
        ({"batch_size": 0}, "`batch_size` is 0; it must be at least 1"),
        ({"max_tokens": 0}, "`max_tokens` is 0; it must be at least 1"),
        ({"context_length": 0}, "`context_length` is 0; it must be at least 1"),
        ({"tokenizer": object()}, "pass `tokenizer` and `model` together, or neither"),
    ],
)
def test_arguments_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        HuggingFaceModel("t", **options)
    assert str(caught.value) == message


def test_a_folder_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="`revision` is 'main', but a folder has no rev"):
        HuggingFaceModel(str(tmp_path), revision="main")

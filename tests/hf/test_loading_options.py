"""Options of loading: what "auto" becomes, and what is passed on to transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.model_fixture import ask

from eval_toolkit.errors import MissingExtraError
from eval_toolkit.models.huggingface import HuggingFaceModel, loading
from eval_toolkit.models.huggingface.loading import LoadOptions, Source
from eval_toolkit.models.loading import load_model
from eval_toolkit.models.requests import GenerateRequest, LoglikelihoodRequest

REQUEST = LoglikelihoodRequest("the capital of france is", (" paris", " a number"))


@pytest.fixture
def folder(network: Any, tokenizer: Any, tmp_path: Path) -> Path:
    """Weights in bfloat16."""
    import copy

    copy.deepcopy(network).to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_cpu_computes_in_float32(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    model = HuggingFaceModel(str(folder))
    described = model.describe()
    assert (described["device"], described["dtype"]) == ("cpu", "float32")
    assert model._module.dtype == torch.float32
    assert model.concurrency == 128


@pytest.mark.parametrize(("cuda", "mps", "device"), [(1, 0, "cuda"), (1, 1, "cuda"), (0, 1, "mps")])
def test_an_accelerator_computes_as_the_weights_do(
    cuda: int, mps: int, device: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(cuda))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: bool(mps))
    model = HuggingFaceModel(str(folder))
    described = model.describe()
    assert (described["device"], described["dtype"]) == (device, "bfloat16")
    assert model.concurrency == 4096
    assert HuggingFaceModel(str(folder), dtype="float16").describe()["dtype"] == "float16"
    assert HuggingFaceModel(str(folder), device="cpu").describe()["dtype"] == "float32"


def test_options_reach_transformers_from_the_command_line(folder: Path) -> None:
    model: Any = load_model(
        f"hf:{folder}", {"attention": "eager", "device_map": "cpu", "dtype": "bfloat16"}
    )
    assert model._module.config._attn_implementation == "eager"
    assert model._module.dtype == torch.bfloat16
    assert model.describe()["attention"] == "eager"
    assert model._engine.network.trees


def test_attention_changes_no_number(folder: Path) -> None:
    found = [
        ask(HuggingFaceModel(str(folder), device="cpu", attention=attention), REQUEST)[0]
        for attention in ("sdpa", "eager")
    ]
    assert found[0].loglikelihoods == pytest.approx(found[1].loglikelihoods, abs=1e-4)


def test_an_unknown_attention_is_named(folder: Path) -> None:
    [answer] = ask(HuggingFaceModel(str(folder), attention="of_lions"), GenerateRequest("the"))
    assert "of_lions" in str(answer)


def test_quantization_names_what_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = loading.find_spec
    absent = ("bitsandbytes", "torchao")
    monkeypatch.setattr(
        loading, "find_spec", lambda name: None if name in absent else find_spec(name)
    )
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    model = HuggingFaceModel(str(folder), quantization="int8")
    with pytest.raises(MissingExtraError, match="`quantization` requires bitsandbytes"):
        _ = model._module
    assert model.describe()["quantization"] == "int8"


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("int8", {"load_in_8bit": True}),
        ("int4", {"load_in_4bit": True}),
        ({"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, {"bnb_4bit_quant_type": "nf4"}),
    ],
)
def test_quantization_is_passed_on(
    asked: Any, wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "require", lambda name, **_: name)
    monkeypatch.setattr(loading, "find_spec", lambda name: name)
    from types import SimpleNamespace

    def config(**given: Any) -> dict[str, Any]:
        return given

    library = SimpleNamespace(BitsAndBytesConfig=config)
    monkeypatch.setattr(loading, "transformers_library", lambda: library)
    given = LoadOptions(device="cpu", quantization=asked).arguments()
    assert wanted.items() <= given["quantization_config"].items()
    assert given["device_map"] == {"": "cpu"}


def test_the_type_of_weights_is_read_from_the_configuration(folder: Path) -> None:
    options = LoadOptions(device="cuda")
    source = Source(str(folder), None)
    assert options.resolved_dtype(source, trust_remote_code=False) == "bfloat16"

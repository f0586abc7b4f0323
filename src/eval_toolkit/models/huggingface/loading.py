"""Load models from a folder or from a commit on the hub."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ModelError
from eval_toolkit.models.hub import hub_quietly

_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")


def torch_library() -> ModuleType:
    """Import torch, which no extra installs because the right build depends on the machine."""
    return require("torch", feature="HuggingFaceModel")


def transformers_library() -> ModuleType:
    """Import transformers after checking that torch is installed."""
    if find_spec("transformers") is not None:
        torch_library()
    return require("transformers", feature="HuggingFaceModel", extra="hf")


class Source:
    """Folder with weights, or hub model pinned to a commit."""

    def __init__(self, name_or_path: str, revision: str | None) -> None:
        self.place = name_or_path
        self.folder = Path(name_or_path).is_dir()
        if self.folder:
            self.revision: str | None = None
            return
        hub = require("huggingface_hub", feature="HuggingFaceModel", extra="hf")
        try:
            with hub_quietly():
                config = hub.hf_hub_download(name_or_path, "config.json", revision=revision)
        except (OSError, ValueError) as error:  # missing, gated, or offline and not cached
            raise ModelError(_unavailable(name_or_path, error), kind="not_found") from error
        self.revision = Path(config).parent.name

    def digest(self) -> str | None:
        """Return the SHA-256 hash of the weight files in a folder; None for hub models."""
        if not self.folder:
            return None
        files = sorted(
            file
            for file in Path(self.place).iterdir()
            if file.suffix in _WEIGHTS and file.is_file()
        )
        if not files:
            raise ModelError(f"{self.place} contains no weight files", kind="not_found")
        parts = "\n".join(f"{file.name} {sha256_file(file)}" for file in files)
        return hashlib.sha256(parts.encode()).hexdigest()


def _unavailable(place: str, error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{place} is neither a folder nor a model that can be loaded from the hub: {first}"


def load_tokenizer(source: Source, *, trust_remote_code: bool) -> Any:
    """Load the tokenizer of a source."""
    transformers = transformers_library()
    try:
        return transformers.AutoTokenizer.from_pretrained(
            source.place, revision=source.revision, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise ModelError(_unavailable(source.place, error), kind="not_found") from error


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for loading weights."""

    dtype: str = "auto"
    device: str = "auto"
    attention: str | None = None
    quantization: str | Mapping[str, Any] | None = None
    device_map: str | Mapping[str, Any] | None = None

    def resolved_device(self) -> str:
        """Return the torch device name; "auto" selects the first GPU if any, else the CPU."""
        if self.device != "auto":
            return self.device
        torch = torch_library()
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"

    def resolved_dtype(self, source: Source, *, trust_remote_code: bool) -> str:
        """Return the data type; "auto" uses the type of the weights on a GPU, float32 on a CPU."""
        if self.dtype != "auto":
            return self.dtype
        if self.resolved_device().partition(":")[0] == "cpu" and self.device_map is None:
            return "float32"
        try:
            config = transformers_library().AutoConfig.from_pretrained(
                source.place, revision=source.revision, trust_remote_code=trust_remote_code
            )
        except (OSError, ValueError) as error:
            raise ModelError(_unavailable(source.place, error), kind="not_found") from error
        stated = getattr(config.get_text_config(), "dtype", None) or getattr(config, "dtype", None)
        return str(stated or "float32").removeprefix("torch.")

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``from_pretrained`` for the options that are set."""
        given: dict[str, Any] = {}
        if self.attention is not None:
            given["attn_implementation"] = self.attention
        if self.quantization is not None:
            given["quantization_config"] = _quantization(self.quantization)
        if self.device_map is not None:
            require("accelerate", feature="`device_map`")
            given["device_map"] = self.device_map
        elif self.quantization is not None:
            # Quantised weights are placed on their devices while loading.
            require("accelerate", feature="`quantization`")
            given["device_map"] = {"": self.resolved_device()}
        return given


def _quantization(quantization: str | Mapping[str, Any]) -> Any:
    """Return the configuration for "int8", "int4" or bitsandbytes options."""
    transformers = transformers_library()
    bits = {"int8": {"load_in_8bit": True}, "int4": {"load_in_4bit": True}}
    if isinstance(quantization, str) and find_spec("bitsandbytes") is None and find_spec("torchao"):
        methods = require("torchao.quantization", feature="`quantization`")
        config = {"int8": "Int8WeightOnlyConfig", "int4": "Int4WeightOnlyConfig"}[quantization]
        return transformers.TorchAoConfig(getattr(methods, config)())
    require("bitsandbytes", feature="`quantization`")
    return transformers.BitsAndBytesConfig(
        **(bits[quantization] if isinstance(quantization, str) else quantization)
    )


def load_module(
    source: Source, options: LoadOptions, *, trust_remote_code: bool, pickled: bool = True
) -> Any:
    """Load the network of a source onto its device, in evaluation mode.

    Without ``pickled``, weights are read only from safetensors files, which contain no code.
    """
    torch = torch_library()
    transformers = transformers_library()
    dtype = options.resolved_dtype(source, trust_remote_code=trust_remote_code)
    arguments = options.arguments()
    try:
        module = transformers.AutoModelForCausalLM.from_pretrained(
            source.place,
            revision=source.revision,
            dtype=getattr(torch, dtype),
            trust_remote_code=trust_remote_code,
            **arguments,
            **({} if pickled else {"use_safetensors": True}),
        )
    except (OSError, ValueError) as error:
        raise ModelError(_unavailable(source.place, error), kind="not_found") from error
    except ImportError as error:  # e.g. a missing attention implementation
        raise ModelError(f"{source.place} cannot be loaded: {error}") from error
    return module if "device_map" in arguments else module.to(options.resolved_device())


def module_digest(module: Any) -> str:
    """Return the SHA-256 hash of a network's in-memory weights."""
    torch = torch_library()
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        # as bytes, since numpy lacks some torch dtypes
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()

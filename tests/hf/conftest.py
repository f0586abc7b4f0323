"""Tiny model with random weights and a locally trained tokenizer, without downloads."""

from importlib.util import find_spec
from typing import Any

import pytest

# `make test-hf` has an environment of its own; elsewhere there is nothing to run here.
collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_*.py"]

TEXTS = [
    "the capital of france is paris",
    "the capital of italy is rome",
    "the answer to the question is a number",
    "what is the answer ? the answer is : paris",
]
TEMPLATE = (
    "{% for message in messages %}<|turn|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """Train a byte-level BPE tokenizer for which "is" + "sue" and "issue" have different tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|begin|>", "<|end|>", "<|turn|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    built.train_from_iterator(TEXTS * 20, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        bos_token="<|begin|>",  # noqa: S106
        eos_token="<|end|>",  # noqa: S106
        additional_special_tokens=["<|turn|>"],
        chat_template=TEMPLATE,
    )


@pytest.fixture(scope="session")
def network(tokenizer: Any) -> Any:
    """Create a two-layer Llama with grouped heads, context 64 and large random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.4,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config).eval()

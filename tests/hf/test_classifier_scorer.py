"""`HuggingFaceScorer` beside transformers itself: one text at a time, no padding, float64 at the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2ForSequenceClassification,
    PreTrainedTokenizerFast,
)

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.scorers.huggingface import HuggingFaceScorer

WORDS = [
    "you",
    "are",
    "a",
    "very",
    "bad",
    "good",
    "kind",
    "person",
    "and",
    "the",
    "weather",
    "is",
    "fine",
    "today",
]
TEXTS = [
    "you are a bad person",
    "the weather is fine",
    "",
    "good",
    "you and you and you and the very very kind person are bad today",
    "unknownword is fine",
]
TOLERANCE = 1e-5
Made = Callable[..., Path]


def word_tokenizer(pad: str | None = "[PAD]") -> Any:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words = {word: at for at, word in enumerate([*special, *WORDS])}
    built = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))  # noqa: S106
    built.normalizer = normalizers.Lowercase()
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    if pad is not None:
        built.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=built,
        unk_token="[UNK]",  # noqa: S106
        pad_token=pad,
        model_max_length=32,
    )


def bert_config(n_labels: int, **options: Any) -> BertConfig:
    names = options.pop("names", [f"kind {at}" for at in range(n_labels)])
    return BertConfig(
        vocab_size=4 + len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.8,
        id2label=dict(enumerate(names)),
        label2id={name: at for at, name in enumerate(names)},
        **options,
    )


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A folder with random weights, large enough for labels to differ between texts."""

    def make(n_labels: int = 3, **options: Any) -> Path:
        torch.manual_seed(11)
        folder = tmp_path / f"classifier-{n_labels}"
        BertForSequenceClassification(bert_config(n_labels, **options)).save_pretrained(folder)
        word_tokenizer().save_pretrained(folder)
        return folder

    return make


def by_hand(folder: Path, text: str, cut: int = 32) -> Any:
    network = BertForSequenceClassification.from_pretrained(folder).eval()
    ids = word_tokenizer()(text, truncation=True, max_length=cut, return_tensors="pt")
    with torch.no_grad():
        return network(**ids).logits[0].double()


def test_exclusive_labels_are_a_softmax(made: Made) -> None:
    folder = made(3)
    scorer = HuggingFaceScorer(str(folder), label="kind 1")
    expected = [by_hand(folder, text).softmax(-1).tolist() for text in TEXTS]
    found = scorer.score_categories(TEXTS)
    assert list(found) == ["kind 0", "kind 1", "kind 2"] == list(scorer.categories)
    for at, row in enumerate(expected):
        assert [found[name][at] for name in found] == pytest.approx(row, abs=TOLERANCE)
    assert scorer.score(TEXTS) == pytest.approx([row[1] for row in expected], abs=TOLERANCE)
    assert max(found["kind 1"]) - min(found["kind 1"]) > 0.01  # the texts do differ


def test_labels_that_may_go_together_are_taken_one_by_one(made: Made) -> None:
    folder = made(3, problem_type="multi_label_classification")
    scorer = HuggingFaceScorer(str(folder), label=2)
    expected = [by_hand(folder, text).sigmoid()[2].item() for text in TEXTS]
    assert scorer.score(TEXTS) == pytest.approx(expected, abs=TOLERANCE)


def test_one_label_is_a_logistic_function(made: Made) -> None:
    folder = made(1)
    expected = [by_hand(folder, text).sigmoid()[0].item() for text in TEXTS]
    assert HuggingFaceScorer(str(folder)).score(TEXTS) == pytest.approx(expected, abs=TOLERANCE)


def test_batches_change_no_number(made: Made) -> None:
    folder = str(made(3))
    single = HuggingFaceScorer(folder, label=0, batch_size=1).score(TEXTS)
    for size in (2, 4, 32):
        batched = HuggingFaceScorer(folder, label=0, batch_size=size).score(TEXTS)
        assert batched == pytest.approx(single, abs=TOLERANCE)
    turned = HuggingFaceScorer(folder, label=0).score(TEXTS[::-1])
    assert turned[::-1] == pytest.approx(single, abs=TOLERANCE)


def test_the_same_texts_get_the_same_numbers_again(made: Made) -> None:
    """Dropout is off though the configuration has some."""
    folder = str(made(3, hidden_dropout_prob=0.5))
    scorer = HuggingFaceScorer(folder, label=0)
    assert scorer.score(TEXTS) == scorer.score(TEXTS)
    assert scorer.score([]) == []
    assert scorer.score_categories([]) == {"kind 0": [], "kind 1": [], "kind 2": []}


def test_of_two_labels_the_second_is_the_score(made: Made) -> None:
    folder = str(made(2, names=["fine", "toxic"]))
    scorer = HuggingFaceScorer(folder)
    assert scorer.score(TEXTS) == scorer.score_categories(TEXTS)["toxic"]
    other = HuggingFaceScorer(folder, label="fine").score(TEXTS)
    assert [a + b for a, b in zip(scorer.score(TEXTS), other, strict=True)] == pytest.approx(
        [1] * 6
    )


def test_of_many_labels_none_is_guessed(made: Made) -> None:
    folder = str(made(3))
    with pytest.raises(InvalidInputError, match=r"3 labels; pass label=.*0=kind 0, 1=kind 1"):
        HuggingFaceScorer(folder).score(TEXTS)
    with pytest.raises(
        InvalidInputError, match=r"`label` is 'toxic', but the labels of .* are: 0=kind 0"
    ):
        HuggingFaceScorer(folder, label="toxic").score(TEXTS)
    with pytest.raises(InvalidInputError, match="`label` is 3, but"):
        HuggingFaceScorer(folder, label=3).categories  # noqa: B018
    with pytest.raises(InvalidInputError, match="`label` is -1, but"):
        HuggingFaceScorer(folder, label=-1).version  # noqa: B018


def test_long_texts_are_cut_where_the_model_ends(made: Made) -> None:
    folder = made(2)
    long = "very " * 100
    assert HuggingFaceScorer(str(folder)).fits([long, "good"]) == [False, True]
    expected = by_hand(folder, long).softmax(-1)[1].item()
    assert HuggingFaceScorer(str(folder)).score([long]) == pytest.approx([expected], abs=TOLERANCE)
    shorter = HuggingFaceScorer(str(folder), max_length=4)
    expected = by_hand(folder, TEXTS[0], cut=4).softmax(-1)[1].item()
    assert shorter.score(TEXTS[:1]) == pytest.approx([expected], abs=TOLERANCE)
    assert shorter.fits(TEXTS[:1]) == [False]


def test_a_model_without_padding_reads_one_text_at_a_time(tmp_path: Path) -> None:
    torch.manual_seed(11)
    config = GPT2Config(
        vocab_size=4 + len(WORDS), n_embd=16, n_layer=2, n_head=2, n_positions=32, num_labels=2,
        initializer_range=0.8,
    )  # fmt: skip
    network = GPT2ForSequenceClassification(config).eval()
    network.save_pretrained(tmp_path)
    tokenizer = word_tokenizer(pad=None)
    tokenizer.save_pretrained(tmp_path)
    texts = [text for text in TEXTS if text]
    expected = []
    for text in texts:
        with torch.no_grad():
            logits = network(torch.tensor([tokenizer(text)["input_ids"]])).logits[0].double()
        expected.append(logits.softmax(-1)[1].item())
    scorer = HuggingFaceScorer(str(tmp_path), batch_size=4)
    assert scorer.score(texts) == pytest.approx(expected, abs=TOLERANCE)
    with pytest.raises(InvalidInputError, match=r"texts\[1\] has no tokens"):
        scorer.score(["good", ""])


def test_it_is_a_text_scorer_whose_version_tells_weights_and_options_apart(made: Made) -> None:
    folder = str(made(3))
    scorer = HuggingFaceScorer(folder, label=1)
    assert isinstance(scorer, TextScorer)
    assert (scorer.name, scorer.higher_is_worse) == ("classifier-3", True)
    versions = {
        scorer.version,
        HuggingFaceScorer(folder, label=2).version,
        HuggingFaceScorer(folder, label=1, max_length=8).version,
        HuggingFaceScorer(folder, label=1, threshold=0.7).version,
        HuggingFaceScorer(folder, label=1, higher_is_worse=False).version,
        HuggingFaceScorer(str(made(2)), label=1).version,
    }
    assert len(versions) == 6
    assert scorer.version == HuggingFaceScorer(folder, label="kind 1", batch_size=2).version


# -- nothing is loaded in place of what was asked for


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="neither a folder nor a model") as caught:
        HuggingFaceScorer(str(tmp_path / "nowhere")).score(["good"])
    assert caught.value.fatal


def test_a_folder_without_weights_or_configuration_is_an_error(made: Made, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ModelError, match="contains no weight files"):
        HuggingFaceScorer(str(empty)).score(["good"])
    folder = made(2)
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match="cannot be loaded as a classifier"):
        HuggingFaceScorer(str(folder)).score(["good"])


def test_damaged_weights_are_an_error(made: Made) -> None:
    folder = made(2)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ModelError, match="cannot be loaded as a classifier"):
        HuggingFaceScorer(str(folder)).score(["good"])


def test_a_model_without_a_classifier_is_not_given_a_random_one(tmp_path: Path) -> None:
    """The library itself only warns, and returns numbers that mean nothing."""
    BertModel(bert_config(2)).save_pretrained(tmp_path)
    word_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"not a trained classifier.*classifier\.bias"):
        HuggingFaceScorer(str(tmp_path)).score(["good"])


def test_numbers_without_labels_are_refused(made: Made) -> None:
    folder = made(1, problem_type="regression")
    with pytest.raises(
        InvalidInputError, match="is a regression model without label probabilities"
    ):
        HuggingFaceScorer(str(folder)).score(["good"])


def test_bad_options_are_named(made: Made) -> None:
    folder = str(made(2))
    with pytest.raises(InvalidInputError, match="a folder has no revisions"):
        HuggingFaceScorer(folder, revision="main")
    with pytest.raises(InvalidInputError, match="`batch_size` is 0"):
        HuggingFaceScorer(folder, batch_size=0)
    with pytest.raises(InvalidInputError, match=r"`threshold` is 1\.5"):
        HuggingFaceScorer(folder, threshold=1.5)
    with pytest.raises(InvalidTypeError, match="`label` is True"):
        HuggingFaceScorer(folder, label=True)
    with pytest.raises(InvalidTypeError, match="pass a list of strings"):
        HuggingFaceScorer(folder).score("good")
    with pytest.raises(InvalidTypeError, match=r"texts\[1\] is int"):
        HuggingFaceScorer(folder).score(["good", 3])  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="`device` is 'nonsense'"):
        HuggingFaceScorer(folder, device="nonsense").score(["good"])

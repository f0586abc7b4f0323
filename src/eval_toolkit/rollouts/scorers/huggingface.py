"""Scorers based on transformers text classifiers (extra ``hf``)."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, ModelError
from eval_toolkit.models.hub import hub_quietly
from eval_toolkit.models.huggingface.loading import Source, load_tokenizer

_FEATURE = "HuggingFaceScorer"


@dataclass(frozen=True, slots=True)
class _Classifier:
    """Loaded model with the information needed to interpret its outputs."""

    module: Any
    tokenizer: Any
    labels: tuple[str, ...]
    index: int
    """Index of the label whose probability is the score."""
    apart: bool
    """Whether a text may have several labels."""
    limit: int
    """Maximum number of tokens per text."""
    padded: bool
    """Whether a batch may contain texts of different lengths."""


class HuggingFaceScorer:
    """Scorer that returns a label probability of a transformers sequence classifier.

    Parameters
    ----------
    model : str
        Folder, or name on the hub.
    label : str or int, optional
        Name or index of the label whose probability is the score. By default, the second of two
        labels; required if there are more.
    threshold : float, default 0.5
        Threshold at which a text counts as bad.
    device : str, default "cpu"
        Device, as named by torch, e.g. "cuda:0".
    batch_size : int, default 32
        Number of texts per batch.
    max_length : int, default 512
        Maximum number of tokens, up to the limit of the model; longer texts are truncated. `fits`
        returns which texts fit.
    revision : str, optional
        Branch, tag or commit on the hub. The resolved commit is loaded and recorded.
    higher_is_worse : bool, default True
        Whether higher scores are worse; pass False if the label denotes harmless texts.
    name : str, optional
        Name of the scorer and prefix of its columns; by default, the last part of ``model``.

    Raises
    ------
    InvalidInputError
        If an option is out of range, or the label is not one of the model's.
    ModelError
        On first use, if the model cannot be loaded or has no trained classifier.
    MissingExtraError
        On first use, if torch or transformers is not installed.

    Notes
    -----
    The model is loaded on first use. Labels are mutually exclusive (softmax) unless the model's
    configuration specifies ``multi_label_classification`` or there is only one label (sigmoid).
    Weights are float32 and dropout is disabled; the scores of a text do not depend on the rest of
    its batch (to within 1e-5).

    Examples
    --------
    >>> scorer = HuggingFaceScorer("some-org/toxic-classifier", label="toxic")
    >>> scorer.name, scorer.threshold
    ('toxic-classifier', 0.5)
    """

    def __init__(
        self,
        model: str,
        *,
        label: str | int | None = None,
        threshold: float = 0.5,
        device: str = "cpu",
        batch_size: int = 32,
        max_length: int = 512,
        revision: str | None = None,
        higher_is_worse: bool = True,
        name: str | None = None,
    ) -> None:
        if not isinstance(model, (str, Path)) or not str(model):
            raise InvalidTypeError(f"`model` is {model!r:.60}; it must be a folder or a name")
        if isinstance(label, bool) or not isinstance(label, (str, int, type(None))):
            raise InvalidTypeError(f"`label` is {label!r:.60}; it must be a name or a number")
        if revision is not None and Path(model).is_dir():
            raise InvalidInputError(f"`revision` is {revision!r}, but a folder has no revisions")
        self.model = str(model)
        self.label = label
        self.threshold = validation.fraction(threshold, "threshold")
        self.device = device
        self.batch_size = validation.integer(batch_size, "batch_size", low=1)
        self.max_length = validation.integer(max_length, "max_length", low=1)
        self.revision = revision
        self.higher_is_worse = higher_is_worse
        self.bounds = (0.0, 1.0)
        self.name = name or Path(self.model).name or self.model
        self._using = threading.RLock()  # tokenizers are not thread-safe

    @property
    def version(self) -> str:
        """Version of the weights and of every option that affects the scores; loads the model."""
        loaded = self._loaded
        weights = self._source.revision or self._digest
        parts = [weights[:16], f"label={loaded.labels[loaded.index]}", f"max_length={loaded.limit}"]
        if self.threshold != 0.5:
            parts.append(f"threshold={self.threshold}")
        if not self.higher_is_worse:
            parts.append("higher_is_worse=False")
        return "+".join(parts)

    @property
    def categories(self) -> tuple[str, ...]:
        """Labels of the model; loads the model if necessary."""
        return self._loaded.labels

    def ready(self) -> None:
        """Load the model now instead of on first use.

        Raises
        ------
        InvalidInputError
            If the model does not have the label, or the device does not exist.
        ModelError
            If the model cannot be loaded, or has no trained classifier.
        MissingExtraError
            If torch or transformers are not installed.
        """
        _ = self._loaded

    def score(self, texts: Sequence[str]) -> list[float]:
        """Return the probability of the label for each text.

        Raises an error for a text without tokens.
        """
        return [row[self._loaded.index] for row in self._probabilities(texts)]

    def score_categories(self, texts: Sequence[str]) -> Mapping[str, list[float]]:
        """Return the probabilities of every label; raises the same errors as `score`."""
        rows = self._probabilities(texts)
        return {label: [row[at] for row in rows] for at, label in enumerate(self.categories)}

    def fits(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it fits into the model without truncation."""
        loaded = self._loaded
        with self._using:
            ids = loaded.tokenizer(_checked(texts), verbose=False)["input_ids"] if texts else []
        return [len(row) <= loaded.limit for row in ids]

    @cached_property
    def _source(self) -> Source:
        return Source(self.model, self.revision)

    @cached_property
    def _digest(self) -> str:
        return self._source.digest() or ""

    @property
    def _loaded(self) -> _Classifier:
        with self._using:
            return self._classifier

    @cached_property
    def _classifier(self) -> _Classifier:
        torch = require("torch", feature=_FEATURE)
        transformers = require("transformers", feature=_FEATURE, extra="hf")
        source = self._source
        if source.folder:
            _ = self._digest  # a folder without weights is reported by that name
        config = _config(transformers, source)
        labels = _labels(config, self.model)
        index = _chosen(labels, self.label, self.model)
        tokenizer = load_tokenizer(source, trust_remote_code=False)
        module = _weights(transformers, source, torch.float32, self.model)
        try:
            module = module.to(self.device).eval()
        except (RuntimeError, AssertionError) as error:  # torch without that device
            first = (str(error).strip().splitlines() or [""])[0]
            raise InvalidInputError(f"`device` is {self.device!r}: {first}") from error
        return _Classifier(
            module=module,
            tokenizer=tokenizer,
            labels=labels,
            index=index,
            apart=len(labels) == 1 or config.problem_type == "multi_label_classification",
            limit=min(self.max_length, _readable(config, tokenizer)),
            padded=None not in (tokenizer.pad_token_id, getattr(config, "pad_token_id", None)),
        )

    def _probabilities(self, texts: Sequence[str]) -> list[list[float]]:
        given, loaded = _checked(texts), self._loaded
        if not given:
            return []
        with self._using:
            ids = loaded.tokenizer(given, truncation=True, max_length=loaded.limit)["input_ids"]
            for at, row in enumerate(ids):
                if not row:
                    raise InvalidInputError(f"texts[{at}] has no tokens and cannot be scored")
            rows: list[list[float]] = [[] for _ in given]
            for batch in self._batches([len(row) for row in ids]):
                found = _forward(loaded, [ids[at] for at in batch])
                for at, numbers in zip(batch, found, strict=True):
                    rows[at] = numbers
        return rows

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield batches of positions of texts with similar lengths, which need little padding."""
        size = self.batch_size if self._loaded.padded else 1
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        for start in range(0, len(order), size):
            yield order[start : start + size]


def _forward(loaded: _Classifier, ids: Sequence[Sequence[int]]) -> list[list[float]]:
    torch = require("torch", feature=_FEATURE)
    width = max(map(len, ids))
    pad = loaded.tokenizer.pad_token_id if loaded.padded else 0
    rows = [list(row) + [pad] * (width - len(row)) for row in ids]
    mask = [[1] * len(row) + [0] * (width - len(row)) for row in ids]
    device = loaded.module.device
    with torch.inference_mode():
        logits = loaded.module(
            input_ids=torch.tensor(rows, device=device),
            attention_mask=torch.tensor(mask, device=device),
        ).logits.double()
    found = logits.sigmoid() if loaded.apart else logits.softmax(-1)
    numbers: list[list[float]] = found.cpu().tolist()
    return numbers


def _config(transformers: Any, source: Source) -> Any:
    try:
        with hub_quietly():
            return transformers.AutoConfig.from_pretrained(source.place, revision=source.revision)
    except (OSError, ValueError, KeyError) as error:
        raise _broken(source.place, error) from error


def _weights(transformers: Any, source: Source, dtype: Any, place: str) -> Any:
    """Load the network; raise an error if its classifier has no trained weights."""
    try:
        with hub_quietly():
            module, told = transformers.AutoModelForSequenceClassification.from_pretrained(
                source.place, revision=source.revision, dtype=dtype, output_loading_info=True
            )
    except Exception as error:  # damaged files raise errors of several libraries
        raise _broken(place, error) from error
    missing = sorted(told["missing_keys"])
    if missing:
        raise ModelError(
            f"{place} is not a trained classifier: it has no weights for {', '.join(missing[:3])}",
            kind="unsupported",
        )
    return module


def _broken(place: str, error: Exception) -> ModelError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ModelError(f"{place} cannot be loaded as a classifier: {first}", kind="not_found")


def _labels(config: Any, place: str) -> tuple[str, ...]:
    if config.problem_type == "regression":
        raise InvalidInputError(
            f"{place} is a regression model without label probabilities; choose a classifier"
        )
    names = tuple(str(config.id2label[at]) for at in range(config.num_labels))
    if len(set(names)) < len(names):
        raise InvalidInputError(
            f"{place} has several labels with the same name: {', '.join(names)}"
        )
    return names


def _chosen(labels: tuple[str, ...], label: str | int | None, place: str) -> int:
    """Return the index of the requested label."""
    listed = ", ".join(f"{at}={name}" for at, name in enumerate(labels))
    if label is None:
        if len(labels) > 2:
            raise InvalidInputError(
                f"{place} has {len(labels)} labels; pass label=, one of: {listed}"
            )
        return len(labels) - 1
    if isinstance(label, int):
        if not 0 <= label < len(labels):
            raise InvalidInputError(f"`label` is {label}, but the labels of {place} are: {listed}")
        return label
    if label not in labels:
        raise InvalidInputError(f"`label` is {label!r}, but the labels of {place} are: {listed}")
    return labels.index(label)


def _readable(config: Any, tokenizer: Any) -> int:
    """Return the maximum number of tokens; tokenizers without a limit report a huge number."""
    limits = [tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)]
    pad = getattr(config, "pad_token_id", None)
    if (
        config.model_type in ("roberta", "xlm-roberta", "camembert")
        and limits[1]
        and pad is not None
    ):
        limits[1] -= pad + 1  # positions start after that of the padding
    return int(min(limit for limit in limits if limit))


def _checked(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise InvalidTypeError("`texts` is a single string; pass a list of strings")
    for at, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidTypeError(f"texts[{at}] is {type(text).__name__}; it must be a string")
    return [str(text) for text in texts]

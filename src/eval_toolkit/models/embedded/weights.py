"""Cache of loaded weights, shared by all models of a process."""

import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from eval_toolkit._internal.hashing import sha256_file, sha256_text
from eval_toolkit.errors import ArtifactError, ModelError
from eval_toolkit.models.embedded.chat import ChatFormat
from eval_toolkit.models.embedded.fetching import WEIGHTS_SHA256, model_path
from eval_toolkit.models.embedded.gguf import GGUFFile, read_gguf
from eval_toolkit.models.embedded.network import Network
from eval_toolkit.models.embedded.tokenizer import Tokenizer

ReadT = TypeVar("ReadT")
SourceT = TypeVar("SourceT")

_lock = threading.RLock()
_loaded: "weakref.WeakValueDictionary[tuple[Path, int, int], Weights]" = (
    weakref.WeakValueDictionary()
)


class Weights:
    """GGUF file with its hash, tokenizer and chat format; its network is decoded on first use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sha256 = sha256_file(path)
        file = read_gguf(path)
        self.name = str(file.metadata.get("general.name", path.stem))
        self.tokenizer = Tokenizer(file)
        template = str(file.metadata.get("tokenizer.chat_template", ""))
        self.chat = ChatFormat(template)
        self.chat_template_sha256 = sha256_text(template)
        self._source: GGUFFile | Network = file

    @property
    def network(self) -> Network:
        """Decoded network; the file is released after reading."""
        with _lock:
            if isinstance(self._source, GGUFFile):
                self._source = _readable(Network, self._source, self.path)
            return self._source


def load_weights(path: Path | None) -> Weights:
    """Load the weights of a file, which are shared while any model uses them.

    By default, load the downloaded file and check its hash. Raises `ModelError` of kind "not_found"
    or "unsupported".
    """
    where = (model_path() if path is None else path).resolve()
    try:
        stat = where.stat()
    except OSError as error:
        raise ModelError(f"{path or where}: {error.strerror}", kind="not_found") from None
    key = where, stat.st_size, stat.st_mtime_ns
    with _lock:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = _readable(Weights, where, where)
    if path is None and found.sha256 != WEIGHTS_SHA256:
        raise ModelError(
            f"{where} is damaged or was replaced: its sha256 is {found.sha256}; "
            "run: eval-toolkit models fetch --force",
            kind="not_found",
        )
    return found


def _readable(read: Callable[[SourceT], ReadT], source: SourceT, path: Path) -> ReadT:
    """Read a file; read errors become `ModelError`."""
    try:
        return read(source)
    except ArtifactError as error:
        raise ModelError(str(error), kind="unsupported") from error
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}", kind="not_found") from error

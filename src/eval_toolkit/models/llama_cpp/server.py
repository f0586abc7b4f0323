"""`LlamaCppServer`: llama.cpp's OpenAI-compatible server in a separate process."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from eval_toolkit._internal import validation
from eval_toolkit._internal.environment import child_environment
from eval_toolkit._internal.optional import require
from eval_toolkit.errors import ModelError
from eval_toolkit.models.llama_cpp.engine import start_server

_CHILD = "from eval_toolkit.models.llama_cpp.server import _serve; _serve()"


class LlamaCppServer:
    """GGUF model served by a local OpenAI-compatible server (extra ``llamacpp``).

    Use it as a context manager. The server runs in a separate process, which stops at the end of
    the block, on `stop`, or when this process ends, whichever comes first.

    Parameters
    ----------
    path : str or Path
        GGUF file.
    port : int, default 0
        Port to listen on; 0 chooses a free port.
    n_ctx : int, default 4096
        Maximum total number of prompt and answer tokens per slot.
    threads : int, default 1
        Number of CPU threads.
    slots : int, default 1
        Number of concurrent requests. With more than one, concurrent requests may affect each
        other's answers.
    gpu_layers : int, default 0
        Number of layers offloaded to a GPU, if xllamacpp supports it.
    api_key : str, optional
        API key that clients must send. It is passed to the server through a pipe, not on the
        command line.
    timeout_s : float, default 120.0
        Timeout in seconds for loading the model.

    Attributes
    ----------
    base_url : str
        Base URL, which ends with ``/v1``.

    Examples
    --------
    >>> with LlamaCppServer("model.gguf") as server:        # doctest: +SKIP
    ...     model = OpenAICompatible("model", base_url=server.base_url)
    """

    def __init__(
        self,
        path: str | Path,
        *,
        port: int = 0,
        n_ctx: int = 4096,
        threads: int = 1,
        slots: int = 1,
        gpu_layers: int = 0,
        api_key: str | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        self.path = Path(path)
        self.base_url = ""
        self._settings = {
            "port": validation.integer(port, "port"),
            "n_ctx": validation.integer(n_ctx, "n_ctx", low=1),
            "threads": validation.integer(threads, "threads", low=1),
            "slots": validation.integer(slots, "slots", low=1),
            "gpu_layers": validation.integer(gpu_layers, "gpu_layers"),
            "api_key": api_key,
        }
        self._timeout_s = validation.number(timeout_s, "timeout_s", low=0.0, include_low=False)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "LlamaCppServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process ID of the running server."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the server and wait until it is ready.

        Raises
        ------
        ModelError
            If the file cannot be loaded (kind "not_found") or loading takes too long ("timeout").
        MissingExtraError
            If xllamacpp is not installed.
        """
        if self._process is not None:
            return
        require("xllamacpp", feature="LlamaCppServer", extra="llamacpp")
        if not self.path.is_file():
            raise ModelError(f"{self.path} is not a file", kind="not_found")
        with tempfile.TemporaryFile("w+") as complaints:
            self._process = subprocess.Popen(  # noqa: S603 - our own code without caller input
                [sys.executable, "-P", "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                env=child_environment({"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}),
            )
            try:
                self.base_url = f"{self._address(self._process, complaints)}/v1"
            except BaseException:
                self.stop()
                raise

    def _address(self, process: "subprocess.Popen[str]", complaints: IO[str]) -> str:
        """Wait for the address reported by the process."""
        late = threading.Timer(self._timeout_s, process.kill)
        late.start()
        address = ""
        try:
            settings = {"path": str(self.path.resolve()), **self._settings}
            if process.stdin is not None and process.stdout is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(f"{json.dumps(settings)}\n")
                    process.stdin.flush()
                address = process.stdout.readline().strip()
            timed_out = late.finished.is_set()
        finally:
            late.cancel()
        if address:
            return address
        if timed_out:
            raise ModelError(
                f"{self.path} was not loaded within {self._timeout_s:g} s", kind="timeout"
            )
        process.wait()
        complaints.seek(0)
        last = (complaints.read().strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise ModelError(f"the server did not start: {last}", kind="not_found")

    def stop(self) -> None:
        """Stop the process, killing it if necessary; may be called repeatedly."""
        process, self._process, self.base_url = self._process, None, ""
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _serve() -> None:
    """Run the server until standard input is closed, e.g. because the parent process has died."""
    settings = json.loads(sys.stdin.readline())
    try:
        server = start_server(Path(settings.pop("path")), **settings)
    except ModelError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # busy server threads must not keep the process alive

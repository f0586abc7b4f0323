"""llama.cpp in this process: tokenisation, chat templates, completions and forced tokens.

llama.cpp returns probabilities only for generated tokens and their most likely alternatives.
Continuations are therefore scored by forcing: each token is generated with a logit bias that
excludes all others. One such step scores all choices that continue with one of the most likely
tokens. Results vary by about 0.1 nats depending on how a prompt is split into batches. Every
request therefore starts with an empty cache and proceeds token by token, so that its results depend
neither on previous requests nor on the order of its choices. With several slots, concurrent
requests share batches, which affects results to the same degree.
"""

import http.client
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eval_toolkit._internal.files.limits import ANSWER_BYTES
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models.embedded.gguf import read_metadata
from eval_toolkit.models.messages import Message

_FORCE = 1e6
"""Logit bias that exceeds any difference between two logits."""
_LISTED = 200
"""Number of most likely tokens returned with a forced one; adds a tenth to the cost of a step."""


def start_server(
    path: Path,
    *,
    n_ctx: int,
    threads: int,
    gpu_layers: int,
    slots: int = 1,
    port: int = 0,
    api_key: str | None = None,
    alias: str = "",
) -> Any:
    """Load a file and return an xllamacpp server that listens on localhost."""
    xllamacpp = require("xllamacpp", feature="llama.cpp", extra="llamacpp")
    if not path.is_file():
        raise ModelError(f"{path} is not a file", kind="not_found")
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {alias or path.stem}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.api_keys = [api_key] if api_key else []
    params.n_ctx = n_ctx * slots
    params.n_parallel = slots
    params.n_gpu_layers = gpu_layers
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    # These would make an answer depend on previous requests or on the available memory.
    params.cache_prompt = False
    params.cache_ram_mib = 0
    params.fit_params = False
    params.warmup = False
    params.ui = False
    params.verbosity = -1
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelError(
            f"llama.cpp cannot load {path}: {error} Is it a complete GGUF file?", kind="not_found"
        ) from error


class Engine:
    """Loaded GGUF file; requests to different slots may run concurrently."""

    def __init__(
        self, path: Path, *, n_ctx: int, threads: int, gpu_layers: int, slots: int = 1
    ) -> None:
        self._path = path
        # The server listens on a port; a random key keeps other clients out.
        self._key = os.urandom(16).hex()
        self._server = start_server(
            path,
            n_ctx=n_ctx,
            threads=threads,
            gpu_layers=gpu_layers,
            slots=slots,
            api_key=self._key,
        )
        self.properties: Mapping[str, Any] = self._ask("/props")
        found = int(self.properties["default_generation_settings"]["n_ctx"])
        self.n_ctx = min(n_ctx or found, found)  # llama.cpp may round the value up
        self.lead: tuple[int, ...] = tuple(self._tokenize("", add_special=True))
        begin = self.properties.get("bos_token") or self.properties.get("eos_token") or ""
        self.start: int | None = next(iter(self.encode(begin, control=True)), None)

    @cached_property
    def speaks_chat(self) -> bool:
        """Whether the file has its own chat template."""
        return "tokenizer.chat_template" in read_metadata(self._path)

    def encode(self, text: str, *, control: bool) -> list[int]:
        """Return the token ids of a string, without special tokens."""
        return self._tokenize(whole_text(text), parse_special=control) if text else []

    def render(self, messages: Sequence[Message]) -> str:
        """Render messages with the chat template, leaving a final assistant message open."""
        conversation = [
            {"role": message.role.value, "content": whole_text(message.content)}
            for message in messages
        ]
        return str(self._ask("/apply-template", {"messages": conversation})["prompt"])

    def complete(self, ids: Sequence[int], **options: Any) -> dict[str, Any]:
        """Send a completion request to llama.cpp, by default with an empty cache."""
        request = {"prompt": list(ids), "cache_prompt": False, **options}
        answer: dict[str, Any] = _checked(self._server.handle_completions(request))
        return answer

    def scores(
        self, ids: Sequence[int], tokens: Sequence[int], *, slot: int = 0
    ) -> dict[int, tuple[float, bool]]:
        """Return the log-probability of each token after ``ids``, and whether it is the likeliest.

        Tokens of ``ids`` that `prime` has cached are not processed again.
        """
        found: dict[int, tuple[float, bool]] = {}
        for token in tokens:
            if token not in found:
                listed = self._listed(ids, token, slot)
                found |= {other: listed[other] for other in tokens if other in listed}
        return found

    def _listed(self, ids: Sequence[int], token: int, slot: int) -> dict[int, tuple[float, bool]]:
        """Return the scores of the most likely tokens and of a forced one."""
        found = self._probabilities(ids, forced=token, n=_LISTED, slot=slot)
        if found is None:  # llama.cpp omits tokens that are parts of characters
            n = self._n_vocab
            found = self._probabilities(ids, forced=self._whole_token, n=n, slot=slot) or {}
            if all(other["id"] != token for other in found.get("top_logprobs", ())):
                raise ModelError(
                    f"llama.cpp returned no probability for token {token}", kind="unsupported"
                )
        elif found["id"] != token:
            raise ModelError(
                f"llama.cpp generated token {found['id']} although {token} was forced",
                kind="garbled",
            )
        top = found["top_logprobs"]
        return {
            one["id"]: (min(float(one["logprob"]), 0.0), one["id"] == top[0]["id"])
            for one in (*top, found)
        }

    def prime(self, ids: Sequence[int], *, slot: int = 0) -> None:
        """Process a prompt into an empty cache, which later requests to the slot reuse."""
        self.complete(ids, max_tokens=1, temperature=0.0, id_slot=slot)

    def _probabilities(
        self, ids: Sequence[int], *, forced: int, n: int, slot: int
    ) -> dict[str, Any] | None:
        answer = self.complete(
            ids,
            max_tokens=1,
            temperature=0.0,
            logprobs=n,
            logit_bias=[[forced, _FORCE]],
            cache_prompt=True,
            id_slot=slot,
        )
        content = (answer["choices"][0]["logprobs"] or {}).get("content")
        return content[0] if content else None

    @cached_property
    def _whole_token(self) -> int:
        """Return a token that is not part of a multi-token character."""
        return self.encode("a", control=False)[0]

    @cached_property
    def _n_vocab(self) -> int:
        return int(self._ask("/v1/models")["data"][0]["meta"]["n_vocab"])

    def _tokenize(self, text: str, **options: bool) -> list[int]:
        return list(self._ask("/tokenize", {"content": text, **options})["tokens"])

    def _ask(self, path: str, payload: Mapping[str, Any] | None = None) -> Any:
        connection = http.client.HTTPConnection(urlsplit(self._server.listening_address).netloc)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            body = None if payload is None else json.dumps(payload).encode()
            connection.request("GET" if body is None else "POST", path, body, headers)
            return _checked(json.loads(connection.getresponse().read(ANSWER_BYTES)))
        finally:
            connection.close()


def _checked(answer: Any) -> Any:
    """Return llama.cpp's answer, or raise the error it contains."""
    error = answer.get("error") if isinstance(answer, Mapping) else None
    if error is None:
        return answer
    too_long = error.get("type") == "exceed_context_size_error"
    refused = 400 <= int(error.get("code", 500)) < 500
    raise ModelError(
        f"llama.cpp: {error.get('message', error)}",
        kind="too_long" if too_long else "bad_request" if refused else "server",
        status=error.get("code"),
    )

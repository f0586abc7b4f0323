"""Emulations of the scoring responses of vLLM and SGLang, derived from their sources.

All servers use a toy model with a byte-level tokenizer, which splits emoji and rarer CJK characters
into several tokens; the true log-likelihood of any continuation is known.

vLLM (`vllm/v1/engine/logprobs.py`, `vllm/entrypoints/openai/completion/serving.py`; before 0.16
`vllm/entrypoints/openai/serving_completion.py`). In all versions, ``text_offset`` is the cumulative
length of the pieces, regardless of the text; ``echo`` requests ``prompt_logprobs``; the first token
has no log-probability; and forced tokens have the log-probability before the bias:

- "vllm-0.13" (up to v0.13.0): every token is decoded separately, so each part of a split character
  becomes U+FFFD.
- "vllm-0.19" (v0.14.0 to v0.19.x, `_verify_tokens`): a piece that ends with U+FFFD is decoded again
  together with the preceding token at the same position; if that fails, it is "".
- "vllm-0.20" (from v0.20.0, `_correct_decoded_token`): all parts of a split character but the
  last are ""; the last is decoded with up to four preceding tokens that have a log-probability.

With ``return_tokens_as_token_ids``, all versions return tokens as ``token_id:N``. ``logprob_token_ids``
is supported from v0.26.0 ("vllm-0.26"). Conversations are rendered by ``/v1/chat/completions/render`` from v0.15.0,
with an object that has ``token_ids`` from v0.18.0 (before, a list), and by ``/tokenize`` with
``messages``.

SGLang ("sglang-0.5", `python/sglang/srt/entrypoints/openai/utils.py` and `serving_tokenize.py`,
`managers/tokenizer_manager.py`, `sampling/sampling_batch_info.py`, v0.5.18): ``text_offset`` is -1
throughout, pieces are decoded separately, and a logit bias is added before the log-softmax.
"""

import json
import math
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from aiohttp import web
from tests.support.fault_server import FaultServer, problem

BOS = 256
_WORDS = [
    "the",
    "The",
    "capital",
    "of",
    "France",
    "Italy",
    "is",
    "Paris",
    "Rome",
    "One",
    "two",
    "three",
    "four",
    "five",
    "To",
    "be",
    "or",
    "not",
    "that",
    "question",
    "Answer",
    "A",
    "B",
    "C",
    "D",
    "cat",
    "dog",
    "yes",
    "no",
    "nine",
    "user",
    "assistant",
    "quer",
    "über",
    "den",
    "jagt",
    "é",
]
_PARTS = [
    *(" " + word for word in _WORDS),
    *_WORDS,
    *("ing", ", ", "\n\n", "ö", "ä", "ü", "中", "国", "AB", "ab", "noon", " 😀!"),
]
_BROKEN = [b" \xf0\x9f", b"\xf0\x9f", b"\x98\x80", b"\xf0\xa0", b"\xe9\xbe", b"\xaf\xe9", b"!\xe2"]
PIECES: list[bytes] = [
    *(bytes([value]) for value in range(256)),
    b"",  # BOS, which is spelled "<s>"
    *dict.fromkeys([part.encode() for part in _PARTS if len(part.encode()) > 1] + _BROKEN),
]
_IDS = {piece: at for at, piece in enumerate(PIECES) if piece and at != BOS}
_LONGEST = max(map(len, PIECES))
GENERATIONS = ("vllm-0.13", "vllm-0.19", "vllm-0.20", "vllm-0.26")
SERVERS = (*GENERATIONS, "sglang-0.5")
VLLM_MOST = 20


# --- tokenizer and model -------------------------------------------------------------------------


def encode(text: str, *, special: bool = False) -> list[int]:
    """Return the tokens of a text, with greedy longest-match on bytes."""
    ids = [BOS] if special else []
    for part in _split_special(text):
        if part == "<s>":
            ids.append(BOS)
            continue
        data, at = part.encode("utf-8", "surrogatepass"), 0
        while at < len(data):
            for size in range(min(_LONGEST, len(data) - at), 0, -1):
                token = _IDS.get(data[at : at + size])
                if token is not None:
                    ids.append(token)
                    at += size
                    break
    return ids


def _split_special(text: str) -> Iterator[str]:
    before, found, rest = text.partition("<s>")
    if before:
        yield before
    if found:
        yield found
        yield from _split_special(rest)


def decode(ids: Sequence[int]) -> str:
    """Return the text of tokens; incomplete characters become U+FFFD."""
    data = b"".join(b"<s>" if token == BOS else PIECES[token] for token in ids)
    return data.decode("utf-8", "replace")


def _name(token: int) -> str:
    """Return the vocabulary entry of a token, with invisible bytes mapped to letters."""
    return "".join(chr(one if 32 < one < 127 else 256 + one) for one in PIECES[token]) or "<s>"


@lru_cache(maxsize=50_000)
def _logits(context: tuple[int, ...]) -> tuple[float, ...]:
    start = zlib.crc32(repr(context).encode())
    logits = (zlib.crc32(str(token).encode(), start) % 997 / 120 for token in range(len(PIECES)))
    return tuple(-30.0 if token == BOS else logit for token, logit in enumerate(logits))


def logprobs(before: Sequence[int], bias: tuple[tuple[int, float], ...] = ()) -> list[float]:
    """Return the log-probabilities of all tokens, given the last three tokens."""
    logits = list(_logits(tuple(before[-3:])))
    for token, value in bias:
        logits[token] += value
    top = max(logits)
    total = top + math.log(sum(math.exp(logit - top) for logit in logits))
    return [logit - total for logit in logits]


def split(prompt: str, continuation: str, *, bos: bool = False) -> tuple[list[int], list[int]]:
    """Split tokens into prompt and continuation, which is tokenised separately if necessary."""
    before = encode(prompt, special=bos)
    whole = encode(prompt + continuation, special=bos)
    if whole[: len(before)] == before:
        return before, whole[len(before) :]
    return before, encode(continuation)


def sum_of(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the log-likelihood of tokens, given preceding tokens."""
    ids = [*before, *after]
    return math.fsum(logprobs(ids[:at])[ids[at]] for at in range(len(before), len(ids)))


def truth(prompt: str, continuation: str, *, bos: bool = False) -> float:
    """Return the true log-likelihood of a continuation."""
    return sum_of(*split(prompt, continuation, bos=bos))


def rendered(messages: Sequence[dict[str, str]], *, goes_on: bool) -> str:
    """Render messages with the toy chat template."""
    said = "".join(f"{one['role']}: {one['content']}\n\n" for one in messages)
    return said[:-2] if goes_on else f"{said}assistant:"


# --- the servers ---------------------------------------------------------------------------------


class EmulatedApp:
    """Request handlers of one server; ``bodies`` contains the completion requests."""

    def __init__(self, kind: str, *, bos: bool, without: Sequence[str] = ()) -> None:
        self.kind = kind
        self.bos = bos
        self.without = without
        self.bodies: list[dict[str, Any]] = []
        self.tokenized: list[dict[str, Any]] = []
        self.n_prompt_tokens = self.n_completion_tokens = 0

    @property
    def is_vllm(self) -> bool:
        return self.kind.startswith("vllm")

    def web_app(self) -> web.Application:
        app = web.Application(client_max_size=64 * 2**20)
        routes = {
            "/v1/completions": self.completions,
            "/v1/chat/completions/render": self.render,
            "/tokenize": self.tokenize,
            "/detokenize": self.detokenize,
        }
        app.add_routes([web.post(path, each) for path, each in routes.items()])
        return app

    async def _body(self, request: web.Request) -> dict[str, Any]:
        if request.path in self.without:
            raise web.HTTPNotFound(text=json.dumps({"detail": "Not Found"}))
        body: dict[str, Any] = await request.json()
        return body

    # tokens

    def _pieces(self, before: Sequence[int | None], ids: Sequence[int]) -> list[str]:
        """Return the pieces of the tokens at one position, given preceding tokens with log-probabilities."""
        texts = [decode([token]) for token in ids]
        if self.kind in ("vllm-0.13", "sglang-0.5"):
            return texts
        for at, text in enumerate(list(texts)):
            if not text.endswith("\ufffd"):
                continue
            if self.kind == "vllm-0.19":
                pair = decode(ids[at - 1 : at + 1]) if at else "\ufffd"
                texts[at] = "" if pair.endswith("\ufffd") else pair
            else:
                texts[at] = self._corrected(before, ids[at])
        return texts

    @staticmethod
    def _corrected(before: Sequence[int | None], token: int) -> str:
        context = [one for one in before[-4:] if one is not None]
        for n in range(1, len(context) + 1):
            used = context[-n:]
            whole = decode([*used, token])
            if whole.endswith("\ufffd"):
                continue
            clean = len(used)
            while clean and decode([used[clean - 1]]).endswith("\ufffd"):
                clean -= 1
            return whole.removeprefix(decode(used[:clean]))
        return ""

    def _row(self, ids: Sequence[int], at: int, n: int, *, made: bool) -> dict[int, Any]:
        """Return the token at a position and the ``n`` most likely tokens, by id, with their pieces."""
        numbers = logprobs(ids[:at])
        order = sorted(range(len(numbers)), key=lambda token: -numbers[token])
        listed = list(dict.fromkeys([ids[at], *order[:n]]))
        seen: list[int | None] = [] if made else [None, *ids[1:at]]
        texts = self._pieces(seen, listed)
        return {
            token: {
                "logprob": numbers[token],
                "rank": order.index(token) + 1,
                "decoded_token": text,
            }
            for token, text in zip(listed, texts, strict=True)
        }

    def _next(self, ids: Sequence[int], body: dict[str, Any]) -> tuple[int, dict[int, Any]]:
        """Return the generated token and the row of its position."""
        bias = tuple((int(one), value) for one, value in (body.get("logit_bias") or {}).items())
        numbers = logprobs(ids, bias)
        token = max(range(len(numbers)), key=numbers.__getitem__)
        row = self._row([*ids, token], len(ids), body.get("logprobs") or 1, made=True)
        named = body.get("logprob_token_ids") if self.kind == "vllm-0.26" else None
        if named:
            plain = logprobs(ids)
            listed = list(dict.fromkeys([token, *named]))
            texts = self._pieces([], listed)
            row = {
                one: {"logprob": plain[one], "decoded_token": text}
                for one, text in zip(listed, texts, strict=True)
            }
        if not self.is_vllm:
            for one, cell in row.items():
                cell["logprob"] = numbers[one]
        return token, row

    # endpoints

    async def completions(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        self.bodies.append(body)
        if self.is_vllm and max(body.get("logprobs") or 0, 0) > VLLM_MOST:
            return problem(400, f"Requested sample logprobs greater than max allowed: {VLLM_MOST}")
        given = body["prompt"]
        one = isinstance(given, str) or (given and isinstance(given[0], int))
        read = [
            prompt if isinstance(prompt, list) else encode(prompt, special=self.bos)
            for prompt in ([given] if one else given)
        ]
        if not all(read):
            return problem(400, "the prompt is empty")
        shown = [
            decode(ids[1:] if isinstance(prompt, str) and self.bos else ids)
            for prompt, ids in zip([given] if one else given, read, strict=True)
        ]
        choices = [
            {"index": at, "finish_reason": "length", **self._choice(ids, text, body)}
            for at, (ids, text) in enumerate(zip(read, shown, strict=True))
        ]
        n_read = sum(map(len, read))
        self.n_prompt_tokens += n_read
        self.n_completion_tokens += len(read)
        usage = {
            "prompt_tokens": n_read,
            "completion_tokens": len(read),
            "total_tokens": n_read + len(read),
        }
        return web.json_response({"choices": choices, "usage": usage})

    def _choice(self, ids: list[int], text: str, body: dict[str, Any]) -> dict[str, Any]:
        token, made = self._next(ids, body)
        rows: list[dict[int, Any] | None] = [None]
        wants = (body.get("echo") and body.get("logprobs")) or (
            self.is_vllm and body.get("prompt_logprobs")
        )
        if wants:
            n = body.get("prompt_logprobs") or body["logprobs"]
            rows += [self._row(ids, at, n, made=False) for at in range(1, len(ids))]
        choice: dict[str, Any] = {"text": decode([token])}
        if self.is_vllm and body.get("prompt_logprobs"):
            choice["prompt_logprobs"] = rows
        if body.get("echo"):
            choice["text"] = text + choice["text"]
        if body.get("logprobs"):
            listed = [*ids, token] if body.get("echo") else [token]
            found = [*rows, made] if body.get("echo") else [made]
            by_id = self.is_vllm and bool(body.get("return_tokens_as_token_ids"))
            choice["logprobs"] = self._logprobs(listed, found, by_id=by_id)
        return choice

    def _logprobs(
        self, ids: Sequence[int], rows: Sequence[dict[int, Any] | None], *, by_id: bool
    ) -> dict[str, Any]:
        tokens: list[str] = []
        numbers: list[float | None] = []
        tops: list[dict[str, float] | None] = []
        for token, row in zip(ids, rows, strict=True):
            if row is None:
                tokens.append(f"token_id:{token}" if by_id else decode([token]))
                numbers.append(None)
                tops.append(None)
                continue
            spelled = {
                one: f"token_id:{one}" if by_id else cell["decoded_token"]
                for one, cell in row.items()
            }
            tokens.append(spelled[token])
            numbers.append(row[token]["logprob"])
            tops.append({spelled[one]: cell["logprob"] for one, cell in row.items()})
        offsets = [sum(map(len, tokens[:at])) if self.is_vllm else -1 for at in range(len(tokens))]
        return {
            "tokens": tokens,
            "token_logprobs": numbers,
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _conversation(self, body: dict[str, Any]) -> list[int]:
        goes_on = bool(body.get("continue_final_message"))
        return encode(rendered(body["messages"], goes_on=goes_on), special=self.bos)

    async def render(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        if self.kind in ("vllm-0.13", "sglang-0.5"):
            return problem(404, "Not Found")
        return web.json_response({"request_id": "1", "token_ids": self._conversation(body)})

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        self.tokenized.append(body)
        if "messages" in body:
            ids = self._conversation(body)
        else:
            ids = encode(body["prompt"], special=self.bos and body.get("add_special_tokens", True))
        payload: dict[str, Any] = {"tokens": ids, "count": len(ids), "max_model_len": 4096}
        if self.is_vllm and body.get("return_token_strs"):
            payload["token_strs"] = [_name(token) for token in ids]
        return web.json_response(payload)

    async def detokenize(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        ids = body["tokens"]
        if self.is_vllm:
            return web.json_response({"prompt": decode(ids)})
        return web.json_response({"text": decode([token for token in ids if token != BOS])})


class EmulatedServer(FaultServer):
    """One of `SERVERS` in a separate thread; paths in ``without`` return 404."""

    app: EmulatedApp  # type: ignore[assignment]

    def __init__(self, kind: str, *, bos: bool = False, without: Sequence[str] = ()) -> None:
        super().__init__()
        self._made = EmulatedApp(kind, bos=bos, without=without)

    def _new_app(self) -> Any:
        return self._made

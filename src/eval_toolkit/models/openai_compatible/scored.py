"""Parsing of log-probabilities in server responses.

A continuation starts where the prompt ends. This boundary is located by the token strings in the
response, which must concatenate to the text that was sent; otherwise, tokens are scored by id.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

from eval_toolkit._internal.plain import whole_text
from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.wire import garbled

ROUNDING = 1e-3
"""Tolerance for positive log-probabilities, which are treated as 0."""
_ABOVE_BEST = 0.25
"""Tolerance in nats by which a token may exceed the most likely token of the same response."""


class StraddleError(ModelError):
    """Raised if a response does not show which tokens belong to the continuation."""


@dataclass(frozen=True, slots=True)
class Score:
    """Score of one continuation."""

    logprob: float
    n_tokens: int
    is_greedy: bool | None
    prompt_tokens: int | None


@dataclass(frozen=True, slots=True)
class ScoredText:
    """Tokens of a text with their log-probabilities, as returned by a server."""

    logprobs: Sequence[Any]
    offsets: Sequence[int] | None
    """Offset of each token in the server's unit; None if not reported."""
    tops: Sequence[Any] | None
    """Most likely tokens at each position, with their log-probabilities."""
    text: str | None
    n_prompt: int | None = None
    """Number of prompt tokens reported by the server; the tokens after them were generated."""
    pieces: Sequence[str] | None = None
    """String of each token; None if not reported, or if ids are reported instead."""

    def starts(self, text: str) -> tuple[int, list[int]] | None:
        """Return the number of tokens before a text, and the offset of each token in it.

        Returns None if the tokens do not spell the text because a character is split across tokens
        or spaces are lost. A BOS token and one space may precede the text.
        """
        pieces = self.pieces or ()
        if "\ufffd" in text:
            return None
        ends = (len(pieces) - 1, len(pieces)) if self.n_prompt is None else (self.n_prompt,)
        without = range(int(pieces[:1] == [""]), 1 + (list(self.logprobs[:1]) == [None]))
        for skip, end in product(without, ends):
            joined = "".join(pieces[skip:end])
            if joined in (text, f" {text}"):
                lead = len(text) - len(joined)
                return skip, list(accumulate(map(len, pieces[skip:end]), initial=lead))
        return None

    def between(self, start: int, stop: int) -> Score:
        """Sum the log-probabilities of the tokens from ``start`` to ``stop`` (exclusive)."""
        numbers = self.logprobs[start:stop]
        if not numbers or len(numbers) < stop - start:
            raise garbled(f"{len(self.logprobs)} log-probabilities instead of {stop}")
        if numbers[0] is None and start == 0:
            raise ModelError(
                "the server returns no log-probability for the first token of a text; set "
                "`start_text` to the BOS token of the model",
                kind="unsupported",
            )
        for number in numbers:
            if not is_logprob(number):
                raise garbled(f"a log-probability of {number!r}")
        greedy = None
        if self.tops is not None:
            greedy = True
            for number, best in zip(numbers, map(_best, self.tops[start:stop]), strict=True):
                if best is None:
                    continue
                if number > best + _ABOVE_BEST:
                    raise garbled(
                        f"a log-probability of {number}, above that of the most likely token ({best})"
                    )
                greedy = greedy and number >= best - 1e-6
        return Score(math.fsum(min(number, 0.0) for number in numbers), len(numbers), greedy, start)

    def is_about(self, text: str) -> bool:
        """Return whether the scored text matches, if the server reports it."""
        return self.text is None or whole_text(self.text).startswith(whole_text(text))


def another_text(found: str) -> ModelError:
    """Return the error for results that refer to a different text."""
    return garbled(f"results for a different text than the one sent: {found[:40]!r} …")


def is_logprob(value: Any) -> bool:
    """Return whether a value is a valid log-probability."""
    return _is_number(value) and -math.inf < value <= ROUNDING


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that fits in a float."""
    return type(value) is float or (type(value) is int and value.bit_length() < 1024)


@dataclass(frozen=True, slots=True)
class Ruler:
    """Unit ("characters" or "bytes") and shift of the token offsets of a server.

    ``shift`` is the offset of the first character, since some servers include a BOS token.
    """

    unit: str = "characters"
    shift: int = 0

    def size(self, text: str) -> int:
        """Return the length of a string in the unit."""
        if self.unit == "characters" or text.isascii():
            return len(text)
        return len(text.encode("utf-8", "surrogatepass"))

    def score(self, scored: ScoredText, prompt: str, continuation: str) -> Score:
        """Return the score of a continuation, given the scored prompt and continuation."""
        text = prompt + continuation
        found = scored.starts(text)
        if found is not None:
            skip, starts = found
            # A token without a spelling cannot be assigned to a character.
            first = bisect_left(starts, len(prompt)) if prompt else 0
            last = bisect_left(starts, len(text), first)
            if prompt and not starts[first] == len(prompt) < starts[first + 1]:
                raise _straddle(prompt, continuation)
            return scored.between(skip + first, skip + last)
        if scored.pieces is not None or not text.isascii():
            raise StraddleError(
                f"the server's tokens do not spell {_tail(text)!r}: characters are split across "
                f"tokens, or lost",
                kind="bad_request",
            )
        return self._by_offsets(scored, prompt, continuation)

    def _by_offsets(self, scored: ScoredText, prompt: str, continuation: str) -> Score:
        offsets = scored.offsets
        if offsets is None:
            raise garbled("no text offsets")
        start = self.shift + self.size(prompt)
        stop = self.shift + self.size(prompt + continuation)
        try:
            first = bisect_left(offsets, start)
            last = bisect_left(offsets, stop, first)
        except TypeError:
            raise garbled("text offsets that are not numbers") from None
        while scored.logprobs[first : first + 1] == [None] and offsets[first + 1 : first + 2] == [
            start
        ]:
            first += 1  # a BOS token of length zero
        ends_there = last == len(offsets) or offsets[last] == stop
        if first == len(offsets) or offsets[first] != start or not ends_there:
            raise _straddle(prompt, continuation)
        return scored.between(first, last)


def _straddle(prompt: str, continuation: str) -> StraddleError:
    return StraddleError(
        f"no token ends where the prompt ends ({_tail(prompt)!r} + {continuation[:20]!r}); "
        "move the space from the end of the prompt to the start of the continuation",
        kind="bad_request",
    )


def _tail(text: str) -> str:
    return text if len(text) <= 12 else f"…{text[-12:]}"


def fit_ruler(measured: Sequence[tuple[str, int]]) -> Ruler | None:
    """Return the ruler that reproduces the measured end of every text, or None."""
    for unit in ("characters", "bytes"):
        plain = Ruler(unit)
        shifts = {end - plain.size(text) for text, end in measured}
        if len(shifts) == 1 and (shift := shifts.pop()) >= 0:
            return Ruler(unit, shift)
    return None


def _lists(logprobs: Any) -> tuple[list[Any], Any, Any, Any]:
    if type(logprobs) is not dict or type(logprobs.get("token_logprobs")) is not list:
        raise garbled("no log-probabilities of the prompt")
    numbers = logprobs["token_logprobs"]
    columns = [logprobs.get(name) for name in ("tokens", "text_offset", "top_logprobs")]
    for column in columns:
        if column is not None and (type(column) is not list or len(column) != len(numbers)):
            raise garbled("log-probability lists of different lengths")
    tokens, offsets, tops = columns
    return numbers, tokens, offsets, tops


def _echo(choice: Mapping[str, Any], n_prompt: int | None) -> ScoredText:
    numbers, tokens, offsets, tops = _lists(choice.get("logprobs"))
    text = choice.get("text")
    if text is not None and type(text) is not str:
        raise garbled(f"text of type {type(text).__name__}")
    has_offsets = offsets is not None and any(type(at) is not int or at >= 0 for at in offsets)
    if tokens is not None and not all(type(token) is str for token in tokens):
        if not has_offsets:
            raise garbled("a token that is not text")
        tokens = None
    if tokens and has_offsets and all(map(_is_id, tokens)) and "".join(tokens) not in (text or ""):
        tokens = None
    return ScoredText(numbers, offsets, tops, text, n_prompt, tokens)


def _is_id(token: str) -> bool:
    return token.removeprefix("token_id:").isdecimal()


def _counted(texts: list[ScoredText], n_prompt: int | None) -> list[ScoredText]:
    """Return the scored texts if every prompt token has a log-probability; otherwise None."""
    n_numbers = sum(len(one.logprobs) for one in texts)
    if n_prompt is not None and n_numbers < n_prompt:
        raise garbled(f"{n_numbers} log-probabilities for {n_prompt} prompt tokens")
    return texts


def _best(top: Any) -> float | None:
    if type(top) is not dict or not top:
        return None
    numbers = [value for value in top.values() if _is_number(value)]
    return max(numbers) if len(numbers) > 1 else numbers[0] if numbers else None


def in_order(payload: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
    """Return the choices in the order of the prompts."""
    choices = payload.get("choices")
    if type(choices) is not list or len(choices) != n:
        found = len(choices) if isinstance(choices, list) else 0
        raise garbled(f"{found} choices for {n} prompts")
    if not all(type(choice) is dict for choice in choices):
        raise garbled("a choice that is not an object")
    numbers = [choice.get("index", at) for at, choice in enumerate(choices)]
    if numbers != list(range(n)):
        if sorted(numbers, key=str) != sorted(range(n), key=str):
            raise garbled("choices whose indices are not those of the prompts")
        choices = sorted(choices, key=lambda choice: choice["index"])
    return choices


def read_echo(choices: Sequence[Mapping[str, Any]], n_prompt: int | None) -> list[ScoredText]:
    """Parse the scored texts in a response to ``echo`` with ``logprobs``, one per prompt."""
    count = n_prompt if len(choices) == 1 else None  # for several prompts only the sum is known
    return _counted([_echo(choice, count) for choice in choices], n_prompt)


def read_prompt_logprobs(
    choices: Sequence[Mapping[str, Any]], texts: Sequence[str], n_prompt: int | None
) -> list[ScoredText]:
    """Parse the scored texts in ``prompt_logprobs``, one per prompt ("" if unknown)."""
    read = [_prompt_logprobs(*pair) for pair in zip(choices, texts, strict=True)]
    return _counted(read, n_prompt)


def _prompt_logprobs(choice: Mapping[str, Any], text: str) -> ScoredText:
    given = choice.get("prompt_logprobs")
    if type(given) is not list or not given:
        raise garbled("no prompt_logprobs")
    numbers: list[Any] = []
    tops: list[Any] = []
    tokens: list[str] = []
    for entry in given:
        cells = list(entry.values()) if type(entry) is dict and entry else [{}]
        if not all(type(cell) is dict for cell in cells):
            raise garbled("prompt_logprobs in an unknown format")
        # The actual token, and the most likely one if different.
        cell = max(cells, key=_rank)
        numbers.append(cell.get("logprob"))
        tops.append({at: top.get("logprob") for at, top in enumerate(cells)})
        tokens.append(str(cell.get("decoded_token") or ""))
    # The first token has no entry: its spelling is the text before the other tokens.
    tail = "".join(tokens[1:])
    if not text:
        pass  # token ids were sent
    elif whole_text(text).endswith(tail):
        rest = text[: len(text) - len(tail)]
        whole = not rest or tokens[1:2] != [""]  # otherwise it is followed by parts of characters
        tokens[0] = rest if whole else "\ufffd"
    elif "\ufffd" not in tail and "" not in tokens[1:] and not _close(text).endswith(_close(tail)):
        raise another_text(tail)
    return ScoredText(numbers, None, tops, None, len(tokens), tokens)


def _close(text: str) -> str:
    """Remove spaces, since some tokenizers lose them."""
    return whole_text(text).replace(" ", "")


def _rank(cell: Mapping[str, Any]) -> int:
    rank = cell.get("rank")
    return rank if type(rank) is int else 0


@dataclass(frozen=True, slots=True)
class NextToken:
    """One generated token."""

    text: str
    logprob: float
    token_id: int | None
    best: float | None
    token: str


def read_next_token(choice: Mapping[str, Any]) -> NextToken:
    """Parse the single requested token in either common format."""
    text, logprobs = choice.get("text"), choice.get("logprobs")
    if type(text) is not str or type(logprobs) is not dict:
        raise garbled("no log-probability of the generated token")
    content = logprobs.get("content")
    number: Any
    if type(content) is list and content and type(content[0]) is dict:
        cell = content[0]
        given = cell.get("top_logprobs")
        likeliest = given if type(given) is list else []
        tops: list[Any] = [top.get("logprob") for top in likeliest if type(top) is dict]
        number, token, token_id = cell.get("logprob"), cell.get("token"), cell.get("id")
        best: float | None = max((top for top in tops if is_logprob(top)), default=None)
    else:
        numbers, tokens, _, all_tops = _lists(logprobs)
        if not numbers:
            raise garbled("no log-probability of the generated token")
        number, token, token_id = numbers[0], tokens[0] if tokens else None, None
        best = _best(all_tops[0]) if all_tops else None
    if not is_logprob(number):
        raise garbled(f"a log-probability of {number!r}")
    return NextToken(text, number, _token_id(token_id, token, text), best, str(token or ""))


def top_tokens(choice: Mapping[str, Any]) -> dict[int | str, float]:
    """Return the log-probabilities of the most likely next tokens, by id or else by string."""
    logprobs = choice.get("logprobs")
    if type(logprobs) is not dict:
        raise garbled("no log-probability of the generated token")
    content = logprobs.get("content")
    if content:
        cells = content[0].get("top_logprobs") or ()
        found = [(cell.get("id", cell.get("token")), cell.get("logprob")) for cell in cells]
    else:
        tops = logprobs.get("top_logprobs") or [None]
        found = [(_key(name), number) for name, number in (tops[0] or {}).items()]
    return {key: number for key, number in found if is_logprob(number)}


def _key(name: str) -> int | str:
    number = name.removeprefix("token_id:")
    return int(number) if number != name and number.isdecimal() else name


def _token_id(given: Any, token: Any, text: str) -> int | None:
    """Return the id of a token, given in a field or encoded in its string."""
    if type(given) is int or type(token) is not str:
        return given if type(given) is int else None
    number = token.removeprefix("token_id:")
    return int(number) if number.isdecimal() and token != text else None

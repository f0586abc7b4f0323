"""Verification of a server's log-probabilities, once per endpoint.

Servers that ignore ``echo``, are off by one token, or renormalise after a logit bias still return
status 200 and plausible numbers. A scoring method is therefore used only if its log-probability of
a token agrees with the value that the server reported when it generated the token.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from eval_toolkit.errors import ModelError
from eval_toolkit.models.openai_compatible.scored import (
    NextToken,
    Ruler,
    ScoredText,
    StraddleError,
    fit_ruler,
    is_logprob,
)
from eval_toolkit.models.openai_compatible.scoring import Forcing, Scoring, Server, WholeText, Work

PROBES = (
    "The capital of France is",
    "Zwölf Boxkämpfer jagen Viktor quer über den",
    "One, two, three, four, five,",
    "To be, or not to be, that is the",
)
"""Prompts for verification; one has more bytes than characters."""
TOLERANCE = 0.25
"""Tolerance in nats. Batching changes results by up to 0.2, while errors amount to whole nats."""
_CONCLUSIVE = 2
"""Number of probes that must agree; none may disagree."""


_SAYS_NOTHING = frozenset({"auth", "rate_limited", "timeout", "connection"})
"""Kinds of failures that do not depend on the scoring method."""


class Unproven(Exception):  # noqa: N818 - reported as a finding, not as an error
    """Raised when a scoring method fails verification; states the reason."""


async def prove(server: Server, ways: Sequence[str]) -> Scoring:
    """Return the first scoring method in order of preference that passes verification.

    Raises `ModelError` of kind "unsupported" that lists the result of each method if none passes,
    and of other kinds if the server cannot be queried at all.
    """
    found = []
    chosen: list[tuple[str, NextToken]] | None = None
    for way in ways:
        try:
            if chosen is None:
                chosen = [(probe, await server.next_token(probe)) for probe in PROBES]
            if way == "force":
                return await _prove_forcing(server, chosen)
            return await _prove_whole_text(server, way, chosen)
        except Unproven as why:
            found.append(f"{way}: {why}")
        except ModelError as error:
            if error.kind in _SAYS_NOTHING or (chosen is None and error.kind == "server"):
                raise
            if chosen is None:
                found.append(f"one-token completion with logprobs: {error}")
                break
            found.append(f"{way}: {error}")
    raise ModelError(
        f"no method for log-likelihoods passes verification at {server.endpoint.address.shown}: "
        + "; ".join(found),
        kind="unsupported",
    )


async def _prove_whole_text(
    server: Server, way: str, chosen: Sequence[tuple[str, NextToken]]
) -> WholeText:
    texts, answers = [], []
    for probe, token in chosen:
        if not token.text or "\ufffd" in token.text:  # end of text, or part of a character
            continue
        (scored,) = await server.scored([probe + token.text], way)
        _look(scored, probe + token.text)
        texts.append((probe, token))
        answers.append(scored)
    whole = [probe + token.text for probe, token in texts]
    found = WholeText(server, way, _ruler(whole, answers), False)
    agreed = 0
    for (probe, token), scored in zip(texts, answers, strict=True):
        try:
            (score,) = await found.read([scored], probe, [token.text], Work())
        except StraddleError:
            continue
        if score.n_tokens == 1:
            _agree(score.logprob, token.logprob, f"{token.text!r} after {probe!r}")
            agreed += 1
    if agreed < _CONCLUSIVE:
        raise Unproven(f"only {agreed} of {len(PROBES)} probes could be compared")
    return replace(found, takes_lists=await _takes_lists(server, way, whole, answers))


def _look(scored: ScoredText, text: str) -> None:
    """Raise an error if a response does not match the text that was sent."""
    if not scored.is_about(text):
        got = (scored.text or "")[:40]
        raise Unproven(f"it returned a different text (sent {text!r}, got {got!r})")
    numbers = scored.logprobs
    if not numbers or numbers[0] is not None:
        raise Unproven(
            f"the first token has a log-probability ({numbers[:1]}), but nothing precedes it"
        )
    for at, number in enumerate(numbers[1:], 1):
        if not is_logprob(number):
            raise Unproven(f"the log-probability of token {at} is {number!r}")


def _ruler(texts: Sequence[str], answers: Sequence[ScoredText]) -> Ruler:
    """Return the unit of text offsets, needed if the token strings are not reported."""
    if all(scored.pieces is not None for scored in answers):
        return Ruler()
    measured = []
    for text, scored in zip(texts, answers, strict=True):
        if scored.offsets is None:
            raise Unproven("it does not report where tokens start")
        if scored.n_prompt is None:
            raise Unproven("it does not report the number of prompt tokens")
        # The single generated token starts where the text ends.
        if scored.n_prompt < len(scored.offsets):
            measured.append((text, scored.offsets[scored.n_prompt]))
    ruler = fit_ruler(measured)
    if ruler is None:
        raise Unproven("its text offsets count neither characters nor bytes")
    return ruler


def _agree(found: float, expected: float, what: str) -> None:
    if abs(found - expected) > TOLERANCE:
        raise Unproven(
            f"it returned {found:.2f} for {what}, but {expected:.2f} in a plain completion"
        )


async def _takes_lists(
    server: Server, way: str, texts: Sequence[str], answers: Sequence[ScoredText]
) -> bool:
    try:
        together = await server.scored(texts, way)
    except ModelError as error:
        if error.kind in ("bad_request", "garbled", "unsupported"):
            return False
        raise
    return all(_same(one, other) for one, other in zip(together, answers, strict=True))


def _same(one: ScoredText, other: ScoredText) -> bool:
    """Return whether two answers contain the same text; the next token may differ."""
    for mine, theirs in ((one.offsets, other.offsets), (one.pieces, other.pieces)):
        if (mine or [])[: other.n_prompt] != (theirs or [])[: other.n_prompt]:
            return False
    pairs = list(zip(one.logprobs, other.logprobs, strict=False))[1 : other.n_prompt]
    return all(is_logprob(a) and abs(a - b) <= TOLERANCE for a, b in pairs)


async def _prove_forcing(server: Server, chosen: Sequence[tuple[str, NextToken]]) -> Forcing:
    agreed = 0
    for probe, token in chosen:
        ids, pieces = await server.tokens(probe)
        token_id = token.token_id
        if token_id is None:
            alone, _ = await server.tokens(token.text, special=False)
            token_id = alone[0] if len(alone) == 1 else None
        if token_id is None:
            continue
        again = await server.next_token(ids, token_id)
        _is_forced(again, token_id, token.text)
        _agree(again.logprob, token.logprob, f"{token.text!r} after {probe!r}, forced")
        other = next((at for at, other_id in enumerate(ids) if other_id != token_id), None)
        if other is None:
            continue
        unlikely = await server.next_token(ids, ids[other])
        _is_forced(unlikely, ids[other], pieces[other])
        if math.exp(unlikely.logprob) + math.exp(token.logprob) > 1.0 + TOLERANCE / 4:
            raise Unproven(
                f"two tokens after {probe!r} have probabilities {math.exp(token.logprob):.2f} and "
                f"{math.exp(unlikely.logprob):.2f}: they include the logit bias"
            )
        agreed += 1
    if agreed < _CONCLUSIVE:
        raise Unproven(f"only {agreed} of {len(PROBES)} probes could be compared")
    return Forcing(server)


def _is_forced(token: NextToken, token_id: int, piece: str) -> None:
    known = token.token_id is not None
    if (token.token_id != token_id) if known else (piece == "" or token.token != piece):
        raise Unproven(f"token {token_id} ({piece!r}) was forced, but {token.token!r} was returned")

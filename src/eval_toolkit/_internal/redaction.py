"""Redaction of secrets, recognised by key, by a preceding name, or by format."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

from eval_toolkit.errors import ModelError

REDACTED = "[redacted]"
_LONGEST_MESSAGE = 2_000

_SECRET_WORDS = frozenset(
    {"apikey", "apikeys", "auth", "authorization", "bearer", "cookie", "credential", "credentials"}
    | {"jwt", "passcode", "passphrase", "passwd", "password", "passwords", "pwd", "secret"}
    | {"secrets", "token"}
)
"""Last words of names that always denote a secret."""
_OWNERS = frozenset(
    {"access", "account", "admin", "api", "app", "auth", "client", "consumer", "database", "db"}
    | {"deploy", "encryption", "host", "license", "login", "mail", "master", "private", "proxy"}
    | {"refresh", "root", "secret", "server", "service", "session", "shared", "signing", "smtp"}
    | {"ssh", "ssl", "storage", "subscription", "tls", "user", "webhook"}
    | {"anthropic", "aws", "azure", "cohere", "gcp", "gemini", "github", "gitlab", "google"}
    | {"groq", "hf", "huggingface", "mistral", "openai", "openrouter", "postgres", "redis"}
    | {"slack", "stripe", "together", "wandb"}
)
"""Words that make a following `key` or `pass` a secret, as in `api_key` (unlike `sort_key`)."""
_OWNED_WORDS = frozenset({"key", "keys", "pass", "tokens"})
_IN_AN_ADDRESS = frozenset({"key", "sig", "signature", "code"})
"""Names that denote secrets only in the query of a URL: ``?sig=…``."""
_OF_TEXT = frozenset(
    {"bos", "cls", "end", "eos", "first", "last", "mask", "max", "min", "n", "next", "num", "pad"}
    | {"per", "sep", "special", "start", "stop", "unk"}
)
"""Words before `token` that denote text, not a secret, as in `eos_token`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME = re.compile(
    r"""
    (?<![\w.-])(?P<flag>-{0,2})
    (?P<name>\w[\w.-]{0,80}+(?:[ ][Kk]ey)?)                    # api_key, X-Api-Key, API key
    (?:(?:\\?["'])?[ \t]*[=:](?![=:/])[ \t]*|(?P<blank>[ ]+))  # a blank only after a flag
    """,
    re.VERBOSE,
)
_VALUE = re.compile(
    r"""
    (?:(?:bearer|basic|digest|token|apikey)[ ]+)?
    (?:(?P<quote>\\?["'])(?P<quoted>.*?)(?P=quote)|(?P<bare>[^\s"'\\&,;(){}<>\]\[]+))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_COOKIE = re.compile(r"""(?i)\b((?:set-)?cookie["']?\s*[:=]\s*["']?)([^\n"']*[^\s"'])""")
_LOOKS = re.compile(
    r"""
      \bhf_[A-Za-z0-9]{16,}                                    # Hugging Face
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \bxox[abeoprs]-[\w-]{10,}                                # Slack
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                            # AWS
    | \bAIza[\w-]{30,}                                         # Google
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+                     # JSON web token
    | \bsk-[a-z]+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}  # Langfuse
    | (?<=[Bb]earer\ )[\w.~+/=-]{8,} | (?<=[Bb]asic\ )[A-Za-z0-9+/]{12,}={0,2}
    | (?<=://)[^\s/@:]+:[^\s/@]+(?=@)                          # user:password@host
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----[\s\S]*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    """,
    re.VERBOSE,
)
_SK = re.compile(r"\bsk-([\w-]{20,})")
_HINT = re.compile(
    r"sk-|hf_|gh[pousr]_|github_pat|glpat-|xox|AKIA|ASIA|AIza|eyJ|://|-----BEGIN"
    r"|(?i:key|token|pass|pwd|secret|auth|cookie|credential|jwt|bearer|basic|[?&](?:sig|code))"
)
"""Every string with a secret contains at least one of these substrings; most strings have none."""
_LONG = 256
"""Length from which separate searches are faster than `_HINT`."""
_MARKED = {
    "_": ("hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat"),
    "-": ("sk-", "glpat-", "-----BEGIN"),
    "x": ("xox",),
    "A": ("AKIA", "ASIA", "AIza"),
    "J": ("eyJ",),
    "/": ("://",),
}
"""Substrings of `_HINT` by a character that they contain."""
_IN_LOWER_CASE = (
    *("key", "token", "pass", "pwd", "secret", "auth", "cookie", "credential", "jwt", "bearer"),
    *("basic", "?sig", "&sig", "?code", "&code"),
)
_NO_SECRETS = frozenset({"", "none", "null", "true", "false", "str", "bytes", "int", "any"})


def redact_secrets(payload: Any, *, keys: bool = True) -> Any:
    """Replace keys, tokens and passwords in a payload with ``[redacted]``.

    Parameters
    ----------
    payload : object
        Nested dicts, lists and strings; other values are unchanged, as are ``unit_ids``, which must
        match the records.
    keys : bool, default True
        Whether dict keys are setting names: a string under a key that denotes a secret
        (``api_key``, ``hf_token``, ``Authorization``, ``db_pass``, …) is always replaced, and so is
        a key that is itself a secret. ``max_tokens``, ``tokenizer`` and ``api_key_env`` do not
        denote secrets. If False, keys are names of slices, scorers and metrics and are not
        interpreted.

    Returns
    -------
    object
        Redacted copy. Within strings, anything that looks like a secret (``sk-…``, ``hf_…``,
        ``Bearer …``, a private key, a password in a URL) or follows the name of a secret
        (``password=…``, ``X-Api-Key: …``, ``?sig=…``) is replaced.

    Examples
    --------
    >>> redact_secrets({"api_key": "abc", "max_tokens": 5, "url": "https://me:pw@host/x"})
    {'api_key': '[redacted]', 'max_tokens': 5, 'url': 'https://[redacted]@host/x'}
    >>> redact_secrets("GET https://host/v1?api_key=abc&page=2 was refused")
    'GET https://host/v1?api_key=[redacted]&page=2 was refused'
    """
    if isinstance(payload, str):
        return _redacted_text(payload)
    if payload is None or isinstance(payload, (int, float)):
        return payload
    if isinstance(payload, (dict, Mapping)):  # fast path for dicts
        safe: dict[Any, Any] = {}
        for key, value in payload.items():
            is_name = keys and isinstance(key, str)
            name = _redacted_text(key) if is_name else key
            if is_name and name in safe:  # redacted like another key
                name = next(f"{name}#{n}" for n in itertools.count(2) if f"{name}#{n}" not in safe)
            if is_name and names_a_secret(key):
                safe[name] = _blank(value)
            elif key == "unit_ids" and isinstance(value, (list, tuple)):
                safe[name] = list(value)
            else:
                safe[name] = redact_secrets(value, keys=keys)
        return safe
    if isinstance(payload, (list, tuple)):
        kinds = set(map(type, payload))
        if kinds <= {float, int, bool, type(None)} or (
            kinds <= {str} and not any(map(_may_hold_a_secret, payload))
        ):
            return list(payload)  # fast path for long lists of numbers
        # `--api-key abc` as a list of arguments: the text after a flag that names a secret
        return [
            _blank(item)
            if keys and i and _is_secret_flag(payload[i - 1])
            else redact_secrets(item, keys=keys)
            for i, item in enumerate(payload)
        ]
    return payload


def redact_results(results: Mapping[str, Any]) -> dict[str, Any]:
    """Redact secrets in results; only the keys of the configuration are setting names.

    Examples
    --------
    >>> redact_results({"config": {"api_key": "x"}, "by_slice": {"test": {"api_key": "a slice"}}})
    {'config': {'api_key': '[redacted]'}, 'by_slice': {'test': {'api_key': 'a slice'}}}
    """
    return {name: redact_secrets(value, keys=name == "config") for name, value in results.items()}


def one_line(failure: BaseException) -> str:
    r"""Return an exception's message on one line, truncated and redacted.

    Examples
    --------
    >>> one_line(ValueError("two\nlines, api_key=abc"))
    'ValueError: two lines, api_key=[redacted]'
    """
    from eval_toolkit._internal.plain import whole_text  # its module needs numpy

    message = " ".join(whole_text(str(failure)).split())
    # Model errors describe themselves; omit the class name.
    text = message if isinstance(failure, ModelError) else f"{type(failure).__name__}: {message}"
    safe: str = redact_secrets(text[:_LONGEST_MESSAGE])
    return safe.removesuffix(": ") or type(failure).__name__


def _may_hold_a_secret(text: str) -> bool:
    """Return whether `_HINT` matches, several times faster for long strings."""
    if len(text) < _LONG or not text.isascii():
        return _HINT.search(text) is not None
    for character, hints in _MARKED.items():
        if character in text and any(hint in text for hint in hints):
            return True
    lower = text.lower()
    return any(hint in lower for hint in _IN_LOWER_CASE)


def _redacted_text(text: str) -> str:
    if not _may_hold_a_secret(text):
        return text
    text = _COOKIE.sub(rf"\1{REDACTED}", text)
    text = _without_named(text)
    text = _SK.sub(lambda match: REDACTED if _is_random(match[1]) else match[0], text)
    return _LOOKS.sub(REDACTED, text)


def _without_named(text: str) -> str:
    """Redact values that follow the name of a secret: ``password=…``, ``--token …``."""
    pieces, done = [], 0
    for match in _NAME.finditer(text):
        if match.start() < done or not _announces_a_secret(match):
            continue
        value = _VALUE.match(text, match.end())
        if value is None or _is_no_secret(value["quoted"] or value["bare"] or "", match["name"]):
            continue
        quote = value["quote"] or ""
        pieces += [text[done : match.end()], quote, REDACTED, quote]
        done = value.end()
    return "".join([*pieces, text[done:]])


def _announces_a_secret(match: re.Match[str]) -> bool:
    if match["blank"] and match["flag"] != "--":
        return False
    words = _words(match["name"])
    in_address = match.string[match.start() - 1 : match.start()] in ("?", "&")
    return names_a_secret(match["name"]) or (
        in_address and bool(words) and words[-1] in _IN_AN_ADDRESS
    )


def _is_no_secret(value: str, name: str) -> bool:
    """Return whether a value is blank, a type name, or a reference to a secret's source."""
    return (
        value.lower() in _NO_SECRETS or value in (name, "*" * len(value)) or value.startswith("$")
    )


def _is_random(body: str) -> bool:
    """Return whether the part after ``sk-`` looks random.

    Keys contain long runs with many digits or frequent changes between upper case, lower case and
    digits; "sk-learn-TfidfLogReg-v2" consists of words.
    """
    return any(len(run) >= 20 and _is_mixed(run) for run in re.split("[-_]", body))


def _is_mixed(run: str) -> bool:
    kinds = ["0" if c.isdigit() else "A" if c.isupper() else "a" for c in run]
    changes = sum(one != other for one, other in itertools.pairwise(kinds))
    n_digits = kinds.count("0")
    return n_digits < len(run) and (n_digits >= 6 or (n_digits >= 2 and changes >= 0.4 * len(run)))


def _words(name: str) -> list[str]:
    """Return the words of a name in lower case, without a trailing number."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    return words


def names_a_secret(key: str) -> bool:
    """Return whether a name denotes a key, a token or a password."""
    owner, last = ["", "", *_words(key)][-2:]
    if last == "token" and owner in _OF_TEXT:
        return False
    return last in _SECRET_WORDS or (last in _OWNED_WORDS and owner in _OWNERS)


def _is_secret_flag(item: Any) -> bool:
    return isinstance(item, str) and item.startswith("--") and names_a_secret(item)


def _blank(value: Any) -> Any:
    """Redact all strings in a value; numbers and booleans are kept."""
    if isinstance(value, (str, bytes)):
        return REDACTED if value else value
    if isinstance(value, Mapping):
        return {key: _blank(item) for key, item in value.items()}
    return [_blank(item) for item in value] if isinstance(value, (list, tuple)) else value

"""Rules for the layout of a response: paragraphs, bullets, titles, JSON.

Model output may be long and adversarial, so every rule inspects each character only a few times.
"""

import json
import re

_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
_SINGLE = re.compile(r"\*([^\n*]*)\*")
_DOUBLE = re.compile(r"\*\*([^\n*]*)\*\*")
_POSTSCRIPTS = {"P.S.": re.compile(r"p\.\s?s\."), "P.P.S": re.compile(r"p\.\s?p\.\s?s")}
_FENCES = ("```json", "```Json", "```JSON", "```")
_AFTER_WORD = re.compile(r"[.,?!'\"]")


def paragraphs(text: str, *, num_paragraphs: int) -> bool:
    """Return whether ``***`` splits the text into the required number of non-empty parts."""
    parts = _outer_stripped(text.split("***"))
    return "" not in parts and len(parts) == num_paragraphs


def two_responses(text: str) -> bool:
    """Return whether ``******`` splits the text into two different responses."""
    parts = _outer_stripped(text.split("******"))
    return "" not in parts and len(parts) == 2 and parts[0] != parts[1]


def _outer_stripped(parts: list[str]) -> list[str]:
    """Return the stripped parts; an empty first or last part is dropped."""
    stripped = [part.strip() for part in parts]
    if stripped and not stripped[-1]:
        stripped.pop()
    if stripped and not stripped[0]:
        stripped.pop(0)
    return stripped


def paragraphs_and_first_word(
    text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    """Return whether the text has enough paragraphs and the given one starts with the word."""
    parts = [part.strip() for part in text.split("\n\n")]
    n = sum(map(bool, parts))
    if n != num_paragraphs or not 1 <= nth_paragraph <= n or not parts[nth_paragraph - 1]:
        return False
    word = parts[nth_paragraph - 1].split(maxsplit=1)[0].lstrip("'").lstrip('"')
    return _AFTER_WORD.split(word, maxsplit=1)[0].lower() == first_word.lower()


def placeholders(text: str, *, num_placeholders: int) -> bool:
    """Return whether the text has enough placeholders in square brackets, each on one line."""
    n = 0
    for line in text.split("\n"):
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start + 1)) >= 0:
            n += 1
            start = line.find("[", end + 1)
    return n >= num_placeholders


def postscript(text: str, *, postscript_marker: str) -> bool:
    """Return whether the text has a postscript; "P. S." is also accepted."""
    lower, marker = text.lower(), postscript_marker.strip()
    pattern = _POSTSCRIPTS.get(marker)
    return marker.lower() in lower if pattern is None else pattern.search(lower) is not None


def bullets(text: str, *, num_bullets: int) -> bool:
    """Return whether the text has the required number of lines starting with ``-`` or one ``*``."""
    lines = (line.lstrip() for line in text.split("\n"))
    n = sum(line[:1] == "-" or (line[:1] == "*" and line[1:2] != "*") for line in lines)
    return n == num_bullets


def one_of_the_options(text: str) -> bool:
    """Return whether the text contains one of the three constrained answers."""
    return any(option in text for option in _OPTIONS)


def highlights(text: str, *, num_highlights: int) -> bool:
    """Return whether the text has enough highlights in single or double asterisks."""
    marked = (match[1].strip() for form in (_SINGLE, _DOUBLE) for match in form.finditer(text))
    return sum(map(bool, marked)) >= num_highlights


def sections(text: str, *, section_spliter: str, num_sections: int) -> bool:
    """Return whether the text has enough sections that start with the word and a number."""
    found = re.finditer(rf"{re.escape(section_spliter.strip())}\s?\d+", text)
    return sum(1 for _ in found) >= num_sections


def is_json(text: str) -> bool:
    """Return whether the text, or the content of its code fence, is valid JSON."""
    inner = text.strip()
    for fence in _FENCES:
        inner = inner.removeprefix(fence)
    try:
        json.loads(inner.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(text: str) -> bool:
    """Return whether the text contains a title between ``<<`` and ``>>`` on one line."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if 0 <= start < end and line[start:end].lstrip("<").rstrip(">").strip():
            return True
    return False

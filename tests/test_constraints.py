"""The files of pinned versions: they agree, are complete, and hold no address."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
HASH = r" \\\n    --hash=sha256:[0-9a-f]{64}"
PIN = r"([A-Za-z0-9][\w.-]*)==([\w.]+)"
GROUPS = ("test", "lint", "docs", "distributed")


@pytest.fixture(scope="module")
def pins() -> dict[str, str]:
    """Versions of constraints.txt by name; every line is a pin or a comment."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    found = [re.fullmatch(PIN, line) for line in lines if not line.startswith("#")]
    assert all(found)
    return {canonicalize_name(pin[1]): pin[2] for pin in found if pin}


@pytest.fixture(scope="module")
def hashed() -> dict[str, str]:
    """Versions of constraints-hashed.txt; nothing is in it but names, versions and hashes."""
    text = (ROOT / "constraints-hashed.txt").read_text("utf-8")
    body = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    assert re.fullmatch(f"(?:{PIN}(?:{HASH})+\n)+", body)
    return {canonicalize_name(name): version for name, version in re.findall(PIN, body)}


def test_the_same_versions(pins: dict[str, str], hashed: dict[str, str]) -> None:
    assert hashed.items() <= pins.items()


def needed(requirement: Requirement, seen: set[str]) -> Iterator[Requirement]:
    """Yield a requirement and what it needs here, as far as packages are installed."""
    name = canonicalize_name(requirement.name)
    for extra in ("", *requirement.extras):
        if f"{name}[{extra}]" in seen:
            continue
        seen.add(f"{name}[{extra}]")
        yield requirement
        try:
            own = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for one in own:
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                yield from needed(one, seen)


def test_everything_that_is_installed_in_ci_has_a_hash(hashed: dict[str, str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    own = project["project"]
    asked = [*project["build-system"]["requires"], *own["dependencies"]]
    (every,) = own["optional-dependencies"]["all"]
    for extra in Requirement(every).extras:
        asked += own["optional-dependencies"][extra]
    for group in GROUPS:
        asked += project["dependency-groups"][group]
    seen: set[str] = set()
    for line in asked:
        for one in needed(Requirement(line), seen):
            version = hashed.get(canonicalize_name(one.name))
            assert version is not None, f"{one.name}: run `make constraints`"
            assert Version(version) in one.specifier, f"{one}: pinned to {version}"

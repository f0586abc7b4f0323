"""Write constraints-hashed.txt: the versions that CI installs, with the hashes of their files.

Run ``make constraints`` after changing constraints.txt or a dependency. pip resolves `EXTRAS` and
`GROUPS` within constraints.txt; the package index configured for pip provides the files of each
version and their SHA-256 hashes. The output contains names, versions and hashes, but no URLs.
"""

import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit
from urllib.request import Request, urlopen

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
PINS, HASHED = ROOT / "constraints.txt", ROOT / "constraints-hashed.txt"
BUILD = ("pip", "setuptools", "wheel")
EXTRAS = "all"
GROUPS = ("test", "lint", "docs", "distributed")
HEAD = f"""\
# Made by `make constraints` from constraints.txt: what `.[{EXTRAS}]` and the groups
# {", ".join(GROUPS)} need on Linux, with the SHA-256 of every file of each version.
"""


def pins(file: Path) -> dict[str, str]:
    """Return the pinned versions in a constraints file, by name as written."""
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", file.read_text("utf-8"), flags=re.MULTILINE)
    return dict(found)


def needed() -> set[str]:
    """Return the names of all packages that pip would install in an empty environment."""
    groups = [part for group in GROUPS for part in ("--group", group)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"),
                *("--ignore-installed", "--no-build-isolation", "--constraint", str(PINS)),
                *("--report", str(report), *BUILD, f".[{EXTRAS}]", *groups),
            ],
            cwd=ROOT,
            check=True,
        )
        installed = json.loads(report.read_text("utf-8"))["install"]
    names = {canonicalize_name(one["metadata"]["name"]) for one in installed}
    return names - {"eval-toolkit"}


def index_address() -> str:
    """Return the URL of pip's primary package index."""
    from pip._internal.models.index import PyPI  # what pip asks unless it is told otherwise

    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    found = re.search(r"^(?:global|:env:)\.index-url='(.*)'$", told.stdout, flags=re.MULTILINE)
    return found[1] if found else str(PyPI.simple_url)


class Links(HTMLParser):
    """Files listed on an index page, with their SHA-256 hashes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.hashes: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a link with a hash."""
        address, fragment = urldefrag(dict(attrs).get("href") or "")
        if tag == "a" and fragment.startswith("sha256="):
            name = unquote(urlsplit(address).path).rpartition("/")[2]
            self.hashes[name] = fragment.removeprefix("sha256=")


def version_of(file: str) -> Version | None:
    """Return the version in a file name, if it is a wheel or an sdist."""
    try:
        return (
            parse_wheel_filename(file)[1]
            if file.endswith(".whl")
            else parse_sdist_filename(file)[1]
        )
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None


def hashes(index: str, name: str, version: str) -> list[str]:
    """Return the SHA-256 hashes of all files of a version, sorted."""
    address = f"{index.rstrip('/')}/{canonicalize_name(name)}/"
    request = Request(address, headers={"Accept": "text/html"})  # noqa: S310
    with urlopen(request, timeout=180) as page:  # noqa: S310
        links = Links(page.read().decode("utf-8")).hashes
    found = {digest for file, digest in links.items() if version_of(file) == Version(version)}
    if not found:
        sys.exit(f"{name} {version}: the package index has no hashes of it")
    return sorted(found)


def main() -> None:
    """Write the file."""
    wanted, index = needed(), index_address()
    chosen = {name: pin for name, pin in pins(PINS).items() if canonicalize_name(name) in wanted}
    absent = wanted - {canonicalize_name(name) for name in chosen}
    if absent:
        sys.exit(f"not in {PINS.name}: {', '.join(sorted(absent))}")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pin: hashes(index, *pin), chosen.items()))
    lines = [HEAD]
    for (name, version), digests in zip(chosen.items(), found, strict=True):
        options = "".join(f" \\\n    --hash=sha256:{digest}" for digest in digests)
        lines.append(f"{name}=={version}{options}\n")
    HASHED.write_text("".join(lines), "utf-8")
    print(f"{HASHED.name}: {len(chosen)} packages, {sum(map(len, found))} files")


if __name__ == "__main__":
    main()

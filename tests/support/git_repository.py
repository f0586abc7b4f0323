"""Git repositories for tests of recorded provenance."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, ignoring the user's configuration."""
    settings = ("user.name=a", "user.email=a@example.org", "commit.gpgsign=false")
    options = [part for setting in settings for part in ("-c", setting)]
    subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True)


def committed(folder: Path, name: str, text: str) -> None:
    """Create a repository with one committed file."""
    git(folder, "init", "-q")
    (folder / name).write_text(text)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", "first")

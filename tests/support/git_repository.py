"""Repositories of git for tests of what is said about the code."""

import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, as somebody whose own configuration has no say."""
    settings = ("user.name=a", "user.email=a@example.org", "commit.gpgsign=false")
    options = [part for setting in settings for part in ("-c", setting)]
    subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True)


def committed(folder: Path, name: str, text: str) -> None:
    """Make a folder a repository with one file that is committed."""
    git(folder, "init", "-q")
    (folder / name).write_text(text)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", "first")

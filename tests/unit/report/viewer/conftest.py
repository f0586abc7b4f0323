"""Fixtures for the viewer app with a temporary folder of runs."""

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from tests.support.viewer_driving import TOKEN, Asking

from eval_toolkit.report.viewer import create_app
from eval_toolkit.report.viewer import run_list as listing_module


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def ask(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setattr(listing_module, "_LOOK_AGAIN_S", -1.0)  # every request looks again
    return Asking(create_app(runs_dir, token=TOKEN))

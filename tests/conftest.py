"""Fixtures shared by all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from eval_toolkit.errors import ModelError
from eval_toolkit.models.embedded import EmbeddedModel, model_path

# A shell that runs the tests in the background makes them deaf to Ctrl-C, and their children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# No deadline: a busy machine is not a bug. CI repeats the same examples on every run.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository; it is not part of the product."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of published reference data is not beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def embedded_weights() -> Path:
    """The weights of the embedded model; never a stand-in for them."""
    try:
        return model_path()
    except ModelError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def embedded_model(embedded_weights: Path) -> EmbeddedModel:
    """The embedded model, loaded once for all tests."""
    return EmbeddedModel()

"""Fixtures shared by all tests."""

import gc
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from eval_toolkit import provenance
from eval_toolkit.errors import ModelError
from eval_toolkit.models.embedded import EmbeddedModel, model_path

# A shell that runs the tests in the background makes them deaf to Ctrl-C, and their children too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKOUT = Path(__file__).resolve().parents[1]
SHARED_DATA = CHECKOUT.parent / "shared" / "data"

# The same examples on every run, and no rule about time: a busy machine is not a bug. `make explore`
# looks for examples that nobody has seen.
settings.register_profile(
    "fixed",
    max_examples=30,  # where a test does not say how many
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    derandomize=False,  # Hypothesis itself derandomizes where CI is set
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("fixed")
EXPLORED = 10
"""Factor for the number of Hypothesis examples with the profile "explore"."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Increase the number of Hypothesis examples for `make explore`."""
    function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    own = getattr(function, "_hypothesis_internal_use_settings", None)
    if own is None or settings.get_current_profile_name() != "explore":
        return
    if not hasattr(function, "explored"):  # parametrised ones share their function
        function.explored = True
        more = settings(own, max_examples=EXPLORED * own.max_examples)
        function._hypothesis_internal_use_settings = more


def pytest_collection() -> None:
    """Disable garbage collection during test collection, which creates little garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude the objects created during collection from later garbage collections."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """Disable file synchronisation, since no test simulates a power failure.

    Tests of synchronisation replace this with their own function.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # what is no open file is still an error
        yield


@pytest.fixture(scope="session", autouse=True)
def _git_is_asked_once() -> Iterator[None]:
    """Cache the git state of this checkout, since every stored run would start three processes."""
    ask, known = provenance._output, {}

    def remembered(
        command: list[str], cwd: Any = None, variables: Mapping[str, str] | None = None
    ) -> str | None:
        folder = Path(cwd or ".").resolve()
        if command[0] != "git" or not folder.is_relative_to(CHECKOUT):
            return ask(command, cwd, variables)
        key = (*command, folder, os.environ.get("PATH"), *sorted((variables or {}).items()))
        if key not in known:
            known[key] = ask(command, cwd, variables)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "_output", remembered)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data next to the repository, which is not part of the package."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of published reference data is not beside this checkout")
    return SHARED_DATA


@pytest.fixture(scope="session")
def embedded_weights() -> Path:
    """Return the path of the model's weights; if they are missing, skip the test (fail in CI)."""
    try:
        return model_path()
    except ModelError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def embedded_model(embedded_weights: Path) -> EmbeddedModel:
    """Load the embedded model once for all tests."""
    return EmbeddedModel()

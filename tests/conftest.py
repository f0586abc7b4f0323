"""Fixtures shared by all tests."""

import gc
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from eval_toolkit import provenance
from eval_toolkit.errors import ModelError
from eval_toolkit.models.embedded import EmbeddedModel, model_path
from eval_toolkit.plugins import names

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
FIXED = 0.5
"""The same for properties of whole runs and catalogues, whose examples take 20 ms and more."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Increase the number of Hypothesis examples for `make explore`."""
    function = getattr(getattr(item, "obj", None), "__func__", getattr(item, "obj", None))
    own = getattr(function, "_hypothesis_internal_use_settings", None)
    exploring = settings.get_current_profile_name() == "explore"
    times = EXPLORED if exploring else FIXED if "properties" in item.path.parts else 1
    if own is None or times == 1:
        return
    if not hasattr(function, "resized"):  # parametrised ones share their function
        function.resized = True
        least = min(10, own.max_examples)
        some = settings(own, max_examples=max(least, round(times * own.max_examples)))
        function._hypothesis_internal_use_settings = some


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
def _programs_are_asked_once() -> Iterator[None]:
    """Cache the git state of this checkout and the GPU driver, since every run starts five processes."""
    ask, known = provenance._output, {}

    def remembered(
        command: list[str], cwd: Any = None, variables: Mapping[str, str] | None = None
    ) -> str | None:
        folder = CHECKOUT if command[0] == "nvidia-smi" else Path(cwd or ".").resolve()
        if command[0] not in ("git", "nvidia-smi") or not folder.is_relative_to(CHECKOUT):
            return ask(command, cwd, variables)
        key = (*command, folder, os.environ.get("PATH"), *sorted((variables or {}).items()))
        if key not in known:
            known[key] = ask(command, cwd, variables)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "_output", remembered)
        yield


@pytest.fixture(scope="session", autouse=True)
def _packages_are_asked_once() -> Iterator[None]:
    """Remember which plugins are installed: each look reads a file of every package.

    Tests that put folders of their own on the path are not remembered.
    """
    ask, known, places = names.entry_points, {}, frozenset(sys.path)

    def remembered(*, group: str) -> Any:
        if not places.issuperset(sys.path):
            return ask(group=group)
        if group not in known:
            known[group] = ask(group=group)
        return known[group]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "entry_points", remembered)
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

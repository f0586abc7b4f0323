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
"""Times as many examples as a test asks for, with the profile "explore"."""
FIXED = 0.5
"""The same for the properties of whole runs and catalogues: examples there take 20 ms and more."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test of Hypothesis its many more examples where `make explore` asks for them."""
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
    """Look for no garbage while modules are imported and tests are collected: there is little."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was imported and collected out of every later collection of garbage."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """Let files be written without waiting for the disk: no test can cut the power.

    Tests of what is synced, and when, put their own function in this place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # what is no open file is still an error
        yield


@pytest.fixture(scope="session", autouse=True)
def _programs_are_asked_once() -> Iterator[None]:
    """Remember what git says of this checkout, and a driver of this machine.

    Every stored run asks five times, in a process each.
    """
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

"""Fixtures shared by all tests."""

from pathlib import Path

import pytest

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository; it is not part of the product."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the folder of published reference data is not beside this checkout")
    return SHARED_DATA

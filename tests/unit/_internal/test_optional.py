import json
import sys

import pytest

from eval_toolkit._internal.optional import require
from eval_toolkit.errors import EvalToolkitError, MissingExtraError


def test_an_installed_module_is_returned():
    assert require("json", feature="a test") is json
    assert require("os.path", feature="a test").join("a", "b")


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    message = r"^Scorecard.to_pandas requires pandas. Install with: pip install 'eval-toolkit\[dataframe\]'$"
    with pytest.raises(MissingExtraError, match=message) as caught:
        require("pandas", feature="Scorecard.to_pandas", extra="dataframe")
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, EvalToolkitError)
    assert isinstance(caught.value.__cause__, ImportError)


def test_without_an_extra_the_package_itself_is_named():
    message = r"^Scorecard.to_polars requires no_such_package. Install with: pip install 'no_such_package'$"
    with pytest.raises(MissingExtraError, match=message):
        require("no_such_package.inner", feature="Scorecard.to_polars")

"""Optional dependencies: imported when needed, missed with a helpful message."""

from importlib import import_module
from types import ModuleType

from eval_toolkit.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, *, feature: str, extra: str | None = None) -> ModuleType:
    """Import and return ``module``, or say which extra provides it.

    Parameters
    ----------
    module : str
        Dotted name of the module.
    feature : str
        What needs it, in the words of the user (``"Scorecard.to_pandas"``).
    extra : str, optional
        The extra of eval-toolkit that installs it; None for packages we only use when present.

    Raises
    ------
    MissingExtraError
        If the module cannot be imported.

    Examples
    --------
    >>> require("json", feature="an example").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        install = f"eval-toolkit[{extra}]" if extra else package
        raise MissingExtraError(
            f"{feature} requires {package}. Install with: pip install '{install}'"
        ) from error

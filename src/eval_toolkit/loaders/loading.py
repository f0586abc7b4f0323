"""Loaders by name, for the command line, and validation of the loaded splits."""

from collections.abc import Mapping

from eval_toolkit.errors import EvalToolkitError, PluginError
from eval_toolkit.plugins import TYPED, available_plugins, make_plugin
from eval_toolkit.protocols import DatasetLoader
from eval_toolkit.slices import EvalSlice

_HERE = "eval_toolkit.loaders"
OURS = {
    "files": f"{_HERE}.files:FileLoader",
    "hub": f"{_HERE}.hub:HFDatasetsLoader",
    "ood": f"{_HERE}.ood:OodManifestLoader",
    "parquet_glob": f"{_HERE}.files:ParquetGlobLoader",
}


def available_loaders() -> dict[str, str]:
    """Return the import paths of the built-in loaders and of the entry points, sorted by name.

    Examples
    --------
    >>> available_loaders()["files"]
    'eval_toolkit.loaders.files:FileLoader'
    """
    return available_plugins("loaders", OURS)


def load_loader(spec: str) -> DatasetLoader:
    """Return the loader with a given name, without loading data.

    Parameters
    ----------
    spec : str
        Name from `available_loaders` or ``package.module:object``, optionally followed by options
        as a TOML table: ``files{source="all.csv", split_col="split"}``.

    Returns
    -------
    DatasetLoader
        Loader with its options applied.

    Raises
    ------
    PluginError
        If no loader has that name (the nearest is suggested), or the object is not a loader.
    InvalidInputError
        If an option is unknown, missing or out of range.

    Examples
    --------
    >>> load_loader('files{source={train="train.csv", test="test.csv"}}').source["test"]
    'test.csv'
    """
    made: DatasetLoader = make_plugin("loaders", spec, OURS, protocol=DatasetLoader, origin=TYPED)
    return made


def loaded_splits(loader: DatasetLoader, name: str) -> dict[str, EvalSlice]:
    """Return the splits of a loader, with slices named after their keys.

    Errors of third-party code, and results other than slices by name, raise a `PluginError`.

    Examples
    --------
    >>> from eval_toolkit.loaders import SingleSliceLoader
    >>> rows = EvalSlice("demo", {"text": ["a"], "label": [1]})
    >>> loaded_splits(SingleSliceLoader(rows), "mine")
    {'all': EvalSlice('all', n=1, n_positive=1)}
    """
    try:
        splits = loader.load_splits()
    except EvalToolkitError:
        raise
    except Exception as error:  # third-party code may raise anything
        raise PluginError(
            f"loader {name!r}: load_splits failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(splits, Mapping) or not splits:
        what = "no split" if isinstance(splits, Mapping) else f"a {type(splits).__name__}"
        raise PluginError(
            f"loader {name!r}: load_splits returned {what}; it must return a dict of name to EvalSlice"
        )
    for split, part in splits.items():
        if not isinstance(split, str) or not isinstance(part, EvalSlice):
            raise PluginError(
                f"loader {name!r}: split {split!r} is a {type(part).__name__}; it must be an "
                "EvalSlice, and its key a string"
            )
    return {
        split: part if part.name == split else part.renamed(split) for split, part in splits.items()
    }

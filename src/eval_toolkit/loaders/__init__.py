"""Loaders: named slices out of frames, files, Hugging Face datasets and pinned downloads.

Every loader has ``load_splits()``, which returns slices by name, and ``describe()``, which returns
a Croissant (JSON-LD) description of where they come from.
"""

from eval_toolkit.loaders.files import FileLoader, ParquetGlobLoader
from eval_toolkit.loaders.frames import DataFrameLoader, SingleSliceLoader
from eval_toolkit.loaders.hub import HFDatasetsLoader
from eval_toolkit.loaders.ood import OodManifestLoader, ood_dataset_from_manifest

__all__ = [
    "DataFrameLoader",
    "FileLoader",
    "HFDatasetsLoader",
    "OodManifestLoader",
    "ParquetGlobLoader",
    "SingleSliceLoader",
    "ood_dataset_from_manifest",
]

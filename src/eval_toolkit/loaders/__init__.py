"""Loaders: named slices from frames, files, Hugging Face datasets and pinned downloads.

Every loader has ``load_splits()``, which returns slices by name, and ``describe()``, which returns
a Croissant (JSON-LD) description of their origin. `loaders.predictions` reads predictions.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.loaders.files import *
    from eval_toolkit.loaders.frames import *
    from eval_toolkit.loaders.hub import *
    from eval_toolkit.loaders.ood import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "files": "FileLoader ParquetGlobLoader",
        "frames": "DataFrameLoader SingleSliceLoader",
        "hub": "HFDatasetsLoader",
        "ood": "OodManifestLoader ood_dataset_from_manifest",
    },
)

"""Language model with 135 million parameters, implemented in numpy."""

from eval_toolkit.models.embedded.fetching import cache_folder, fetch_model, model_path
from eval_toolkit.models.embedded.model import EmbeddedModel

__all__ = ["EmbeddedModel", "cache_folder", "fetch_model", "model_path"]

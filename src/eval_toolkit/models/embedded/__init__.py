"""A real language model of 135 million parameters, run by numpy alone."""

from eval_toolkit.models.embedded.fetching import cache_folder, fetch_model, model_path
from eval_toolkit.models.embedded.model import EmbeddedModel

__all__ = ["EmbeddedModel", "cache_folder", "fetch_model", "model_path"]

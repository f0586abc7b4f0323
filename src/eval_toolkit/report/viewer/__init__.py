"""Local, read-only web viewer of a folder of runs."""

from eval_toolkit.report.viewer.app import create_app
from eval_toolkit.report.viewer.serving import serve

__all__ = ["create_app", "serve"]

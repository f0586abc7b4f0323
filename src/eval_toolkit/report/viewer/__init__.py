"""The viewer: a local web app over a folder of runs, read-only, for one person on one machine."""

from eval_toolkit.report.viewer.app import create_app
from eval_toolkit.report.viewer.serving import serve

__all__ = ["create_app", "serve"]

"""Executors for parallel resampling on threads, processes, Ray or Dask, with identical results."""

from eval_toolkit.integrations.executors.on_dask import DaskExecutor
from eval_toolkit.integrations.executors.on_ray import RayExecutor
from eval_toolkit.integrations.executors.opening import BACKENDS, open_executor

__all__ = ["BACKENDS", "DaskExecutor", "RayExecutor", "open_executor"]

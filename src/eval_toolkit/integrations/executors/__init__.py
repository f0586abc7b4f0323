"""Executors for resampling: threads, processes, Ray or Dask; results are bit-identical."""

from eval_toolkit.integrations.executors.on_dask import DaskExecutor
from eval_toolkit.integrations.executors.on_ray import RayExecutor
from eval_toolkit.integrations.executors.opening import BACKENDS, open_executor

__all__ = ["BACKENDS", "DaskExecutor", "RayExecutor", "open_executor"]

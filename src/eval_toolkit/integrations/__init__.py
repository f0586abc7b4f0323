"""Bridges to other tools: importers, exporters, pytest, scikit-learn, MLflow, executors."""

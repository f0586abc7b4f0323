"""Integrations with other tools: importers, exporters, pytest, scikit-learn, MLflow, executors."""

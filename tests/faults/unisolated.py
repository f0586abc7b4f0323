"""Targets of contained calls that run programs with less around them than the system offers."""

from typing import Any

from eval_toolkit._contained import programs


def without_namespaces(source: str, told: dict[str, Any]) -> dict[str, Any]:
    """Run a program as where namespaces are refused."""
    programs._LEFT[:] = [False]
    return programs.run_program([source], told)


def without_anything(source: str, told: dict[str, Any]) -> dict[str, Any]:
    """Run a program as where there is no filter of system calls either."""
    programs.forbid = lambda: False
    return without_namespaces(source, told)

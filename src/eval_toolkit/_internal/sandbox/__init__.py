"""Sandbox for untrusted or long-running code in worker processes.

`Contained` wraps a function; calling it runs the function in a worker process, which is reused for
later calls, and replaced if it exceeds its limits. Arguments and results are JSON. Workers for
built-in functions have time and memory limits; workers for model-written programs are also isolated
as described in `levels`.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.sandbox.errors import *
    from eval_toolkit._internal.sandbox.limits import *
    from eval_toolkit._internal.sandbox.workers import *

ALLOW_WEAKER = "EVAL_TOOLKIT_ALLOW_WEAKER_SANDBOX"

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "workers": "Contained close_workers",
        "errors": "Failed Overrun",
        "limits": "Limits",
    },
)

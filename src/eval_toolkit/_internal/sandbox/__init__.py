"""The sandbox: untrusted or possibly endless work in separate processes.

`Contained` names a function; calling it runs the function in a worker process that lives on for
the next call, and is killed and replaced when it overruns. Arguments and results are JSON. Workers
of functions of ours have limits of time and memory; those that run a model's programs are kept
apart as `levels` says, as well as this system can do it.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._internal.sandbox.calling import Contained, close_workers
    from eval_toolkit._internal.sandbox.errors import Failed, Overrun
    from eval_toolkit._internal.sandbox.limits import Limits

__all__ = ["ALLOW_WEAKER", "Contained", "Failed", "Limits", "Overrun", "close_workers"]

ALLOW_WEAKER = "EVAL_TOOLKIT_ALLOW_WEAKER_SANDBOX"

__getattr__ = names_on_use(
    __name__,
    {
        "calling": "Contained close_workers",
        "errors": "Failed Overrun",
        "limits": "Limits",
    },
)

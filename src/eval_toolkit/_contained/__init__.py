"""Work that may not end: done in a process of its own with limits of time and memory.

`Contained` names a function; calling it runs the function in a worker process that lives on for
the next call, and is killed and replaced when it overruns. Arguments and results are JSON. This is
containment, not a jail: it holds what goes wrong, and makes it hard, not impossible, to do harm.
"""

from typing import TYPE_CHECKING

from eval_toolkit._optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit._contained.calling import Contained, close_workers
    from eval_toolkit._contained.errors import Failed, Overrun
    from eval_toolkit._contained.limits import Limits

__all__ = ["Contained", "Failed", "Limits", "Overrun", "close_workers"]

# The worker imports this package too, and needs none of the caller's side.
__getattr__ = names_on_use(
    __name__,
    {
        "calling": ("Contained", "close_workers"),
        "errors": ("Failed", "Overrun"),
        "limits": ("Limits",),
    },
)

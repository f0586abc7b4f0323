"""Worker side of the sandbox, run as a script by a bare interpreter.

The first message names the function and the limits, and is answered when the function can be
called; each later message contains arguments and is answered with a result. The worker exits when
the pipe is closed.
"""

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_GRACE = 1.0
"""Seconds after which a worker exits if its caller has died."""


def main() -> None:
    """Answer calls until the caller closes the pipe."""
    inbox, outbox = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # keep printed output out of the message stream
    sys.path[:] = os.environ.pop("EVAL_TOOLKIT_PATH").split(os.pathsep)
    from eval_toolkit._internal.sandbox import wire

    wire.inbox = inbox
    target, settings, sandbox = wire.read(inbox)
    reply: dict[str, Any]
    try:
        function = _ready(target, settings, sandbox)
        reply = {"result": None}
    except BaseException as error:
        reply = {"failed": [type(error).__name__, str(error)]}
    wire.write(outbox, reply)
    if "failed" in reply:
        return
    while True:
        try:
            arguments = wire.read(inbox)
        except EOFError:
            return
        reply = _called(function, arguments, settings["seconds"] + _GRACE)
        try:
            wire.write(outbox, reply)
        except (TypeError, ValueError) as error:  # the result is not JSON
            wire.write(outbox, {"failed": [type(error).__name__, str(error)]})
        if "overrun" in reply:
            return


def _ready(
    target: str, settings: dict[str, Any], sandbox: dict[str, Any] | None
) -> Callable[..., Any]:
    """Import the function, set the limits of this process, and return the function."""
    from eval_toolkit._internal.sandbox.limits import Limits, hold

    limits = Limits(**settings)
    module, _, name = target.partition(":")
    function = getattr(import_module(module), name)
    if sandbox:
        _enter(sandbox)
    hold(limits)
    if sandbox and not sandbox["forks"]:
        _restrain(sandbox)
    return function  # type: ignore[no-any-return]


def _enter(sandbox: dict[str, Any]) -> None:
    from eval_toolkit._internal.sandbox import jail
    from eval_toolkit._internal.sandbox.view import BUBBLEWRAP, NAMESPACES, View

    if sandbox["way"] == NAMESPACES:
        jail.enter_jail(os.getcwd(), View(**sandbox["view"]))  # noqa: PTH109 - as it was given
    elif sandbox["way"] == BUBBLEWRAP:
        jail.end_with_parent()  # the parent is bubblewrap
        jail.continue_in_child()
    jail.drop_privileges()


def _restrain(sandbox: dict[str, Any]) -> None:
    from eval_toolkit._internal.sandbox.filters import filter_calls
    from eval_toolkit._internal.sandbox.landlock import restrict_files
    from eval_toolkit._internal.sandbox.view import DEVICES, LANDLOCK

    files = (sandbox["view"]["readable"], DEVICES, os.getcwd())  # noqa: PTH109
    if sandbox["way"] == LANDLOCK and not restrict_files(*files):
        raise OSError("Landlock failed")
    if not filter_calls():
        raise OSError("the kernel rejected the system call filter")


def _called(function: Callable[..., Any], arguments: list[Any], seconds: float) -> dict[str, Any]:
    # The default action of the alarm ends the process, even inside C code.
    timer = getattr(signal, "setitimer", None)
    try:
        if timer:
            timer(signal.ITIMER_REAL, seconds)
        return {"result": function(*arguments)}
    except MemoryError:
        return {"overrun": "memory"}
    except BaseException as error:
        return {"failed": [type(error).__name__, str(error)[:1000]]}
    finally:
        if timer:
            timer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()

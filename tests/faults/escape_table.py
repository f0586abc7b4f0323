"""Table of hostile programs by sandbox level: ``python -m tests.faults.escape_table``.

Runs as the current user and, if that is root, also as an unprivileged user; with namespaces, without them
(as in most containers), and without Landlock (as on old kernels). Only the standard library is required.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults import escapes

from eval_toolkit._internal.sandbox import Contained, Limits, Overrun, levels

ROOT = Path(__file__).parents[2]
REFUSING = Path(__file__).with_name("refusing.py")
ORDINARY = 65534
GROUPS = {
    "read what is the user's": escapes._READING,
    "write or change it": escapes._WRITING,
    "processes, signals, the kernel": escapes._PROCESSES,
    "network": escapes._NETWORK,
    "other calls, files, descriptors": escapes.KERNEL_CALLS,
    "use the machine up": {**escapes.EXHAUSTION, **escapes.HIDDEN},
    "pass without right": escapes.CHEATS,
}
SYSTEMS = {
    "everything": "",
    "the other way to a jail": "bubblewrap",
    "no namespaces": "namespaces",
    "no Landlock either": "landlock",
}
SECONDS = 1.0


def tried(folder: Path) -> dict[str, Any]:
    """Return the sandbox level, and the programs of each group that succeeded."""
    if os.environ.get("WITHOUT_BUBBLEWRAP"):
        levels._WAYS = levels._WAYS[1:]
    found = levels.measured_level()
    told: dict[str, Any] = {"level": found.level.value, "way": found.way, "escaped": {}}
    if not found.way:
        return told
    with escapes.Outside(folder) as outside:
        for group, programs in GROUPS.items():
            done = told["escaped"][group] = []
            for name, code in programs.items():
                whole = f"{escapes.TOOLS}\n{outside.names}\n{code}\ndone = True"
                cheats = group == "pass without right"
                tests = escapes.TESTED.get(name, escapes.RIGHT) if cheats else "assert done"
                if _passes(found.way, whole, tests) or outside.touched():
                    done.append(name)
    told["worked"] = [
        name
        for name, code in escapes.HARMLESS.items()
        if _passes(found.way, f"{escapes.TOOLS}\n{code}\ndone = 1", "assert done")
    ]
    return told


def _passes(way: str, code: str, tests: str) -> bool:
    sandbox = levels.program_sandbox(way)
    call = Contained(
        "eval_toolkit._internal.sandbox.programs:run_program", Limits(SECONDS + 20, None), sandbox
    )
    told = Limits(SECONDS, 512).to_dict()
    try:
        return bool(call(code, told, way, sandbox.view.to_dict(), apart=tests)["passed"])
    except Overrun as overrun:
        raise SystemExit(f"a program has ended its worker: {overrun}\n{code}") from None


def measured(user: int, refused: str) -> dict[str, Any]:
    """Return the result of `tried` as another user with restricted kernel features."""
    python = sys.executable
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        if user != os.getuid():
            os.chown(folder, user, user)
            python = _reached(python, user)
        command = [python, "-m", "tests.faults.escape_table", folder]
        if refused in ("namespaces", "landlock"):
            command = [python, str(REFUSING), refused, *command]
        variables = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "TMPDIR": folder}
        variables |= {"PYTHONDONTWRITEBYTECODE": "1", "SOME_API_KEY": "hush"}
        if refused == "bubblewrap":
            variables["WITHOUT_BUBBLEWRAP"] = "1"
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=variables,
            user=user,
            group=user,
            extra_groups=[],
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def _reached(python: str, user: int) -> str:
    """Return an interpreter that the user can run, since the current one may be in another's home."""
    try:
        subprocess.run([python, "-c", ""], user=user, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "/usr/bin/python3"
    return python


def main() -> None:
    """Print the table; exit with 1 if a program has escaped."""
    users = [os.getuid()] if os.getuid() else [0, ORDINARY]
    columns = ["level", *(f"{name} ({len(group)})" for name, group in GROUPS.items())]
    columns.append(f"harmless ones that work ({len(escapes.HARMLESS)})")
    print("|", " | ".join(["system", "user", *columns]), "|")
    print("|", " | ".join(["---"] * (len(columns) + 2)), "|")
    bad = []
    for user in users:
        for system, refused in SYSTEMS.items():
            told = measured(user, refused)
            cells = [told["level"] + (f" ({told['way']})" if told["way"] else "")]
            for name, group in GROUPS.items():
                if not told["way"]:
                    cells.append("not run")
                    continue
                escaped = told["escaped"][name]
                bad += [f"{system}, {user}: {one}" for one in escaped]
                cells.append(f"{len(group) - len(escaped)} prevented")
            cells.append(str(len(told["worked"])) if told["way"] else "not run")
            who = "root" if user == 0 else "ordinary"
            print("|", " | ".join([system, who, *cells]), "|", flush=True)
    for line in bad:
        print("escaped:", line)
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(tried(Path(sys.argv[1]))))
    else:
        main()

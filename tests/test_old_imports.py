"""Every import line of the documents this project grew from, and of its own first pages, still works.

`old_imports.txt` has them, one name a line. They run in one process of their own, with warnings as
errors: neither another test nor an order of imports may be what lets them work.
"""

import subprocess
import sys
from pathlib import Path

LINES = Path(__file__).with_name("old_imports.txt")

RUN = """
import sys
from pathlib import Path

failed = []
for line in Path(sys.argv[1]).read_text("utf-8").splitlines():
    try:
        exec(line, {})
    except Exception as error:
        failed.append(f"{line}: {type(error).__name__}: {error}")
print("\\n".join(failed))
"""


def test_every_old_import_works() -> None:
    lines = LINES.read_text("utf-8").splitlines()
    assert len(lines) > 300
    assert lines == sorted(set(lines))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, str(LINES)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""

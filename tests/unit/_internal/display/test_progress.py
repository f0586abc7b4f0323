"""Progress of a run where standard error is no terminal."""

from dataclasses import replace

from eval_toolkit._internal.display.progress import ProgressBar
from eval_toolkit.models.runner import Progress


def test_lines_at_the_start_and_the_end() -> None:
    said: list[str] = []
    begun = Progress(done=0, total=20)
    with ProgressBar(said.append) as bar:
        for done in range(21):
            bar(replace(begun, done=done, rate=4.0))
    assert said == ["0 of 20 requests", "20 of 20 requests, 4.0/s, 0 s left, 0 errors"]


def test_nothing_is_said_of_a_run_without_requests_or_twice() -> None:
    said: list[str] = []
    with ProgressBar(said.append):
        pass
    with ProgressBar(said.append) as bar:
        bar(Progress(done=3, total=3, reused=3))
    assert said == ["3 of 3 requests, 0.0/s, 0 s left, 3 cached, 0 errors"]

"""Pages of one sample: the reference beside the answer, the right choice among the others."""

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile import HOSTILE
from tests.support.viewer_driving import Answer, Asking

from eval_toolkit.errors import ModelError
from eval_toolkit.models.requests import LoglikelihoodRequest
from eval_toolkit.models.responses import ErrorInfo, RawLoglikelihood
from eval_toolkit.models.runner import Job, JobResult
from eval_toolkit.models.scripted import ScriptedModel
from eval_toolkit.runs import Run, write_run
from eval_toolkit.runs.units import UNITS
from eval_toolkit.tasks import ChoicesSpec, CompletionSpec, Prompt, Task, run_task
from eval_toolkit.tasks.references import Reference
from eval_toolkit.tasks.sample_display import right_by_part

CITIES = ["Rome", "Madrid", "Bonn"]


def choices(folder: Path, *, shuffled: bool = True) -> Run:
    task = Task(
        "capitals",
        Prompt(instruction="Capital {n}?", style="cloze"),
        ChoicesSpec(choices=CITIES, answer="capital"),
        rows=[{"n": n, "capital": CITIES[n % 3]} for n in range(6)],
        shuffle_choices=shuffled,
    )
    model = ScriptedModel(lambda request: [-1.0, -2.0, -3.0])
    return made(run_task(task, model, folder))


def completions(folder: Path, truth: Any, answer: Any = "5") -> Run:
    task = Task(
        "sums",
        Prompt(instruction="{q}"),
        CompletionSpec(answer="a"),
        rows=[{"q": "2 + 2?", "a": truth}],
        graders=["exact_match"],
    )
    return made(run_task(task, ScriptedModel(answer), folder, max_error_rate=1.0))


def made(done: Any) -> Run:
    assert done.run is not None
    run: Run = done.run
    return run


def key_of(ask: Asking, run: Run) -> str:
    keys: list[str] = re.findall(r'href="/runs/([a-z0-9-]+)"', ask("/").text)
    return next(key for key in keys if key.rpartition("-")[0] == run.run_id)


def sample(ask: Asking, run: Run, row: int = 0) -> Answer:
    return ask(f"/runs/{key_of(ask, run)}/sample?row={row}")


def compared(ask: Asking, a: Run, b: Run, row: int = 0) -> Answer:
    keys = key_of(ask, a), key_of(ask, b)
    return ask(f"/compare/sample?a={keys[0]}&b={keys[1]}&row={row}&row_b={row}")


def right_in(text: str) -> list[str]:
    """Return the choices that a page marks as right."""
    rows = re.findall(r'<th scope="row" class="name">(.*?)</th>', text)
    return [row.partition("<")[0].strip() for row in rows if ">right<" in row]


def test_the_right_choice_is_marked_in_the_order_asked(ask: Asking, runs_dir: Path) -> None:
    run = choices(runs_dir / "c")
    orders = set()
    for row in range(6):
        page = sample(ask, run, row)
        (n,) = map(int, re.findall(r"Capital (\d)\?", page.words))
        assert right_in(page.text) == [CITIES[n % 3]]
        orders.add(tuple(re.findall(r"\b(Rome|Madrid|Bonn)\b", page.words)[:3]))
    assert len(orders) > 1


def test_both_sides_mark_their_own(ask: Asking, runs_dir: Path) -> None:
    a, b = choices(runs_dir / "a"), choices(runs_dir / "b", shuffled=False)
    for row in range(6):
        page = compared(ask, a, b, row)
        (n,) = set(map(int, re.findall(r"Capital (\d)\?", page.words)))
        assert right_in(page.text) == [CITIES[n % 3]] * 2
        assert f"Reference, the same in both {CITIES[n % 3]}" in page.words


def test_the_reference_stands_by_the_answer(ask: Asking, runs_dir: Path) -> None:
    a = completions(runs_dir / "a", "4")
    assert "Answer, ended by stop 5 Expected answer Reference 4" in sample(ask, a).words
    several = completions(runs_dir / "b", ["four", "vier"])
    assert 'Reference [ "four", "vier" ]' in sample(ask, several).words


def test_a_failed_request_has_it_too(ask: Asking, runs_dir: Path) -> None:
    def fail(request: Any) -> str:
        raise ModelError("no answer", kind="server")

    run = completions(runs_dir / "a", "4", fail)
    words = sample(ask, run).words
    assert "server: no answer" in words
    assert "Reference 4" in words


def test_runs_of_before_say_nothing_about_it(ask: Asking, runs_dir: Path) -> None:
    new = choices(runs_dir / "new")
    (subject,) = new.subjects
    old = write_run(
        runs_dir / "old",
        results={**new.results, "run_id": "old"},
        manifest={"run_id": "old", "kind": "task"},
        records={subject: new.records(*subject)},
        tables={"responses.parquet": new.table("responses.parquet")},
    )
    page = sample(ask, old)
    assert page.status == 200
    assert right_in(page.text) == []
    assert "Reference" not in page.words
    both = compared(ask, old, new)
    assert len(right_in(both.text)) == 1
    assert "Stored without a reference." in both.words


def test_a_table_that_cannot_be_read_hides_nothing_else(ask: Asking, runs_dir: Path) -> None:
    run = choices(runs_dir / "c")
    (run.path / UNITS).write_bytes(b"no parquet")
    page = sample(ask, run)
    assert page.status == 200
    assert "Capital" in page.words
    assert right_in(page.text) == []


def test_hostile_references_come_out_as_text(ask: Asking, runs_dir: Path) -> None:
    texts = [text for text in HOSTILE.values() if text.strip()]
    for at, truth in enumerate(("\n".join(texts), texts)):
        run = completions(runs_dir / f"h{at}", truth)
        for page in (sample(ask, run), compared(ask, run, run)):
            assert page.status == 200
            assert "Reference" in page.words
            assert page.text.count("<script") == page.text.count('<script src="/static/')
            inner = page.text.split("<main")[1]
            assert not re.search(r"<(img|svg|iframe|b|object|embed|style)\b", inner)
            assert "\x00" not in page.text
            assert len(page.text) < 300_000


def part(step: str, n: int, *, failed: bool = False) -> JobResult:
    job = Job("q", 1, LoglikelihoodRequest("Why?", [f"{step} {at}" for at in range(n)]), step)
    if failed:
        return JobResult(job, error=ErrorInfo("server", "no answer"))
    return JobResult(job, RawLoglikelihood([-1.0] * n, list(job.request.continuations)))


def right_texts(asked: list[JobResult], reference: Reference | None) -> set[str]:
    found = right_by_part(asked, reference)
    assert [one for one, _ in found] == asked
    return {
        one.job.request.continuations[at]
        for one, right in found
        if one.response is not None
        for at in right
    }


@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12),
    right=st.sets(st.integers(0, 30)),
    order=st.randoms(),
)
def test_places_count_on_over_requests(
    sizes: list[tuple[int, bool]], right: set[int], order: Any
) -> None:
    # The oracle numbers all choices of the parts one after the other, those of failed parts too.
    asked = [part(f"part:{at}", n, failed=bad) for at, (n, bad) in enumerate(sizes)]
    flat = [f"part:{at} {place}" for at, (n, _) in enumerate(sizes) for place in range(n)]
    failed = {f"part:{at}" for at, (_, bad) in enumerate(sizes) if bad}
    expected = {flat[at] for at in right if at < len(flat) and flat[at].split(" ")[0] not in failed}
    order.shuffle(asked)
    found = right_texts(asked, Reference("x", tuple(sorted(right))))
    assert found == (expected if len(flat) > 1 else set())


def test_one_text_is_no_choice() -> None:
    for reference in (Reference("x", (0,)), Reference("x", None), None):
        assert right_texts([part("", 1)], reference) == set()

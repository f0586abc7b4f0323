"""The collector of single calls."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.models.batching import Batcher


class Recorder:
    """Doubles numbers and remembers the batches; odd things happen on demand."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.began = threading.Event()

    def __call__(self, numbers: list[int]) -> Sequence[int | Exception]:
        self.batches.append(list(numbers))
        self.began.set()
        assert self.go_on.wait(600)
        if 13 in numbers:
            raise ZeroDivisionError("13 is unlucky")
        return [ValueError(f"{n} is negative") if n < 0 else 2 * n for n in numbers]


async def gathered(batcher: Batcher[int, int], numbers: Sequence[int]) -> list[object]:
    calls = (batcher.submit(number) for number in numbers)
    return list(await asyncio.gather(*calls, return_exceptions=True))


def test_calls_under_way_together_run_together() -> None:
    run = Recorder()
    answers = asyncio.run(gathered(Batcher(run), range(5)))
    assert answers == [0, 2, 4, 6, 8]
    assert run.batches == [[0, 1, 2, 3, 4]]


def test_a_batch_is_no_larger_than_asked_for() -> None:
    run = Recorder()
    answers = asyncio.run(gathered(Batcher(run, max_batch=2), range(5)))
    assert answers == [0, 2, 4, 6, 8]
    assert run.batches == [[0, 1], [2, 3], [4]]


def test_the_size_of_a_batch_must_be_positive() -> None:
    with pytest.raises(InvalidInputError, match="`max_batch` is 0; it must be at least 1"):
        Batcher(Recorder(), max_batch=0)


def test_an_exception_that_is_returned_belongs_to_its_call() -> None:
    answers = asyncio.run(gathered(Batcher(Recorder()), [1, -2, 3]))
    assert answers[0] == 2
    assert answers[2] == 6
    assert isinstance(answers[1], ValueError)


def test_a_batch_that_raises_is_run_call_by_call() -> None:
    run = Recorder()
    answers = asyncio.run(gathered(Batcher(run), [1, 13, 3]))
    assert (answers[0], answers[2]) == (2, 6)
    assert isinstance(answers[1], ZeroDivisionError)
    assert run.batches == [[1, 13, 3], [1], [13], [3]]


def test_too_few_answers_are_an_error_not_a_wait_for_ever() -> None:
    batcher: Batcher[int, int] = Batcher(lambda numbers: [])
    answers = asyncio.run(gathered(batcher, [1]))
    assert str(answers[0]) == "got 0 answers to 1 requests"


def test_what_ends_a_thread_reaches_the_callers() -> None:
    def run(numbers: list[int]) -> list[int]:
        raise SystemExit(3)

    async def ask() -> None:
        await Batcher(run).submit(1)

    with pytest.raises(SystemExit):
        asyncio.run(ask())


def test_calls_made_meanwhile_wait_for_the_next_batch() -> None:
    run = Recorder()
    run.go_on.clear()
    batcher: Batcher[int, int] = Batcher(run)

    async def ask() -> list[int]:
        first = asyncio.create_task(batcher.submit(1))
        await asyncio.to_thread(run.began.wait)
        later = [asyncio.create_task(batcher.submit(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        run.go_on.set()
        return list(await asyncio.gather(first, *later))

    assert asyncio.run(ask()) == [2, 4, 6]
    assert run.batches == [[1], [2, 3]]


def test_cancelled_calls_are_left_out_and_the_batch_knows_that_nobody_waits() -> None:
    run = Recorder()
    run.go_on.clear()
    batcher: Batcher[int, int] = Batcher(run)
    assert not batcher.abandoned

    async def ask() -> int:
        first = asyncio.create_task(batcher.submit(1))
        await asyncio.to_thread(run.began.wait)
        second = asyncio.create_task(batcher.submit(2))
        await asyncio.sleep(0)
        assert not batcher.abandoned
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert batcher.abandoned
        run.go_on.set()
        return await batcher.submit(3)

    assert asyncio.run(ask()) == 6
    assert run.batches == [[1], [3]]


def test_one_batcher_serves_one_event_loop_after_another() -> None:
    batcher: Batcher[int, int] = Batcher(Recorder())
    assert asyncio.run(gathered(batcher, [1, 2])) == [2, 4]
    assert asyncio.run(gathered(batcher, [3])) == [6]


def test_a_loop_that_closed_too_early_blocks_nobody() -> None:
    batcher: Batcher[int, int] = Batcher(Recorder())
    loop = asyncio.new_event_loop()
    task = loop.create_task(batcher.submit(1))
    loop.call_soon(loop.stop)
    loop.run_forever()  # ends before the batch begins
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    assert asyncio.run(gathered(batcher, [2])) == [4]


def test_several_event_loops_at_once() -> None:
    batcher: Batcher[int, int] = Batcher(Recorder(), max_batch=3)
    found: dict[int, list[object]] = {}

    def work(start: int) -> None:
        found[start] = asyncio.run(gathered(batcher, range(start, start + 20)))

    threads = [threading.Thread(target=work, args=(start,)) for start in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert found == {s: [2 * n for n in range(s, s + 20)] for s in (100, 200, 300)}


def test_answers_that_are_ready_are_delivered_before_the_batch_ends() -> None:
    delivered = threading.Event()

    def run(numbers: list[int]) -> Sequence[int | Exception]:
        batcher.settle({1: 20, 2: ValueError("no")})
        assert delivered.wait(600), "the rest of the batch waits for the early answers"
        return [10 * number for number in numbers]

    batcher: Batcher[int, int] = Batcher(run)

    async def early_ones() -> list[object]:
        late, *early = (asyncio.ensure_future(batcher.submit(number)) for number in (1, 2, 3))
        found = await asyncio.gather(*early, return_exceptions=True)
        assert not late.done()
        delivered.set()
        return [await late, *found]

    first, second, third = asyncio.run(early_ones())
    assert (first, second, str(third)) == (10, 20, "no")

"""Run the benchmarks: ``python -m benchmarks [CASE …] [--quick]``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import (
    cards,
    command_line,
    embedded,
    graders,
    imports,
    inference,
    kernel,
    language_models,
    neardup,
    processes,
    ranks,
    rollouts,
    viewer,
)
from benchmarks._case import Case
from benchmarks._timing import Effort
from benchmarks.report import Result, SurveyResult, read, show, write

CASES = {
    case.name: case
    for module in (
        ranks,
        cards,
        inference,
        processes,
        neardup,
        command_line,
        language_models,
        embedded,
        graders,
        rollouts,
        viewer,
        imports,
    )
    for case in module.CASES
}
SURVEYS = {survey.name: survey for survey in (*kernel.SURVEYS, *processes.SURVEYS)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the selected cases; a complete run also writes RESULTS.md and results.json."""
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.cases if name not in {**CASES, **SURVEYS}]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; choose from {', '.join([*CASES, *SURVEYS])}")
    effort = Effort.quick() if options.quick else Effort()
    wanted = options.cases or [*CASES, *SURVEYS]
    console, progress = Console(), Console(stderr=True)
    results, surveys = [], []
    for name in dict.fromkeys(wanted):
        progress.print(f"{name} … ", end="", highlight=False)
        if name in CASES:
            results.append(_run(CASES[name], effort))
            progress.print(results[-1].verdict)
        else:
            surveys.append(SurveyResult(SURVEYS[name], SURVEYS[name].run(effort)))
            progress.print("done")
    if not options.quick and (options.update or not options.cases):
        _write(results, surveys)
    show(console, results, surveys)


def _write(results: Sequence[Result], surveys: Sequence[SurveyResult]) -> None:
    """Write the measurements; cases that were not run keep their stored figures."""
    folder = Path(__file__).parent
    cases, known = read(folder, CASES, SURVEYS)
    cases |= {result.case.name: result for result in results}
    known |= {found.survey.name: found for found in surveys}
    write(
        folder,
        [cases[name] for name in CASES if name in cases],
        [known[name] for name in SURVEYS if name in known],
    )


def _run(case: Case, effort: Effort) -> Result:
    try:
        return Result(case, case.run(effort))
    except ModuleNotFoundError as error:
        return Result(case, None, f"{error.name} is not installed")
    except Exception as error:  # one peer that fails must not cost the figures of the others
        return Result(case, None, f"{type(error).__name__}: {error}"[:300])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "cases",
        nargs="*",
        metavar="CASE",
        help=f"default: all of {', '.join([*CASES, *SURVEYS])}",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="write the figures of the named cases, keep the others",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds; writes no files")
    return parser


if __name__ == "__main__":
    main()

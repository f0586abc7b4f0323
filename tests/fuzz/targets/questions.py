"""Tables of questions and answers, prices, and server URLs."""

from pathlib import Path

from tests.fuzz.target import Target, command, each

from eval_toolkit.models import load_model
from eval_toolkit.models.loading import full_name, model_spec
from eval_toolkit.models.prices import Spending, cost_of, money, read_prices
from eval_toolkit.models.servers import the_server, user_server
from eval_toolkit.plugins import making, read_from

__all__ = ["TARGETS"]

_QUIET = ("--no-store", "--quiet", "--max-error-rate", 1)
_MODEL = ("--model", "scripted: 4", "--limit", 3)
_CODES = (0, 1, 2, 3)
_PROMPT = ("--prompt", "{question} Briefly.", "--answer", "answer")


def _questions(folder: Path, name: str) -> None:
    """Detect the columns, run the task with per-item grading, and write the task file."""
    path, made = folder / name, folder / "out" / "task.toml"
    made.parent.mkdir()
    asked = (*_MODEL, *_QUIET)
    each(
        lambda: command("tasks", "preview", path, "--limit", 2),
        lambda: command("run", path, *asked, codes=_CODES),
        lambda: command("run", path, *_PROMPT, *asked, codes=_CODES),
        lambda: command("tasks", "new", path, "--out", made),
    )
    if made.is_file():
        command("run", made, *asked, codes=_CODES)


def _answers(folder: Path, name: str) -> None:
    graders = ((), ("--grader", "includes", "--grader", "number_match"))
    each(
        *(
            lambda more=more: command("grade", folder / name, *more, *_QUIET, codes=_CODES)
            for more in graders
        )
    )


def _prices(folder: Path, name: str) -> None:
    found = read_prices(folder / name)
    for model in ("gpt-4o", "other"):
        money(cost_of(found.of(model) or (0.0, 0.0), 1234, 56, 12, 3), found.currency)
        spending = Spending(1.0, found.currency)
        with user_server({"base_url": "http://localhost:1/v1"}, prices=found, spending=spending):
            each(lambda model=model: load_model(f"openai:{model}"))
    given = ("--base-url", "http://localhost:1/v1", "--prices", folder / name)
    command("run", "capitals_open", "--model", "openai:gpt-4o", *given, "--dry-run", "--json")


def _addresses(folder: Path, name: str) -> None:
    """Parse each line as a URL from the user, as part of a model name, and as a bare name."""

    def ask(address: str) -> None:
        with user_server({"base_url": address}):
            load_model("openai:judge").describe()

    def ask_mentioned(address: str) -> None:
        with user_server({}, mentioned=[address]):
            the_server().address("judge", None)
            load_model("openai:judge").describe()

    def ask_for_file(address: str) -> None:
        with user_server({"base_url": "http://localhost:1/v1"}), making(read_from("task.toml")):
            load_model("openai:judge", {"base_url": address})

    def name_it(text: str) -> None:
        with user_server({"base_url": "http://localhost:1/v1"}):
            kind, _, _ = model_spec(full_name(text))
            if kind == "openai":
                load_model(text).describe()

    lines = (folder / name).read_bytes().decode("utf-8", "replace").splitlines()
    reads = (ask, ask_mentioned, ask_for_file, name_it)
    each(*(lambda read=read, line=line: read(line) for read in reads for line in lines[:12]))


TARGETS = (
    Target("questions", "tables of questions", _questions),
    Target("stored_answers", "tables of answers to grade", _answers),
    Target("prices", "prices of models", _prices),
    Target("addresses", "addresses of servers, names of models", _addresses),
)

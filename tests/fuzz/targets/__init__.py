"""All targets by name: every reader of what is not trusted."""

from tests.fuzz.targets import answers, documents, logs, questions, runs, tables, texts

TARGETS = {
    target.name: target
    for module in (documents, questions, tables, runs, logs, answers, texts)
    for target in module.TARGETS
}

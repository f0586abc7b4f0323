"""All fuzz targets by name: the readers of untrusted input."""

from tests.fuzz.targets import answers, documents, logs, questions, runs, tables, texts

TARGETS = {
    target.name: target
    for module in (documents, questions, tables, runs, logs, answers, texts)
    for target in module.TARGETS
}

"""Model card fragments with metrics, intervals and provenance."""

from collections.abc import Iterator, Mapping

from eval_toolkit._internal.display.to_markdown import markdown_text
from eval_toolkit._internal.plain import whole_text
from eval_toolkit._internal.redaction import redact_secrets
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.integrations.exporting.cells import all_blocks, origin_of
from eval_toolkit.integrations.exporting.tables import markdown_table
from eval_toolkit.report.cells import fitted_on
from eval_toolkit.report.headline_text import stopped
from eval_toolkit.report.provenance import imported_from
from eval_toolkit.runs import Run
from eval_toolkit.runs.kind_display import kind_named

_VERSIONS = ("python", "eval_toolkit", "numpy")


def model_card(run: Run) -> str:
    """Return a Markdown section about a run, for a model card or a README.

    The section contains the metrics with intervals, n and errors, caveats, data hashes, versions,
    and the command.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(model_card(run).splitlines()[0])
    ## Evaluation: r1
    """
    blocks = [f"## Evaluation: {markdown_text(run.run_id)}", markdown_table(run).rstrip("\n")]
    for title, lines in (
        ("Caveats", _caveats(run)),
        ("Data", _data(run)),
        ("Versions", _made(run)),
    ):
        told = [f"- {markdown_text(line)}" for line in lines]
        if told:
            blocks.append("\n".join([f"**{title}**", "", *told]))
    command = str(redact_secrets(run.manifest.get("command") or ""))
    if command:
        do = "run" if origin_of(run) is None else "import"
        blocks.append(f"**Command to {do} this evaluation again**\n\n{_code(command)}")
    return "\n\n".join(blocks) + "\n"


def _code(text: str) -> str:
    """Return a string in a code fence longer than any fence inside it."""
    flat = "".join(c if c.isprintable() else " " for c in whole_text(text))
    fence = "```"
    while fence in flat:
        fence += "`"
    return f"{fence}sh\n{flat}\n{fence}"


def _caveats(run: Run) -> Iterator[str]:
    """Yield caveats about the numbers."""
    cells = [cell for block in all_blocks(run) for cell in block.cells.values()]
    sure = {100 * cell.confidence for cell in cells if cell.confidence}
    if sure:
        levels = " and ".join(f"{level:g} %" for level in sorted(sure))
        yield (
            f"nominal coverage of the intervals: {levels}; "
            "units in the same group are treated as dependent"
        )
    if any(cell.has_value and cell.low is None for cell in cells):
        yield "the uncertainty of values without an interval is unknown"
    n_errors = max((cell.n_errors for cell in cells), default=0)
    if n_errors:
        config = run.manifest.get("config")
        policy = config.get("on_error", "exclude") if isinstance(config, Mapping) else "exclude"
        counted = {"exclude": "are excluded", "as_zero": "count as failures"}
        yield f"up to {n_errors} units per metric failed and {counted.get(policy, policy)}"
    absent = sum(not cell.has_value for cell in cells)
    if absent:
        yield f"{absent} of {len(cells)} metrics have no value; see the table for the reasons"
    for name in sorted(fitted_on(run)):
        yield f"thresholds were selected on {name}, so metrics on these rows are optimistic"
    if stopped(run.results):
        yield stopped(run.results)
    if run.manifest.get("dirty_flag"):
        yield "the code had uncommitted changes"
    yield from map(str, run.manifest.get("notes") or ())


def _data(run: Run) -> Iterator[str]:
    hashes = run.manifest.get("data_hashes")
    for name, digest in hashes.items() if isinstance(hashes, Mapping) else ():
        yield f"{name}: {digest}"
    config = run.manifest.get("config")
    task = config.get("task") if isinstance(config, Mapping) else None
    data = task.get("dataset") if isinstance(task, Mapping) else None
    if isinstance(data, Mapping):
        if data.get("sha256"):
            yield f"{data.get('path')}: sha256:{data['sha256']}"
        if data.get("revision"):
            yield f"{data.get('path')}: revision {data['revision']}"
    if run.manifest.get("item_set_hash"):
        yield f"item set: sha256:{run.manifest['item_set_hash']}"


def _made(run: Run) -> Iterator[str]:
    manifest = run.manifest
    origin = origin_of(run)
    if origin is not None:
        when = "" if origin.created is None else f", created {origin.created.isoformat()}"
        yield f"imported from {imported_from(manifest)}{when}"
    read = ", imported" if origin else ","
    captured = manifest.get("captured_at")
    yield f"run {run.run_id}, {run.kind}" + (f"{read} {captured}" if captured else "")
    env = manifest.get("env")
    known = env if isinstance(env, Mapping) else {}
    versions = [f"{name} {known[name]}" for name in _VERSIONS if known.get(name)]
    if versions:
        yield ("read with " if origin else "") + ", ".join(versions)
    objects = manifest.get("versioned_objects")
    for name, version in objects.items() if isinstance(objects, Mapping) else ():
        yield f"{name}, version {version}"
    for label, key in (
        ("read at commit" if origin else "commit", "git_sha"),
        ("configuration", "config_hash"),
    ):
        if manifest.get(key):
            yield f"{label} {manifest[key]}"
    if manifest.get("manifest_sha256"):
        yield f"manifest sha256:{manifest['manifest_sha256']}"


# --- Hugging Face's model-index -------------------------------------------------------------------


def model_index(run: Run) -> str:
    """Return the metrics of a run as YAML for Hugging Face's ``model-index``.

    Insert the YAML into the front matter of a model card, between the ``---`` lines. The format
    does not support intervals, so they are part of the metric names. Cells without a value are
    omitted.

    Every string is quoted.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> part = {"n": 3, "by_scorer": {"guard": {"pr_auc": 0.75}}}
    >>> run = write_run(
    ...     tempfile.mkdtemp() + "/r1", manifest={"run_id": "r1"}, results={
    ...     "schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {"test": part}},
    ... )
    >>> print(model_index(run).splitlines()[1])
    - name: "guard"
    """
    task = kind_named(run.kind).words.hub_task
    lines = ["model-index:"]
    by_model: dict[str, list[str]] = {}
    for block in all_blocks(run):
        found = [cell for cell in block.cells.values() if cell.has_value]
        if not found:
            continue
        told = by_model.setdefault(block.scorer, [])
        told += [
            "  - task:",
            f"      type: {_yaml(task)}",
            "    dataset:",
            f"      name: {_yaml(block.name)}",
            f"      type: {_yaml(block.name)}",
            "    metrics:",
        ]
        for cell in found:
            ends = "" if cell.low is None else f" [{cell.low:.4g}, {cell.high:.4g}]"
            n = "" if cell.n_units is None else f", n = {cell.n_units}"
            told += [
                f"    - type: {_yaml(cell.name)}",
                f"      value: {_number(float(cell.value or 0.0))}",
                f"      name: {_yaml(cell.name + ends + n)}",
            ]
    if not by_model:
        raise InvalidInputError(f"{run.path}: the run has no metric values to export")
    for model, told in by_model.items():
        lines += [f"- name: {_yaml(model)}", "  results:", *told]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Return a number in a form that YAML 1.1 parses as one: exponents require a decimal point."""
    text = repr(value)
    mantissa, sign, exponent = text.partition("e")
    return text if not sign or "." in mantissa else f"{mantissa}.0e{exponent}"


def _yaml(text: str) -> str:
    r"""Return a double-quoted YAML string in which non-printable characters are escaped.

    Examples
    --------
    >>> print(_yaml('a "b": #c'))
    "a \"b\": #c"
    """
    signs = []
    for sign in whole_text(text):
        code = ord(sign)
        if sign in '"\\':
            signs.append(f"\\{sign}")
        elif sign.isprintable() and code < 0x10000:
            signs.append(sign)
        else:
            signs.append(f"\\x{code:02x}" if code < 0x100 else _wide(code))
    return '"' + "".join(signs) + '"'


def _wide(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

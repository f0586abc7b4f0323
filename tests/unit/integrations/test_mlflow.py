"""Runs in MLflow, with the real client and a store of files."""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.hostile import SHORT

from eval_toolkit import MetricResult, Records, Run, Scorecard, summarise, write_run
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingExtraError
from eval_toolkit.integrations.mlflow import log_run, mlflow_name
from eval_toolkit.metric_specs import mean_of

needs_mlflow = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="mlflow-skinny is not installed"
)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    # A store of files needs MLflow's own opt-in; the one of a database needs sqlalchemy.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(before)


def stored(folder: Path, **more: Any) -> Run:
    records = Records.from_columns({"correct": [1, 1, 1, 0] * 10})
    block = summarise(records, [mean_of("correct")]).to_dict()
    block["f1"] = {"value": None, "status": "skipped", "reason": "one class only"}
    by = {"language=de": {"n": 40, "by_scorer": {"guard": block, "dead": {"error": "no memory"}}}}
    results = {"schema_version": "v1", "run_id": "r7", "config": {}, "by_slice": by}
    manifest = {
        "run_id": "r7",
        "config": {"seed": 42, "model": {"name": "guard"}, "long": "x" * 9000},
        "data_hashes": {"a b.csv": "sha256:abc"},
        **more,
    }
    return write_run(folder / "r7", results=results, manifest=manifest)


@needs_mlflow
class TestLogging:
    def test_a_stored_run(self, client: Any, tmp_path: Path) -> None:
        run = stored(tmp_path)
        (run.path / "report.html").write_text("<p>report</p>")
        logged = client.get_run(log_run(run, client=client))
        cell = run.rows()[0]
        name = "language_de/guard/correct"
        assert logged.data.metrics == {
            name: cell["value"],
            f"{name}_ci_low": cell["ci_low"],
            f"{name}_ci_high": cell["ci_high"],
            f"{name}_n": 40.0,
        }
        params = logged.data.params
        assert (params["seed"], params["model.name"]) == ("42", "guard")
        assert len(params["long"]) == 5000
        tags = logged.data.tags
        assert tags["eval_toolkit.run_id"] == "r7"
        assert tags["eval_toolkit.manifest_sha256"] == run.manifest["manifest_sha256"]
        assert tags["eval_toolkit.data.a b.csv"] == "sha256:abc"
        assert tags["eval_toolkit.skipped.language_de.guard.f1"] == "one class only"
        assert tags["eval_toolkit.error.language_de.dead"] == "no memory"
        assert logged.info.status == "FINISHED"
        assert logged.info.run_name == "r7"
        files = {found.path for found in client.list_artifacts(logged.info.run_id)}
        assert files == {"results.json", "manifest.json", "report.html"}
        there = Path(client.download_artifacts(logged.info.run_id, "results.json"))
        assert json.loads(there.read_text()) == run.results

    def test_the_active_run_is_logged_to_and_stays_open(self, client: Any, tmp_path: Path) -> None:
        import mlflow

        with mlflow.start_run() as active:
            told = log_run(str(stored(tmp_path).path), prefix="test", artifacts=False)
            assert told == active.info.run_id
            logged = client.get_run(told)
            assert logged.info.status == "RUNNING"
        assert "test/language_de/guard/correct" in logged.data.metrics
        assert client.list_artifacts(told) == []

    def test_several_runs_in_one_stand_side_by_side(self, client: Any, tmp_path: Path) -> None:
        first, second = stored(tmp_path / "a"), stored(tmp_path / "b", config={"seed": 7})
        target = log_run(first, prefix="a", client=client)
        log_run(second, prefix="b", run_id=target, client=client)
        log_run(second, prefix="b", run_id=target, client=client)  # the same once more is no other
        data = client.get_run(target).data
        assert (data.params["a/seed"], data.params["b/seed"]) == ("42", "7")
        for prefix, run in (("a", first), ("b", second)):
            sha256 = data.tags[f"{prefix}/eval_toolkit.manifest_sha256"]
            assert sha256 == run.manifest["manifest_sha256"]
            there = Path(client.download_artifacts(target, f"{prefix}/manifest.json"))
            assert json.loads(there.read_text()) == run.manifest
        with pytest.raises(
            InvalidInputError, match=r"another run was logged .* with the same prefix 'a'"
        ):
            log_run(second, prefix="a", run_id=target, client=client)

    def test_many_cells_of_any_name(self, client: Any) -> None:
        """MLflow takes so many at a time, and refuses most signs."""
        names = [*SHORT.values(), *(f"m{number}" for number in range(250)), "a=b", "a|b", "a/b"]
        card = Scorecard({name or "none": MetricResult(0.5, "ok") for name in names})
        logged = client.get_run(log_run(card, client=client, experiment="names"))
        assert len(logged.data.metrics) == len(card)
        assert {"all/a_b", "all/a_b-2", "all/a_b-3"} <= set(logged.data.metrics)

    def test_a_failure_leaves_a_run_that_says_so(self, client: Any, tmp_path: Path) -> None:
        run = stored(tmp_path, config={"good": "a"})

        class Broken:
            def __getattr__(self, name: str) -> Any:
                if name == "log_artifact":
                    raise OSError("the disk is full")
                return getattr(client, name)

        with pytest.raises(OSError, match="the disk is full"):
            log_run(run, client=Broken(), experiment="broken")
        place = client.get_experiment_by_name("broken").experiment_id
        (logged,) = client.search_runs([place])
        assert logged.info.status == "FAILED"

    def test_what_cannot_be_logged(self, client: Any) -> None:
        with pytest.raises(InvalidInputError, match="has no cells"):
            log_run(Scorecard({}), client=client)
        with pytest.raises(InvalidTypeError, match="`run` is a int"):
            log_run(3, client=client)
        with pytest.raises(InvalidInputError, match="`experiment` must be a non-empty string"):
            log_run(Scorecard({}), client=client, experiment="")


@given(st.lists(st.text(max_size=120), min_size=1, max_size=3))
def test_names_hold_what_mlflow_takes(parts: list[str]) -> None:
    """The rule as MLflow states it: word signs, dashes, dots, blanks, colons and slashes."""
    name = mlflow_name(*parts)
    assert 0 < len(name) <= 250
    assert all(sign.isalnum() or sign in "_-. :/" for sign in name)
    assert os.path.normpath(name) == name
    assert not name.startswith(("/", ".."))
    assert mlflow_name(*parts) == name


def test_long_names_stay_apart() -> None:
    one, two = mlflow_name("x" * 300 + "a"), mlflow_name("x" * 300 + "b")
    assert len(one) == len(two) == 250
    assert one != two


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"eval-toolkit\[mlflow\]"):
        log_run(Scorecard({"m": MetricResult(0.5, "ok")}))

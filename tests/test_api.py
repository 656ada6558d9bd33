"""The Python API: the steps of the command line as functions."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import harness
from harness.planning.select import PatternError
from harness.results.files import RecordError
from harness.spec.errors import SpecErrors


@pytest.fixture
def spec(tmp_path, monkeypatch):
    shutil.copytree(Path(__file__).parent / "cli" / "toy", tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "toy.yaml"


def test_load_plan_run_table_and_samples(spec):
    study = harness.load(spec, seeds=1)
    assert len(harness.plan(study).work) == 3
    result = harness.run(study)
    assert result.outcome.counts == {"ok": 3}
    assert harness.plan(study).work == ()
    frame = harness.table(study).to_frame()
    assert set(frame["method"]) == {"mean", "median"}
    assert frame["estimate"].notna().all()
    samples = harness.samples(study)
    assert set(samples["method"]) == {"mean", "median"}
    assert samples["value"].notna().all()
    assert len(samples) == 4
    (judgement,) = result.leaderboard.judgements
    assert judgement.claim == "same"


def test_every_error_at_once(spec):
    spec.write_text(spec.read_text().replace("seeds: 2", "seeds: two").replace("title:", "titel:"))
    with pytest.raises(SpecErrors) as caught:
        harness.load(spec)
    assert len(caught.value.errors) >= 2


def test_a_wrong_pattern_and_a_file_for_results_are_errors(spec):
    study = harness.load(spec)
    with pytest.raises(PatternError, match="try median"):
        harness.run(study, only="medain")
    assert len(harness.plan(study, only="median").planned) == 4
    with pytest.raises(RecordError, match=r"toy\.yaml is a file; name a folder"):
        harness.plan(study, results=spec)


def test_assets_are_found_through_default_builds():
    study = harness.load(Path(__file__).parents[1] / "specs" / "mlra.yaml")
    from harness import api

    found = api.asset_references(study)
    assert {name.partition(".")[0] for name in found} == {"questions", "text"}
    assert "text.boolq" in found


def test_assets_of_methods_that_nothing_is_done_with_are_not_wanted():
    """The packaged language model is only asked in the profile desk."""
    from harness import api

    spec = Path(__file__).parents[1] / "specs" / "mlra.yaml"
    model = "models.smollm2_135m_instruct"
    assert model not in api.asset_references(harness.load(spec, profile="laptop"))
    assert model in api.asset_references(harness.load(spec, profile="desk"))


def test_functions_and_packages_do_not_share_names():
    for name in harness.__all__:
        assert importlib.util.find_spec(f"harness.{name}") is None
        assert callable(getattr(harness, name))
    with pytest.raises(AttributeError):
        harness.nothing  # noqa: B018

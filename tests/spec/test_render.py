"""The resolved spec: as it was approved, and the same study when it is loaded again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.spec.load import Registry, check, load
from harness.spec.render import render
from harness.spec.study import Study

FIXTURES = Path(__file__).parent / "fixtures"


def bare(study: Study) -> Study:
    """Without what says where it came from."""
    return replace(study, path=Path(), profile=None, adapters={})


def test_the_fixture_is_good_in_every_profile(registry: Registry) -> None:
    assert check([FIXTURES / "toys.yaml"], registry) == []


def test_resolved_spec_is_as_approved(registry: Registry) -> None:
    golden = (FIXTURES / "toys.resolved.yaml").read_text(encoding="utf-8")
    assert render(load(FIXTURES / "toys.yaml", registry)) == golden


@pytest.mark.parametrize("profile", [None, "laptop", "long", "small"])
def test_it_loads_to_the_same_study(spec: Callable[..., str], registry: Registry, profile: str | None) -> None:
    study = load(FIXTURES / "toys.yaml", registry, profile=profile)
    text = render(study)
    again = load(spec(text), registry)
    assert bare(again) == bare(study)
    assert render(again) == text


def test_options_end_up_in_it(registry: Registry) -> None:
    study = load(FIXTURES / "toys.yaml", registry, overrides=["methods.base.params.lr=7"], seeds=1, limit=4)
    document = yaml.safe_load(render(study))
    assert (document["methods"]["base"]["params"]["lr"], document["seeds"], document["limit"]) == (7.0, 1, 4)


def test_nothing_is_left_to_look_up(registry: Registry) -> None:
    text = render(load(FIXTURES / "toys.yaml", registry))
    document = yaml.safe_load(text)
    assert not {"include", "profiles", "x-words"} & set(document)
    assert "&" not in text
    assert document["methods"]["base"]["params"]["languages"] == ["en", "no"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    revision=st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\u2028\u2029"), max_size=20
    ),
    lr=st.floats(allow_nan=False, allow_infinity=False),
    window=st.none() | st.integers(-(10**20), 10**20),
)
def test_any_value_comes_back(
    spec: Callable[..., str], registry: Registry, revision: str, lr: float, window: int | None
) -> None:
    params = {"revision": revision, "lr": lr, "window": window}
    study = load(FIXTURES / "toys.yaml", registry)
    document = {**study.document, "methods": {"base": {"use": "toy.alpha", "params": params}}, "claims": [], "skip": []}
    del document["claims"], document["skip"]
    again = load(spec(render(replace(study, document=document))), registry)
    found = again.methods[0].use.params
    assert {name: found[name] for name in params} == params

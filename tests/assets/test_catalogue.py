from __future__ import annotations

import re
import subprocess
import sys

import pytest

from harness.assets import AssetError, catalogue, describe, resolve, revision
from harness.assets.reference import CatalogueReference, PackageReference, parse


@pytest.mark.parametrize("name", catalogue())
def test_entry_is_well_formed(name: str) -> None:
    entry = catalogue()[name]
    assert parse(name) == CatalogueReference(name)
    parsed = parse(entry.reference)
    assert isinstance(parsed, PackageReference)
    assert entry.sha256 == parsed.sha256
    assert str(parsed) == entry.reference
    assert re.fullmatch(r"[A-Za-z0-9.+-]+", entry.licence)
    assert entry.stated_by in {"package", "upstream"}
    assert isinstance(entry.size, int)
    assert 0 < entry.size < 2**30
    assert entry.summary


@pytest.mark.parametrize("name", catalogue())
def test_revision_needs_no_network_and_is_that_of_the_reference(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", None)
    assert revision(name) == revision(catalogue()[name].reference) == catalogue()[name].reference


def test_describe() -> None:
    said = describe("text.boolq")
    assert said.target == catalogue()["text.boolq"].reference
    assert said.licence == "CC-BY-SA-3.0"
    assert said.size == 20_287_955
    assert not said.cached
    assert said.path is None


def test_unknown_name() -> None:
    with pytest.raises(AssetError, match=r"no asset 'text\.bolq': did you mean text\.boolq\?"):
        resolve("text.bolq")
    with pytest.raises(AssetError, match=r"it has text\.boolq, models"):
        revision("qqq.www")


def test_the_catalogue_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        catalogue()["text.boolq"] = None  # type: ignore[index]


def test_importing_is_cheap() -> None:
    code = "import sys, harness.assets; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"unearth", "huggingface_hub", "httpx", "httpx2", "ssl", "yaml", "platformdirs"} & set(loaded)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.assets import pipconfig
from harness.assets.pipconfig import pip_settings
from harness.assets.reference import AssetError


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PIP_NO_INDEX")
    path = tmp_path / "pip.conf"
    monkeypatch.setenv("PIP_CONFIG_FILE", str(path))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    real = pipconfig.config_files
    monkeypatch.setattr(pipconfig, "config_files", lambda e: [p for p in real(e) if p.parent != Path("/etc")])
    return path


def test_default(conf: Path) -> None:
    settings = pip_settings()
    assert settings.index_urls == (None,)
    assert settings.find_links == ()
    assert settings.timeout == 15.0


def test_file(conf: Path, tmp_path: Path) -> None:
    conf.write_text(
        "[global]\nindex_url = https://a.example/simple\nextra-index-url =\n    file:///b\n    https://c.example\n"
        "find-links = ~/wheels https://d.example/x%20y\ntrusted-host = a.example\ntimeout = 7\ncert = ~/ca.pem\n"
        "proxy = http://p.example:3128\n[install]\nindex-url = https://not.example\n"
    )
    settings = pip_settings()
    assert settings.index_urls == ("https://a.example/simple", "file:///b", "https://c.example")
    assert settings.find_links == (str(tmp_path / "home/wheels"), "https://d.example/x%20y")
    assert settings.trusted_hosts == ("a.example",)
    assert settings.timeout == 7.0
    assert settings.certificate == str(tmp_path / "home/ca.pem")
    assert settings.proxy == "http://p.example:3128"


def test_variables_win_over_files_and_download_over_global(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf.write_text("[download]\nindex-url = https://b.example\ntimeout=3\n[global]\nindex-url = https://a.example\n")
    assert pip_settings().index_urls == ("https://b.example",)
    monkeypatch.setenv("PIP_INDEX_URL", "https://c.example")
    assert pip_settings().index_urls == ("https://c.example",)
    assert pip_settings().timeout == 3.0
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    assert pip_settings().index_urls == ()


def test_the_users_file_is_read_and_the_named_one_is_stronger(conf: Path, tmp_path: Path) -> None:
    own = tmp_path / "home/.pip/pip.conf"
    own.parent.mkdir(parents=True)
    own.write_text("[global]\nindex-url = https://own.example\ntrusted-host = own.example\n")
    conf.write_text("[global]\nindex-url = https://named.example\n")
    settings = pip_settings()
    assert settings.index_urls == ("https://named.example",)
    assert settings.trusted_hosts == ("own.example",)


def test_null_device_means_no_file_at_all(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert pipconfig.config_files(os.environ) == []


def test_a_broken_file_is_named(conf: Path) -> None:
    conf.write_text("index-url = https://a.example\n")
    with pytest.raises(AssetError, match=r"pip\.conf cannot be parsed"):
        pip_settings()

"""Where pip is told to look for packages: its configuration files and PIP_* variables, read without pip.

Later wins, as in pip: global, user and environment's own file, the file that PIP_CONFIG_FILE names, variables;
in each file section [global], then [download].
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from harness.assets.reference import AssetError


@dataclass(frozen=True)
class PipSettings:
    """``index_urls``: None stands for the default index. ``certificate``: bundle (or folder) to trust, if named."""

    index_urls: tuple[str | None, ...] = (None,)
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    certificate: str | None = None
    proxy: str | None = None
    timeout: float = 15.0  # seconds, pip's own default


def pip_settings() -> PipSettings:
    """What pip would use here. Raises AssetError for a configuration file that cannot be parsed."""
    options: dict[str, str] = {}
    for path in config_files(os.environ):
        options |= _read(path)
    options |= _variables(os.environ)

    index: list[str | None] = [] if _true(options.get("no-index")) else [options.get("index-url") or None]
    if index:
        index += options.get("extra-index-url", "").split()
    bundle = options.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    try:
        timeout = float(options.get("timeout") or options.get("default-timeout") or PipSettings.timeout)
    except ValueError:
        timeout = PipSettings.timeout
    return PipSettings(
        index_urls=tuple(index),
        find_links=tuple(_expand(link) for link in options.get("find-links", "").split()),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        certificate=_expand(bundle) if bundle else None,
        proxy=options.get("proxy") or None,
        timeout=timeout,
    )


def config_files(environment: Mapping[str, str]) -> list[Path]:
    """Paths of pip's configuration files, the strongest last; they need not exist."""
    named = environment.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    name = "pip.ini" if sys.platform == "win32" else "pip.conf"
    if sys.platform in {"win32", "darwin"}:
        shared = [Path(platformdirs.site_data_dir("pip", appauthor=False))]
    else:
        shared = [Path(d) / "pip" for d in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)]
        shared.append(Path("/etc"))
    legacy = Path.home() / ("pip" if sys.platform == "win32" else ".pip")
    own = Path(platformdirs.user_config_dir("pip", appauthor=False, roaming=True))
    if sys.platform == "darwin" and not own.is_dir():
        own = Path.home() / ".config" / "pip"
    folders = [*shared, legacy, own, Path(sys.prefix)]
    return [f / name for f in folders] + ([Path(named).expanduser()] if named else [])


def _read(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}
    except configparser.Error as error:
        raise AssetError(f"pip's configuration {path} cannot be parsed ({type(error).__name__}): correct it") from error
    options: dict[str, str] = {}
    for section in ("global", "download"):
        if parser.has_section(section):
            options |= {_key(k): v for k, v in parser.items(section)}
    return options


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {_key(k[4:]): v for k, v in environment.items() if k.startswith("PIP_") and v}


def _key(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _true(text: str | None) -> bool:
    return (text or "").lower() in {"1", "true", "yes", "y", "on", "t"}


def _expand(location: str) -> str:
    return location if "://" in location else str(Path(location).expanduser())

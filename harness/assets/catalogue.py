"""The named assets of ``catalogue.yaml``: references, licences, sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from harness.assets.reference import AssetError, CatalogueReference, PackageReference, Target, parse


@dataclass(frozen=True)
class Asset:
    """One entry. ``size``: bytes to download; ``stated_by``: who states the licence."""

    name: str
    summary: str
    reference: str
    licence: str
    stated_by: Literal["package", "upstream"]
    size: int

    @property
    def sha256(self) -> str | None:
        """Of the archive, where the asset is in one."""
        parsed = parse(self.reference)
        return parsed.sha256 if isinstance(parsed, PackageReference) else None


@functools.cache
def catalogue() -> Mapping[str, Asset]:
    """All entries by name, in the file's order."""
    import yaml

    document = yaml.safe_load(Path(__file__).with_name("catalogue.yaml").read_text(encoding="utf-8"))
    return MappingProxyType({name: Asset(name=name, **fields) for name, fields in document.items()})


def look_up(reference: CatalogueReference) -> Asset:
    """Raises AssetError with the nearest names."""
    try:
        return catalogue()[reference.name]
    except KeyError:
        import difflib

        near = difflib.get_close_matches(reference.name, catalogue(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(catalogue())}"
        raise AssetError(f"the catalogue has no asset {reference.name!r}: {hint}") from None


def concrete(text: str) -> Target:
    """Parse a reference and replace a name of the catalogue by what it stands for. Raises AssetError."""
    parsed = parse(text)
    while isinstance(parsed, CatalogueReference):
        parsed = parse(look_up(parsed).reference)
    return parsed

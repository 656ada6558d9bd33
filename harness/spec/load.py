"""A spec file to a Study, or to every mistake in it at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.spec import grammar
from harness.spec.claims import read_claims
from harness.spec.component import Reader, Registry
from harness.spec.errors import Problems, SpecError, SpecErrors, suggestion
from harness.spec.expand import Arm, Outline, outline
from harness.spec.include import read
from harness.spec.names import Forms
from harness.spec.profiles import choose, form, profile_names
from harness.spec.resolved import resolved
from harness.spec.skips import check_exclusions, check_fit, check_methods, read_skips
from harness.spec.study import EvaluationCell, MethodRow, Resources, Study, Use
from harness.spec.text import Entry, Fields

__all__ = ["Registry", "check", "load"]


def load(
    path: str | Path,
    registry: Registry,
    *,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    seeds: int | None = None,
    limit: int | None = None,
) -> Study:
    """The study of a spec in one profile ("laptop" where it is declared and none is named).

    ``overrides`` are ``PATH=VALUE`` texts, applied after the profile. ``seeds`` and ``limit`` replace the spec's.
    Raises SpecErrors with all mistakes of the file and of what it includes.
    """
    problems = Problems()
    options = tuple(overrides)
    options += (f"seeds={seeds}",) if seeds is not None else ()
    options += (f"limit={limit}",) if limit is not None else ()
    document = read(Path(path), problems)
    if document is None:
        raise SpecErrors(problems.errors)
    chosen = choose(document, profile, problems)
    study = _Loading(document, Path(path), registry, options).study(chosen, problems)
    if problems or study is None:
        raise SpecErrors(problems.errors)
    return study


def check(paths: Sequence[str | Path], registry: Registry) -> list[SpecError]:
    """All mistakes of these files, each in its base form and in every profile; sorted, each once."""
    problems = Problems()
    for path in paths:
        document = read(Path(path), problems)
        if document is None:
            continue
        loading = _Loading(document, Path(path), registry, ())
        for profile in (None, *profile_names(document)):
            loading.study(profile, problems)
    return list(SpecErrors(problems.errors).errors)


class _Loading:
    """One document, and its forms."""

    def __init__(self, document: Fields, path: Path, registry: Registry, overrides: tuple[str, ...]) -> None:
        self._document = document
        self._path = path
        self._registry = registry
        self._overrides = overrides
        self._outlines: dict[tuple[str | None, tuple[str, ...]], tuple[Reader, Outline] | None] = {}

    def study(self, profile: str | None, problems: Problems) -> Study | None:
        """The study in one profile; None if anything is wrong, which is added to ``problems``."""
        before = len(problems.errors)
        reader = Reader(self._registry, self._path.parent, problems)
        self._check_profiles(reader)
        tree = form(self._document, profile, self._overrides, problems)
        entries = reader.section(tree, "document", "the spec", tree.place)
        assert entries is not None
        shape = outline(reader, entries)
        header = _header(reader, entries)
        _check_limit(reader, entries, shape)
        forms = Forms(reader, shape, lambda: self._others(profile))
        check_exclusions(forms)
        check_methods(forms)
        skips = read_skips(forms, entries)
        check_fit(reader, shape.of("method"), shape.of("evaluation"), skips)
        claims = read_claims(forms, entries["claims"].value) if "claims" in entries else []
        rows = [row for arm in shape.of("method") for row in _rows(reader, arm, header["resources"])]
        cells = [cell for arm in shape.of("evaluation") for cell in _cells(reader, arm, header["resources"])]
        if len(problems.errors) > before:
            return None
        study = Study(
            **header,
            path=self._path,
            profile=profile,
            methods=tuple(rows),
            evaluations=tuple(cells),
            claims=tuple(claim for claim, _ in claims),
            skips=tuple(skips),
            adapters=dict(reader.adapters),
        )
        elsewhere = frozenset(claim.id for claim, here in claims if not here)
        return replace(study, document=resolved(study, shape, elsewhere, reader))

    def _check_profiles(self, reader: Reader) -> None:
        if "profiles" in self._document.entries:
            tree = self._document.entries["profiles"].value
            if isinstance(tree, Fields):
                for name, entry in tree.entries.items():
                    reader.name_fits(name, entry.place, grammar.PROFILE_NAME, "the profile name")
                    reader.typed(entry.value, {"type": "object"}, f"the profile {name}")
            else:
                reader.typed(tree, {"type": "object"}, "profiles")

    def _others(self, profile: str | None) -> Iterator[tuple[Reader, Outline]]:
        """The other forms of the document, made when first asked for; what is wrong there is not reported here.

        Those without the overrides are among them: what an override takes away is no mistake where it is named.
        """
        for overrides in dict.fromkeys((self._overrides, ())):
            for name in (None, *profile_names(self._document)):
                if (name, overrides) == (profile, self._overrides):
                    continue
                if (name, overrides) not in self._outlines:
                    reader = Reader(self._registry, self._path.parent, Problems())
                    tree = form(self._document, name, overrides, reader.problems)
                    entries = reader.section(tree, "document", "the spec", tree.place)
                    self._outlines[name, overrides] = (
                        (reader, outline(reader, entries)) if entries is not None else None
                    )
                made = self._outlines[name, overrides]
                if made is not None:
                    yield made


def _header(reader: Reader, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """What stands at the top level, but for methods, evaluations, claims and skips."""

    def value(key: str, default: Any = None) -> Any:
        return reader.value(entries, "document", key, default=default)

    value("harness")
    name = value("study", "")
    seeds = value("seeds", 1)
    track = value("track", "")
    tracks = sorted({a.track for a in reader.registry.adapters.values() if a.track})
    if track and track not in tracks:
        reader.problems.add(entries["track"].value.place, f'there is no track "{track}"', suggestion(track, tracks))
    return {
        "name": name,
        "title": value("title", name),
        "track": track,
        "paper": value("paper", {}),
        "seeds": tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        "limit": value("limit"),
        "resources": _resources(reader, entries, "document", Resources()),
    }


def _resources(reader: Reader, entries: Mapping[str, Entry], section: str, defaults: Resources) -> Resources:
    """The defaults with what this section says of them."""
    stated = reader.value(entries, section, "resources", default={})
    gpus = stated.get("gpus", 0)
    if gpus > 1 and gpus != int(gpus):
        message = f"resources.gpus is {gpus}, expected a whole number or a fraction below 1"
        reader.problems.add(entries["resources"].place, message, f"write {int(gpus)} or {int(gpus) + 1}")
    return replace(defaults, **stated)


def _check_limit(reader: Reader, entries: Mapping[str, Entry], shape: Outline) -> None:
    evaluations = shape.of("evaluation")
    if "limit" in entries and evaluations and not any(arm.adapter.items for arm in evaluations):
        message = "limit has no meaning here: no evaluation of this study has items"
        reader.problems.add(entries["limit"].place, message, "remove it")


def _rows(reader: Reader, arm: Arm, defaults: Resources) -> Iterator[MethodRow]:
    resources = _resources(reader, arm.entries, "method", defaults)
    role = reader.value(arm.entries, "method", "role", default="rival")
    for point in arm.points:
        yield MethodRow(point.label, arm.name, point.cell, _at(arm.use, point.params), role, resources)


def _cells(reader: Reader, arm: Arm, defaults: Resources) -> Iterator[EvaluationCell]:
    resources = _resources(reader, arm.entries, "evaluation", defaults)
    for point in arm.points:
        use = _at(arm.use, point.params)
        yield EvaluationCell(point.label, arm.name, point.cell, use, arm.metrics, resources, arm.methods)


def _at(use: Use, params: Mapping[str, Any]) -> Use:
    return replace(use, params=params)

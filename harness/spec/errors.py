"""What is wrong with a spec, and where; and the nearest valid name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass

from harness.contract import Json


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """``line`` and ``column`` count from 1; line 0 means the file as a whole, or an option of the command line."""

    file: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True, order=True)
class SpecError:
    """One mistake: where, what was found and what was expected (``message``), and what to do (``hint``)."""

    file: str
    line: int
    column: int
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}" + (f"; {self.hint}" if self.hint else "")

    def to_json(self) -> Mapping[str, Json]:
        return asdict(self)


class SpecErrors(Exception):
    """All mistakes of a spec: sorted by place, each once."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        once: dict[tuple[str, int, int, str], SpecError] = {}
        for error in errors:  # profiles meet the same mistake, perhaps with other advice
            once.setdefault((error.file, error.line, error.column, error.message), error)
        self.errors = tuple(sorted(once.values()))
        super().__init__("\n".join(map(str, self.errors)))

    def to_json(self) -> list[Mapping[str, Json]]:
        return [error.to_json() for error in self.errors]


class Problems:
    """A list of mistakes in the making."""

    def __init__(self) -> None:
        self.errors: list[SpecError] = []

    def __bool__(self) -> bool:
        return bool(self.errors)

    def add(self, place: Place, message: str, hint: str = "") -> None:
        self.errors.append(SpecError(place.file, place.line, place.column, message, hint))

    def extend(self, other: Problems) -> None:
        self.errors += other.errors


def nearest(word: str, options: Iterable[str]) -> str | None:
    """The option that was probably meant; None if nothing comes close."""
    folded = {option.casefold().replace("-", "_"): option for option in options}
    found = difflib.get_close_matches(word.casefold().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def suggestion(word: str, options: Collection[str]) -> str:
    """A hint: the nearest of the options, or all of them if they are few."""
    near = nearest(word, options)
    if near is not None:
        return f'did you mean "{near}"?'
    if not options:
        return ""
    shown = sorted(options)[:10]
    return f"there is {', '.join(shown)}" + (", ..." if len(options) > len(shown) else "")

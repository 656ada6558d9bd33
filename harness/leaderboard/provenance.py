"""Where a table comes from: when, on what, with which libraries, from which commits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.results.record import State
from harness.results.score import Score


@dataclass(frozen=True)
class Provenance:
    """Of all finished scores, each value once, sorted. ``started``: first and last day (ISO 8601, UTC).

    ``commits``: of the harness, "... with changes" where its files differed from the commit; ``libraries``: name and
    versions, Python among them.
    """

    started: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    libraries: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Sentences for a footer; none where nothing has finished."""
        days = " to ".join(dict.fromkeys(self.started))
        versions = ", ".join(f"{name} {' and '.join(found)}" for name, found in self.libraries)
        parts = {
            "Measured": f"{days} on {', '.join(self.machines)}" if self.machines else days,
            "Harness": ", ".join(f"commit {c}" for c in self.commits),
            "Libraries": versions,
        }
        return tuple(f"{name}: {text}" for name, text in parts.items() if text)


def provenance(scores: Iterable[Score]) -> Provenance:
    """What the finished ones say of themselves."""
    finished = [score for score in scores if score.state is State.OK]
    days = sorted({score.started[:10] for score in finished if score.started})
    versions: dict[str, set[str]] = {}
    for score in finished:
        for name, version in score.versions.items():
            versions.setdefault(name, set()).add(version)
    return Provenance(
        (days[0], days[-1]) if days else (),
        tuple(sorted({score.hardware for score in finished if score.hardware})),
        tuple(sorted({score.commit for score in finished if score.commit})),
        tuple((name, tuple(sorted(found))) for name, found in sorted(versions.items(), key=lambda p: p[0].lower())),
    )

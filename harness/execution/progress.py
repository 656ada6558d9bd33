"""What a run looks like while it goes on: a live view on a terminal, a line per event elsewhere.

Everything that is written fits the stream's encoding; what does not is written as an escape.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from harness.execution.attempt import Result, Step
from harness.execution.drive import Outcome
from harness.execution.log import last_lines
from harness.execution.slots import duration
from harness.results.record import State

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_LOG_LINES = 4
_SHOWN = 12  # running nodes in the live view


class QuietListener:
    """Says nothing."""

    def planned(self, steps: Sequence[Step]) -> None: ...
    def queued(self, step: Step) -> None: ...
    def started(self, step: Step) -> None: ...
    def progress(self, step: Step, done: float, total: float, note: str) -> None: ...
    def finished(self, step: Step, result: Result) -> None: ...
    def skipped(self, step: Step, result: Result) -> None: ...
    def message(self, text: str) -> None: ...
    def ended(self, outcome: Outcome) -> None: ...


@dataclass
class _Shown:
    """A node that runs."""

    name: str
    mode: str
    since: float = field(default_factory=time.monotonic)
    done: float = 0.0
    total: float = 0.0
    note: str = ""


class Pace:
    """How many of how many, and how long the rest will take: by expected costs where all are known, else by count."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.total, self.done = len(steps), 0
        costs = [step.cost for step in steps]
        self._by_cost = all(cost is not None for cost in costs) and sum(cost or 0 for cost in costs) > 0
        self._weight = sum(self._weigh(step) for step in steps)
        self._weight_done = 0.0
        self._began = time.monotonic()

    def _weigh(self, step: Step) -> float:
        return step.cost or 0.0 if self._by_cost else 1.0

    def count(self, step: Step, worked: bool) -> None:
        """One is through. What was skipped, or done by others, says nothing about the pace."""
        self.done += 1
        if worked:
            self._weight_done += self._weigh(step)
        else:
            self._weight -= self._weigh(step)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def remaining(self) -> float | None:
        """Seconds; None while there is nothing to tell by."""
        if self._weight_done <= 0:
            return None
        return self.elapsed * max(0.0, self._weight - self._weight_done) / self._weight_done

    @property
    def fraction(self) -> float:
        return self.done / self.total if self.total else 1.0


class Progress:
    """A Listener for people. ``file``: standard error by default; ``live``: whether to draw, else lines."""

    def __init__(self, file: TextIO | None = None, live: bool | None = None) -> None:
        self._file = file if file is not None else sys.stderr
        self._live_wanted = self._file.isatty() and os.environ.get("TERM") != "dumb" if live is None else live
        self._live: Live | None = None
        self._console: Console | None = None
        self._pace = Pace(())
        self._running: dict[str, _Shown] = {}
        self._failed = 0
        self._lock = threading.Lock()  # the live view is drawn by a thread of its own

    def planned(self, steps: Sequence[Step]) -> None:
        self._pace = Pace(steps)
        if self._live_wanted and steps:
            from rich.console import Console
            from rich.live import Live

            self._console = Console(file=self._file, highlight=False, markup=False, emoji=False, force_terminal=True)
            view = Live(get_renderable=self._render, console=self._console, refresh_per_second=4, transient=True)
            self._live = view
            view.start()

    def queued(self, step: Step) -> None:
        pass

    def started(self, step: Step) -> None:
        with self._lock:
            self._running[step.node.key] = _Shown(step.node.name, step.mode)
        if self._live is None:
            self._line("scoring" if step.mode == "score" else "started", step.node.name)

    def progress(self, step: Step, done: float, total: float, note: str) -> None:
        with self._lock:
            shown = self._running.get(step.node.key)
            if shown is not None:
                shown.done, shown.total, shown.note = done, total, note

    def finished(self, step: Step, result: Result) -> None:
        self._through(step, worked=not result.reused)
        took = "by another driver" if result.reused else duration(result.seconds)
        if result.ok:
            if self._live is None:
                self._line("ok", f"{step.node.name}  {took}")
            return
        if result.state is State.SKIPPED:
            self._line("skipped", f"{step.node.name}: {result.reason}")
            return
        self._failed += result.state is not State.CANCELLED
        name = "incomplete" if result.state is State.OK else str(result.state)
        self._line(name.upper(), f"{step.node.name}  {took}: {result.reason or 'no reason given'}")
        if result.log is not None and result.state is not State.CANCELLED:
            lines = last_lines(result.log, _LOG_LINES)
            for line in [*lines, f"log: {result.log}"] if lines else []:
                self._write(f"    | {line[:400]}")

    def skipped(self, step: Step, result: Result) -> None:
        self._through(step, worked=False)
        self._line("skipped", f"{step.node.name}: {result.reason}")

    def message(self, text: str) -> None:
        self._write(text)

    def ended(self, outcome: Outcome) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not outcome.results:
            return
        counts = ", ".join(f"{n} {state}" for state, n in sorted(outcome.counts.items()))
        how = "interrupted: " if outcome.interrupted else "stopped: " if outcome.error else ""
        self._write(f"{how}{counts} in {duration(outcome.seconds)}")

    def _through(self, step: Step, worked: bool) -> None:
        with self._lock:
            self._running.pop(step.node.key, None)
            self._pace.count(step, worked)

    def _line(self, what: str, text: str) -> None:
        pace = self._pace
        self._write(f"[{pace.done}/{pace.total}] {_clock(pace.elapsed)}  {what:<8} {text}")

    def _write(self, text: str) -> None:
        text = self._safe(text)
        if self._live is not None and self._console is not None:
            from rich.text import Text

            self._console.print(Text(text), soft_wrap=True)
        else:
            print(text, file=self._file, flush=True)

    def _safe(self, text: str) -> str:
        """What the stream can hold, on one line, without control characters."""
        plain = "".join(c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1] for c in text)
        encoding = getattr(self._file, "encoding", None) or "utf-8"
        return plain.encode(encoding, "backslashreplace").decode(encoding)

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            running = list(self._running.values())
            summary = _summary(self._pace, self._failed)
        now = time.monotonic()
        table = Table.grid(padding=(0, 2))
        for _ in range(4):
            table.add_column(no_wrap=True, overflow="crop")
        for shown in running[:_SHOWN]:
            percent = f"{100 * shown.done / shown.total:3.0f}%" if shown.total > 0 else ""
            state = "scoring" if shown.mode == "score" else "running"
            cells = (f"  {state}", _clock(now - shown.since), percent, f"{shown.name}  {shown.note}")
            table.add_row(*(Text(self._safe(cell)) for cell in cells))
        if len(running) > _SHOWN:
            table.add_row(Text(f"  and {len(running) - _SHOWN} more"))
        return Group(table, Text(summary, no_wrap=True, overflow="crop"))


def _summary(pace: Pace, failed: int) -> str:
    """The bar: how many of how many, pace, time gone and to go."""
    width = 30
    filled = math.floor(width * pace.fraction)
    bar = "#" * filled + "-" * (width - filled)
    rate = f"{60 * pace.done / pace.elapsed:.1f}/min" if pace.done and pace.elapsed > 0 else "-"
    remaining = pace.remaining
    left = f"{_clock(remaining)} left" if remaining is not None else "time left unknown"
    failures = f"  {failed} failed" if failed else ""
    return f"[{bar}] {pace.done}/{pace.total}  {rate}  {_clock(pace.elapsed)} gone  {left}{failures}"


def _clock(seconds: float) -> str:
    """ "0:07", "12:30", "1:05:00"."""
    minutes, rest = divmod(math.floor(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

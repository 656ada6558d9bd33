"""The leaderboard in a terminal: colours where there are any, marks and words everywhere, ASCII where need be."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from harness.leaderboard.table import Leaderboard, Panel, Table
from harness.leaderboard.verdicts import Verdict
from harness.leaderboard.writers.text import (
    VERDICT_MARKS,
    CellText,
    board_title,
    cell_text,
    headings,
    panel_title,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

COLOURS = {
    Verdict.REPRODUCED: "green",
    Verdict.WEAKER: "yellow",
    Verdict.NOT_REPRODUCED: "red",
    Verdict.INVALID: "red",
    Verdict.INCONCLUSIVE: "yellow",
}
ASCII_MARKS = {"✓": "+", "✗": "x"}
LABEL_WIDTH = 36


def write(board: Leaderboard, stream: IO[str] | None = None, *, width: int | None = None) -> None:
    """To ``stream`` (standard output), in colour if it is a terminal, in the characters that its encoding has."""
    stream = stream or sys.stdout
    colour = stream.isatty()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(render(board, width=width or _width(stream), encoding=encoding, colour=colour))


def _width(stream: IO[str]) -> int:
    from rich.console import Console

    return Console(file=stream).width if stream.isatty() else 100


def render(board: Leaderboard, *, width: int = 100, encoding: str = "utf-8", colour: bool = False) -> str:
    """The text, each line at most ``width`` wide, without trailing blanks; every character exists in ``encoding``."""
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    page = _Page(board, console, encoding)
    page.write()
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n"))


class _Page:
    """One rendering: knows the characters that may be used."""

    def __init__(self, board: Leaderboard, console: Console, encoding: str) -> None:
        self.board, self.console, self.encoding = board, console, encoding
        self.unicode = encoding.lower().replace("-", "").replace("_", "") in ("utf8", "utf16", "utf32")

    def text(self, text: str, style: str = "") -> Text:
        """Text of any origin: no markup, no control characters, nothing that the encoding lacks."""
        from rich.text import Text

        line = "".join(c if c.isprintable() else " " for c in text)
        if not self.unicode:
            line = "".join(ASCII_MARKS.get(c, c) for c in line)
            line = line.encode(self.encoding, "backslashreplace").decode(self.encoding)
        return Text(line, style)

    def write(self) -> None:
        self.console.print(self.text(board_title(self.board), "bold"))
        failed = self.board.counts.failed
        self.console.print(self.text(f"{self.board.counts}.", "red" if failed else ""))
        for table in self.board.tables:
            for panel in table.panels:
                self._panel(table, panel)
        self._notes()
        self._claims()

    def _panel(self, table: Table, panel: Panel) -> None:
        self.console.print()
        self.console.print(self.text(panel_title(table, panel, arrows=self.unicode), "bold"))
        texts = [[cell_text(self.board, c.cells[i]) for c in panel.columns] for i in table.order]
        labels = [table.rows[i].label for i in table.order]
        corner, *heads = headings(panel, arrows=self.unicode)
        for stacked, part in self._fit([corner, *labels], heads, texts):
            rows = [[row[k] for k in part] for row in texts]
            self._grid(corner, [heads[k] for k in part], labels, rows, stacked=stacked)

    def _fit(self, first: list[str], heads: list[str], texts: list[list[CellText]]) -> Iterator[tuple[bool, list[int]]]:
        """Columns that fit side by side; else intervals go below estimates, then columns below columns."""
        room = self.console.width - 2 - min(LABEL_WIDTH, max(self.text(t).cell_len for t in first))
        for stacked in (False, True):
            sizes = [2 + self._size(heads[k], [row[k] for row in texts], stacked) for k in range(len(heads))]
            if sum(sizes) <= room or stacked:
                break
        part: list[int] = []
        for k, size in enumerate(sizes):
            if part and sum(sizes[i] for i in part) + size > room:
                yield stacked, part
                part = []
            part.append(k)
        if part:
            yield stacked, part

    def _size(self, head: str, texts: list[CellText], stacked: bool) -> int:
        cells = [line for t in texts for line in (_stack(t) if stacked else [_marked(t.line, t)])]
        words = max((self.text(word).cell_len for word in head.split(" ")), default=0) if stacked else 0
        return max([words or self.text(head).cell_len, *(self.text(c).cell_len for c in cells)])

    def _grid(
        self, corner: str, heads: list[str], labels: list[str], rows: list[list[CellText]], *, stacked: bool
    ) -> None:
        from rich import box
        from rich.table import Table as Grid
        from rich.text import Text

        style = (
            box.SIMPLE_HEAD if self.unicode else box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
        )
        grid = Grid(box=style, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
        grid.add_column(self.text(corner), max_width=LABEL_WIDTH, overflow="fold")
        for head in heads:
            grid.add_column(self.text(head), justify="right", overflow="fold")
        for label, row in zip(labels, rows, strict=True):
            cells = []
            for t in row:
                look = "bold green" if t.best else "red" if t.main == "FAILED" else ""
                lines = _stack(t) if stacked else [_marked(t.line, t)]
                cells.append(Text("\n").join(self.text(line, look) for line in lines))
            grid.add_row(self.text(label), *cells)
        self.console.print(grid)

    def _notes(self) -> None:
        lines = [f"({mark}) {text}" for mark, text in self.board.footnotes] + list(self.board.legend)
        if lines:
            self.console.print()
        for line in lines:
            self._indented("", line, "dim")

    def _claims(self) -> None:
        if not self.board.judgements:
            return
        self.console.print()
        self.console.print(self.text("Claims", "bold"))
        for j in self.board.judgements:
            head = f"{VERDICT_MARKS[j.verdict]} {j.verdict.value.upper()}  {j.claim}"
            self.console.print(self.text(head, COLOURS.get(j.verdict, "")))
            self._indented("    ", j.says, "italic")
            self._indented("    ", j.text, "")

    def _indented(self, indent: str, line: str, style: str) -> None:
        from rich.padding import Padding

        self.console.print(Padding(self.text(line, style), (0, 0, 0, len(indent))))


def _marked(line: str, t: CellText) -> str:
    return f"* {line}" if t.best else line


def _stack(t: CellText) -> list[str]:
    """A cell on two lines: estimate above, interval and remarks below."""
    below = " ".join(part for part in (t.interval, t.tail) if part)
    return [_marked(t.main, t), *([below] if below else [])]

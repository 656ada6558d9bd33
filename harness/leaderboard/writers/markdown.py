"""The leaderboard as Markdown (pipe tables): any name is text, never markup."""

from __future__ import annotations

import re

from harness.leaderboard.table import Leaderboard, Panel, Table
from harness.leaderboard.writers.text import VERDICT_MARKS, board_title, cell_text, headings, panel_title

_MARKUP = re.compile(r"([\\`*\[\]<#|~$]|(?<![^\W_])_|_(?![^\W_]))")
_BREAKS = re.compile(r"\s+")


def escape(text: str) -> str:
    """One line in which nothing is markup: punctuation behind a backslash, ampersands as entities."""
    text = _BREAKS.sub(" ", text).strip().replace("&", "&amp;")
    return _MARKUP.sub(r"\\\1", text)


def render(board: Leaderboard) -> str:
    """The whole document, with a newline at the end."""
    blocks = [f"# {escape(board_title(board))}", f"{board.counts}."]
    for table in board.tables:
        blocks += [_panel(board, table, panel) for panel in table.panels]
    notes = [f"- ({mark}) {escape(text)}" for mark, text in board.footnotes]
    legend = [f"- {escape(line)}" for line in board.legend]
    if notes or legend:
        blocks.append("\n".join([*notes, *legend]))
    if board.judgements:
        blocks.append("\n".join(["## Claims", "", *_claims(board)]))
    made = [f"- {escape(line)}" for line in board.provenance.lines()]
    if made:
        blocks.append("\n".join(["## Provenance", "", *made]))
    return "\n\n".join(blocks) + "\n"


def _panel(board: Leaderboard, table: Table, panel: Panel) -> str:
    heads = [escape(h) for h in headings(panel)]
    lines = [f"## {escape(panel_title(table, panel))}", ""]
    lines += [_row(heads), _row([":--", *["--:"] * len(panel.columns)])]
    for i in table.order:
        texts = [cell_text(board, c.cells[i]) for c in panel.columns]
        shown = [f"**{t.line}** \\*" if t.best else t.line for t in texts]
        lines.append(_row([escape(table.rows[i].label), *shown]))
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _claims(board: Leaderboard) -> list[str]:
    lines = [_row(["claim", "verdict", "what was measured"]), _row([":--", ":--", ":--"])]
    for j in board.judgements:
        says = f"**{escape(j.claim)}**: {escape(j.says)}"
        lines.append(_row([says, f"{escape(VERDICT_MARKS[j.verdict])} {j.verdict.value}", escape(j.text)]))
    return lines

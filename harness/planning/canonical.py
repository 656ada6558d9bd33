"""What a Python source says, in a form that is equal on every supported Python, and what it imports."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

FORM = 1
"""Raised when :func:`canonical_source` changes what it writes: every digest changes with it."""

_FIELDS: dict[type, Sequence[str]] = {}
_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


@dataclass(frozen=True)
class Import:
    """``import module`` (names empty), or ``from module import names``, ``level`` dots up. ``line``: where."""

    module: str
    names: tuple[str, ...]
    level: int
    line: int


@dataclass(frozen=True)
class Source:
    """``digest``: SHA-256 of the canonical form."""

    digest: str
    imports: tuple[Import, ...]


@lru_cache(maxsize=4096)
def read_source(text: bytes) -> Source:
    """Digest and imports of a source file's bytes. Raises SyntaxError, ValueError for null bytes."""
    tree = _parse(text)
    form = f"{FORM}\n{canonical_tree(tree)}"
    return Source(hashlib.sha256(form.encode("ascii")).hexdigest(), tuple(_imports(tree)))


def canonical_source(text: bytes) -> str:
    """The canonical form of a source file's bytes. Raises SyntaxError, ValueError for null bytes."""
    return canonical_tree(_parse(text))


def _parse(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes warn differently on each Python
        return ast.parse(text)


def canonical_tree(tree: ast.AST) -> str:
    """Node types and fields, without positions, comments, docstrings and what is spelled in several ways."""
    written: list[str] = []
    _write(tree, written)
    return "".join(written)


def _write(node: ast.AST, out: list[str]) -> None:
    kind = type(node)
    if kind is ast.Name:  # the most frequent node, and always of one form
        out.append(ascii(node.id))  # type: ignore[attr-defined]
        return
    if kind is ast.JoinedStr:
        node = _merged(node)  # type: ignore[arg-type]
    if isinstance(node, ast.Constant):
        out.append(f"={_constant(node.value)}")
        return
    out.append(kind.__name__)
    fields = _FIELDS.get(kind)
    for name in _fields(kind) if fields is None else fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            _write_list(name, value, out)
        elif isinstance(value, ast.AST):
            out.append(f"({name}:")
            _write(value, out)
            out.append(")")
        elif value is not None:
            out.append(f"({name}:{_constant(value)})")


def _write_list(name: str, values: Sequence[Any], out: list[str]) -> None:
    """A list field; one that is empty, or holds only statements that say nothing, is as if it were not there."""
    if values and isinstance(values[0], ast.stmt):
        values = [s for s in values if not _says_nothing(s)]
    if not values:
        return
    out.append(f"({name}:")
    for value in values:
        if isinstance(value, ast.AST):
            _write(value, out)
        else:
            out.append(_constant(value))
        out.append(",")
    out.append(")")


def _fields(kind: type[ast.AST]) -> Sequence[str]:
    """Fields in an order that does not depend on the Python version."""
    _FIELDS[kind] = sorted(set(kind._fields) - _LEFT_OUT)
    return _FIELDS[kind]


def _says_nothing(statement: ast.stmt) -> bool:
    """Docstrings, those of attributes too, and ``pass``, which stands where only a docstring would."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return isinstance(statement.value.value, str)
    return isinstance(statement, ast.Pass)


def _merged(string: ast.JoinedStr) -> ast.JoinedStr | ast.Constant:
    """An f-string with its literal pieces joined: where they are split depends on the Python version."""
    parts: list[ast.expr] = []
    for part in string.values:
        if isinstance(part, ast.JoinedStr):  # nested by implicit concatenation
            part = _merged(part)
        if isinstance(part, ast.Constant):
            if not part.value:
                continue
            if parts and isinstance(parts[-1], ast.Constant):
                parts[-1] = ast.Constant(str(parts[-1].value) + str(part.value))
                continue
        parts.append(part)
    if all(isinstance(part, ast.Constant) for part in parts):
        return ast.Constant("".join(str(part.value) for part in parts if isinstance(part, ast.Constant)))
    return ast.JoinedStr(values=parts)


def _constant(value: Any) -> str:
    """A literal by type and value. ASCII, since what counts as printable depends on the Python version."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int {value:x}"  # hexadecimal: no limit on the number of digits
    return f"{type(value).__name__} {value!a}"


def _imports(tree: ast.AST) -> Iterator[Import]:
    """Import statements wherever they stand, but for those that are there for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), 0, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            yield Import(node.module or "", tuple(a.name for a in node.names), node.level, node.lineno)
        elif isinstance(node, ast.If) and _type_checking(node.test):
            for statement in node.orelse:
                yield from _imports(ast.Module([statement], []))
        elif isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _imports(node)


def _type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"

"""The canonical form of a source: what changes it, what does not, and that it is the same on every Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.planning.canonical import canonical_source, canonical_tree, read_source

EVERY_SYNTAX = (Path(__file__).parent / "every_syntax.txt").read_bytes()

PLAIN = b"""
import math

class Layout:
    heads = 4
    name = "mlra"

    def size(self, n):
        if n > 2:
            return {"a": [1, 2.5], "b": f"{n:>5} heads"}
        return math.sqrt(n) + 0x10
"""
DRESSED = b"""
'''A module.'''
# a comment
import math


class Layout:
        'Its docstring.'

        heads = 4           # so many
        '''What heads are.'''
        name = ('ml'
                "ra")

        def size(self, n):
          # why
          "Docstring."
          if (n > 2):

              return {'a': [1, 2.5,], 'b': f'{n:>5}' ' heads'}
          pass
          return (math.sqrt(n)
                  + 16)
"""


def test_golden_digest_on_every_python() -> None:
    """Verified on 3.11, 3.12 and 3.13, whose syntax trees differ: a changed value makes every study stale."""
    source = read_source(EVERY_SYNTAX)
    assert source.digest == "4a5498114910397802d80f595d64b549d72fffb6ff2fae2e671eb1fc0485986a"


def test_layout_comments_docstrings_and_quotes_change_nothing() -> None:
    assert canonical_source(DRESSED) == canonical_source(PLAIN)
    assert read_source(DRESSED).digest == read_source(PLAIN).digest


def test_line_ends_and_byte_order_mark_change_nothing() -> None:
    windows = b"\xef\xbb\xbf" + PLAIN.replace(b"\n", b"\r\n")
    assert read_source(windows).digest == read_source(PLAIN).digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"heads = 4", b"heads = 5"),
        (b"heads = 4", b"heads = 4.0"),
        (b"heads = 4", b"heads = True"),
        (b'"mlra"', b'b"mlra"'),
        (b'"mlra"', b'"mlrb"'),
        (b"n > 2", b"n >= 2"),
        (b"{n:>5}", b"{n:>6}"),
        (b"{n:>5}", b"{n!r:>5}"),
        (b"} heads", b"}  heads"),
        (b"[1, 2.5]", b"[2.5, 1]"),
        (b"[1, 2.5]", b"(1, 2.5)"),
        (b"self, n", b"self, *n"),
        (b"self, n", b"self, n=None"),
        (b"import math", b"import math as m"),
        (b"class Layout", b"@frozen\nclass Layout"),
        (b"def size", b"async def size"),
    ],
)
def test_what_is_said_changes_it(old: bytes, new: bytes) -> None:
    assert PLAIN.count(old) == 1
    assert read_source(PLAIN.replace(old, new)).digest != read_source(PLAIN).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('x = f"a" "b"', 'x = "ab"'),
        ('f"{x}" f"b" "c"', 'f"{x}bc"'),
        ("f'{x!r}'", 'f"{x!r}"'),
        ('u"a"', "'a'"),
        ("1_000", "1000"),
        ("1e3", "1000."),
        ("(a)", "a"),
        ("a[(1, 2)]", "a[1, 2]"),
        ("def f(): pass", 'def f(): "doc"'),
        ("class A: pass", 'class A:\n    """doc"""\n    # nothing'),
    ],
)
def test_spellings_of_the_same(one: str, other: str) -> None:
    assert canonical_source(one.encode()) == canonical_source(other.encode())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("match x:\n case None: y", "match x:\n case True: y"),
        ("{**a, 'b': 1}", "{'b': 1, **a}"),
        ("x = None", "x"),
        ("return_ = yield", "return_ = yield None"),
        ("f(a)", "f(a=a)"),
        ("-1", "- -1"),
        ("'x'", "x"),
        ("a['x']", "a[x]"),
        ("f'{x}'", "f'{{x}}'"),
        ("0.0", "-0.0"),
        ("import a.b", "from a import b"),
        ("from . import a", "from .. import a"),
        ("x: int", "x: float"),
        ("global a", "global b"),
    ],
)
def test_differences_that_are_kept(one: str, other: str) -> None:
    assert canonical_source(f"z = 1\n{one}".encode()) != canonical_source(f"z = 1\n{other}".encode())


def test_a_string_that_is_used_is_no_docstring() -> None:
    assert canonical_source(b"def f():\n return 'a'") != canonical_source(b"def f():\n return 'b'")


literals = st.recursive(
    st.integers() | st.floats() | st.text() | st.binary() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(literals)
def test_unparsed_source_is_the_same_source(value: object) -> None:
    """Written out by another hand, a module keeps its form. (nan and inf are names then.)"""
    tree = ast.parse(f"x = {value!r}\ndef f(a=[{value!r}]):\n  return a if x else {value!r}")
    assert canonical_source(ast.unparse(tree).encode()) == canonical_tree(tree)


@given(literals, literals)
def test_other_literals_have_other_digests(one: object, other: object) -> None:
    same = read_source(f"x = {one!a}".encode()).digest == read_source(f"x = {other!a}".encode()).digest
    assert same == (repr(one) == repr(other))


def test_long_integers_and_lone_surrogates() -> None:
    assert read_source(b"x = 0x" + b"f" * 6000).digest
    assert canonical_source(b"x = '\\ud800'").isascii()


def test_imports_wherever_they_stand() -> None:
    source = b"""
import a, b.c as d
if TYPE_CHECKING:
    import no
elif x:
    import e
if typing.TYPE_CHECKING:
    import no
else:
    import f
def g():
    try:
        from .h import i, j as k
    except ImportError:
        import l
    else:
        with x: import m
    match x:
        case 1:
            for y in z:
                from .. import n
    class O:
        async def p(self):
            while True: from q import *
"""
    found = [(i.module, i.names, i.level) for i in read_source(source).imports]
    assert found == [
        ("a", (), 0),
        ("b.c", (), 0),
        ("e", (), 0),
        ("f", (), 0),
        ("h", ("i", "j"), 1),
        ("l", (), 0),
        ("m", (), 0),
        ("", ("n",), 2),
        ("q", ("*",), 0),
    ]

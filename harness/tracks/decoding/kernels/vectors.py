"""The inner loops of the compiled kernel as LLVM vector code, which numba compiles into its callers.

Everything stands in eight accumulators of eight float32 lanes, enough to hide the latency of multiply-adds and few
enough for sixteen registers. H query heads (1, 2 or 4) go with 8 / H tokens in the logits, and with 8 / H vectors of
the width in the weighted sum, so that a number loaded from the cache is used H times and one of the query 8 / H times.
Logits and weights lie as [token][head].

bfloat16 is widened in registers: a word of two is shifted for the first and masked for the second, so sixteen numbers
become a vector of the even and one of the odd places. Queries and sums of such caches have that order, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 8
STEP = 16
"""Numbers that one step along the width takes: widths must be multiples of it."""

_FLOAT, _INT, _BYTE, _SIZE = ir.FloatType(), ir.IntType(32), ir.IntType(8), ir.IntType(64)
_FLOATS, _INTS, _POINTER = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES), ir.PointerType()
_LOWEST = -87.0  # exp of less is taken for exp of this, 1e-38
_ROUND = 12582912.0  # 1.5 * 2^23: once added, the nearest integer stands in the lowest bits
_EXP = (1.0, 1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720)  # on [-ln 2 / 2, ln 2 / 2] within 2e-7


def _float(number: float) -> ir.Constant:
    return ir.Constant(_FLOATS, [ir.Constant(_FLOAT, number)] * LANES)


def _int(number: int) -> ir.Constant:
    return ir.Constant(_INTS, [ir.Constant(_INT, number)] * LANES)


def _size(number: int) -> ir.Constant:
    return ir.Constant(_SIZE, number)


class _Code:
    """Writes vector instructions at the builder's place."""

    def __init__(self, builder: Any) -> None:
        self.at = builder

    def place(self, address: Any, *offsets: Any) -> Any:
        """A pointer: an address as an integer or a pointer, and bytes to add."""
        pointer = address if isinstance(address.type, ir.PointerType) else self.at.inttoptr(address, _POINTER)
        for offset in offsets:
            pointer = self.at.gep(pointer, [offset], source_etype=_BYTE)
        return pointer

    def load(self, pointer: Any, type: Any = _FLOATS) -> Any:
        return self.at.load(pointer, align=4, typ=type)

    def store(self, vector: Any, pointer: Any) -> None:
        self.at.store(vector, pointer, align=4)

    def repeated(self, pointer: Any) -> Any:
        """The number there in all lanes."""
        number = self.at.load(pointer, align=4, typ=_FLOAT)
        one = self.at.insert_element(ir.Constant(_FLOATS, ir.Undefined), number, ir.Constant(_INT, 0))
        return self.shuffle(one, one, [0] * LANES)

    def shuffle(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        mask = ir.Constant(ir.VectorType(_INT, LANES), [ir.Constant(_INT, lane) for lane in lanes])
        return self.at.shuffle_vector(a, b, mask)

    def prefetch(self, start: Any, offset: Any, bytes: int) -> None:
        """Ask for the cache lines of so many bytes, of one at least."""
        kind = ir.FunctionType(ir.VoidType(), [_POINTER, *[_INT] * 3])
        function = cgutils.get_or_insert_function(self.at.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        for line in range(0, max(bytes, 1), 64):
            place = self.place(start, offset, _size(line))
            self.at.call(function, [place, *(ir.Constant(_INT, n) for n in (0, 3, 1))])

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, fused where the processor can."""
        kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
        function = cgutils.get_or_insert_function(self.at.module, kind, "llvm.fmuladd.v8f32")  # type: ignore[no-untyped-call]
        return self.at.call(function, [a, b, c])

    def larger(self, a: Any, b: Any) -> Any:
        """A NaN in ``a`` or ``b`` may or may not be the result: it is in the logits all the same."""
        return self.at.select(self.at.fcmp_ordered(">", a, b), a, b)

    def cached(self, row: Any, half: bool, first: Any) -> list[Any]:
        """STEP numbers of a cached row from number ``first`` on, as two vectors."""
        if not half:
            start = self.place(row, self.at.shl(first, _size(2)))
            return [self.load(start), self.load(self.place(start, _size(4 * LANES)))]
        words = self.load(self.place(row, self.at.shl(first, _size(1))), _INTS)
        even, odd = self.at.shl(words, _int(16)), self.at.and_(words, _int(0xFFFF0000))
        return [self.at.bitcast(even, _FLOATS), self.at.bitcast(odd, _FLOATS)]

    def exp(self, x: Any) -> Any:
        """exp of numbers that are not positive; a NaN stays one."""
        at = self.at
        x = at.select(at.fcmp_ordered("<", x, _float(_LOWEST)), _float(_LOWEST), x)
        shifted = self.multiply_add(x, _float(1.4426950408889634), _float(_ROUND))
        whole = at.fsub(shifted, _float(_ROUND))
        rest = self.multiply_add(whole, _float(-0.693145751953125), x)  # ln 2 in two parts
        rest = self.multiply_add(whole, _float(-1.42860682030941723e-6), rest)
        series = _float(_EXP[-1])
        for coefficient in _EXP[-2::-1]:
            series = self.multiply_add(series, rest, _float(coefficient))
        power = at.add(at.shl(at.bitcast(shifted, _INTS), _int(23)), _int(0x3F800000))
        return at.fmul(series, at.bitcast(power, _FLOATS))

    def sums(self, vectors: Sequence[Any]) -> Any:
        """The sum of each of eight vectors, in their order, as one vector."""
        while len(vectors) > 1:
            vectors = [
                self.at.fadd(self.shuffle(a, b, range(0, 16, 2)), self.shuffle(a, b, range(1, 16, 2)))
                for a, b in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        return vectors[0]


class _Registers:
    """Variables of the function: LLVM keeps them in registers."""

    def __init__(self, code: _Code, vectors: Sequence[Any]) -> None:
        self._code = code
        self._places = [cgutils.alloca_once(code.at, _FLOATS) for _ in vectors]  # type: ignore[no-untyped-call]
        for place, vector in zip(self._places, vectors, strict=True):
            code.at.store(vector, place)

    def __iter__(self) -> Any:
        return (self._code.at.load(place, typ=_FLOATS) for place in self._places)

    def add_product(self, index: int, a: Any, b: Any) -> None:
        at, place = self._code.at, self._places[index]
        at.store(self._code.multiply_add(a, b, at.load(place, typ=_FLOATS)), place)

    def set(self, index: int, vector: Any) -> None:
        self._code.at.store(vector, self._places[index])


def _switched(write: Callable[..., None]) -> Callable[..., Any]:
    """Code for each number of heads and both precisions, of which the first two arguments choose."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        heads, half, *others = values
        end = builder.append_basic_block("end")
        switch = builder.switch(builder.add(builder.shl(heads, _size(1)), half), end)
        for tile in (1, 2, 4):
            for wide in (False, True):
                block = builder.append_basic_block(f"heads{tile}")
                switch.add_case(_size(2 * tile + wide), block)
                builder.position_at_end(block)
                write(_Code(builder), tile, wide, *others)
                builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return generate


def _logits(code: _Code, heads: int, half: bool, *values: Any) -> None:
    at = code.at
    *parts, query, query_stride, rows, ahead, out = values
    tokens, size = LANES // heads, 2 if half else 4
    sums = _Registers(code, [_float(0)] * LANES)
    query, ahead = code.place(query), code.place(ahead)
    last = at.sub(rows, _size(1))
    for number, (base, stride, width) in enumerate((parts[:3], parts[3:])):
        inside = [at.icmp_signed("<", _size(token), last) for token in range(tokens)]
        places = [
            code.place(base, at.mul(at.select(within, _size(token), last), stride))
            for token, within in enumerate(inside)
        ]
        with cgutils.for_range_slice(at, _size(0), width, _size(STEP), _SIZE) as (first, _):
            cached = [code.cached(place, half, first) for place in places]
            if number == 0:
                code.prefetch(ahead, at.mul(first, _size(tokens * size // 2)), STEP * tokens * size // 2)
            along = code.place(query, at.shl(first, _size(2)))
            for part in range(2):
                for head in range(heads):
                    start = code.place(along, at.mul(_size(head), query_stride), _size(4 * LANES * part))
                    numbers = code.load(start)
                    for token in range(tokens):
                        sums.add_product(token * heads + head, cached[token][part], numbers)
        query = code.place(query, at.shl(width, _size(2)))
    code.store(code.sums(list(sums)), code.place(out))


def _soften(code: _Code, heads: int, half: bool, weights: Any, vectors: Any, state: Any) -> None:
    at, size = code.at, _size(4 * LANES)
    weights, state = code.place(weights), code.place(state)
    end = at.mul(vectors, size)
    before = code.load(state)
    largest = _Registers(code, [before])
    with cgutils.for_range_slice(at, _size(0), end, size, _SIZE) as (offset, _):
        largest.set(0, code.larger(code.load(code.place(weights, offset)), *largest))
    (top,) = largest
    apart = heads
    while apart < LANES:
        top = code.larger(top, code.shuffle(top, top, [lane ^ apart for lane in range(LANES)]))
        apart *= 2
    decay = code.exp(at.fsub(before, top))
    total = _Registers(code, [at.fmul(code.load(code.place(state, size)), decay)])
    with cgutils.for_range_slice(at, _size(0), end, size, _SIZE) as (offset, _):
        place = code.place(weights, offset)
        weight = code.exp(at.fsub(code.load(place), top))
        code.store(weight, place)
        total.set(0, at.fadd(*total, weight))
    for index, vector in enumerate((top, *total, decay)):
        code.store(vector, code.place(state, _size(4 * LANES * index)))


def _add_weighted(code: _Code, heads: int, half: bool, *values: Any) -> None:
    at, size = code.at, 2 if half else 4
    cache, stride, width, weights, rows, decay, ahead, out, out_stride = values
    cache, weights, decay, ahead, out = map(code.place, (cache, weights, decay, ahead, out))

    def columns(first: Any, count: int) -> None:
        """``count`` vectors of the width, from number ``first`` on."""
        places = []
        for head in range(heads):
            start = code.place(out, at.mul(_size(head), out_stride), at.shl(first, _size(2)))
            places += [code.place(start, _size(4 * LANES * vector)) for vector in range(count)]
        shrink = [code.repeated(code.place(decay, _size(4 * head))) for head in range(heads)]
        sums = _Registers(code, [at.fmul(code.load(p), shrink[i // count]) for i, p in enumerate(places)])
        with cgutils.for_range(at, rows) as loop:
            row = code.place(cache, at.mul(loop.index, stride))
            weight = code.place(weights, at.mul(loop.index, _size(4 * heads)))
            factors = [code.repeated(code.place(weight, _size(4 * head))) for head in range(heads)]
            done = at.add(at.mul(first, rows), at.mul(loop.index, _size(count * LANES)))
            code.prefetch(ahead, at.mul(done, _size(size // 2)), count * LANES * size // 2)
            for step in range(count // 2):
                cached = code.cached(row, half, at.add(first, _size(STEP * step)))
                for head in range(heads):
                    for part in range(2):
                        sums.add_product(head * count + 2 * step + part, cached[part], factors[head])
        for place, vector in zip(places, sums, strict=True):
            code.store(vector, place)

    count = LANES // heads
    whole = at.and_(width, _size(-count * LANES))
    with cgutils.for_range_slice(at, _size(0), whole, _size(count * LANES), _SIZE) as (first, _):
        columns(first, count)
    if count * LANES > STEP:
        with cgutils.for_range_slice(at, whole, width, _size(STEP), _SIZE) as (first, _):
            columns(first, 2)


@intrinsic
def logits(  # type: ignore[no-untyped-def]
    typing,
    heads,
    half,
    keys,
    key_stride,
    key_width,
    ropes,
    rope_stride,
    rope_width,
    query,
    query_stride,
    rows,
    ahead,
    out,
):
    """out[8] = the logits of the next 8 / heads tokens, as [token][head].

    Addresses, widths in numbers, strides in bytes. A tile beyond ``rows`` repeats the last row. The query has
    ``key_width + rope_width`` float32 numbers a head. Half as many bytes as are read are fetched from ``ahead`` on.
    """
    return types.void(*[types.int64] * 13), _switched(_logits)


@intrinsic
def soften(typing, heads, half, weights, vectors, state):  # type: ignore[no-untyped-def]
    """Turn ``vectors`` vectors of logits into weights; carry the online softmax on.

    ``state``: vectors of the largest logit so far, of the sum of weights (by lane; lane i belongs to head i % heads),
    and, as a result, of the factor by which the sums so far shrink.
    """
    return types.void(*[types.int64] * 5), _switched(_soften)


@intrinsic
def add_weighted(  # type: ignore[no-untyped-def]
    typing, heads, half, cache, stride, width, weights, rows, decay, ahead, out, out_stride
):
    """out[head] = decay[head] out[head] + the sum over rows of weight times value; ``ahead`` as in :func:`logits`."""
    return types.void(*[types.int64] * 11), _switched(_add_weighted)

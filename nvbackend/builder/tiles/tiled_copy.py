"""Copies of tiles: the instructions of a copy atom, one for each of a thread's parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from llvmlite import ir

from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.parameters import TensorMapParameter
from nvbackend.builder.lower.conversions import llvm_constant
from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.box_copies import copy_boxes
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.register_tensor import RegisterTensor
from nvbackend.builder.tiles.tensor import Part, Tensor, Walker
from nvbackend.builder.values.values import CLUSTER_SPACE, GLOBAL_SPACE, SHARED_SPACE, Operand, Value, as_value
from nvbackend.diagnostics import Rule, raise_all
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy.load_store import ACCESS_BYTES
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import BY_NAME, REGISTER_BITS, ElementType, u32
from nvbackend.isel.machine.pseudo import LOAD_GLOBAL, STORE_GLOBAL
from nvbackend.layout import Layout, make_layout, size
from nvbackend.layout.algebra.inttuple import leaves, text
from nvbackend.tiled import CopyAtom, CopyKind, TiledCopy, TmaCopy
from nvbackend.tiled.vectorize import access_faults

OPERANDS = Rule(
    id="copy.operands",
    message="{atom} from {source} to {destination}: {problem}",
    fix="{instead}",
    why="The instruction would take an address for another, or move other elements.",
    reference="CUTLASS include/cute/algorithm/copy.hpp",
)
WHERE = Rule(
    id="copy.where",
    message="{atom} with `where`: {problem}",
    fix="{instead}",
    why="Elements past the end would be read or overwritten, or some before it left out.",
    reference="CUTLASS include/cute/algorithm/copy.hpp (copy_if)",
)

TMA_ONLY = Rule(
    id="copy.tma-only",
    message="{copy} is not a copy by TMA, and was given a tensor map, `at`, `barrier` or `multicast`",
    fix="make it with make_tma_copy, or give it tensors",
    why="Other copies take addresses; only TMA takes boxes and mbarriers.",
    reference="CUTLASS include/cute/algorithm/copy.hpp",
)

_PLACES = {GLOBAL_SPACE: "global memory", SHARED_SPACE: "shared memory", CLUSTER_SPACE: "a peer's shared memory"}
_REGISTERS = "registers"
_MEMORY = tuple(_PLACES.values())
_FROM_TO = {
    CopyKind.UNIVERSAL: ((*_MEMORY, _REGISTERS), (*_MEMORY, _REGISTERS)),
    CopyKind.CP_ASYNC: ((_PLACES[GLOBAL_SPACE],), (_PLACES[SHARED_SPACE],)),
    CopyKind.LDMATRIX: ((_PLACES[SHARED_SPACE],), (_REGISTERS,)),
    CopyKind.STMATRIX: ((_REGISTERS,), (_PLACES[SHARED_SPACE],)),
}
"""Where a kind of copy reads and writes."""


@dataclass(frozen=True)
class _Words:
    """What a thread's access moves: `count` values of type `element`."""

    element: ElementType
    count: int


def check_tiles(copy: TiledCopy, source: Tensor, destination: Tensor) -> None:
    """copy.operands unless both are tiles of one shape, made of what the threads copy at a time.

    Of a smaller tile, threads would go on past its end, in the next rows or in other memory, unless `where` ends them.
    """
    shapes = [_known_extents(tile) for tile in (source, destination)]
    if None in shapes:
        return
    shown = [" x ".join(map(str, shape or ())) for shape in shapes]
    if shapes[0] != shapes[1]:
        problem, instead = f"the tiles are {shown[0]} and {shown[1]}", "give it tiles of one shape"
        OPERANDS.fail(atom=copy.atom, source=source, destination=destination, problem=problem, instead=instead)
    step, extents = copy.extents, shapes[0] or ()
    if len(step) == len(extents) and any(extent % each for extent, each in zip(extents, step, strict=True)):
        whole = " x ".join(str(-(-extent // each) * each) for extent, each in zip(extents, step, strict=True))
        problem = f"a tile of {shown[0]} is not made of {' x '.join(map(str, step))}, which the threads copy at a time"
        instead = f"use a tile of {whole}, lay the copy over other threads, or give where= of the elements there are"
        OPERANDS.fail(atom=copy.atom, source=source, destination=destination, problem=problem, instead=instead)


def _known_extents(tile: Tensor) -> tuple[int, ...] | None:
    """The extents of its modes, if all are known when the kernel is built."""
    modes = tile.shape if isinstance(tile.shape, tuple) else (tile.shape,)
    is_known = all(isinstance(leaf, int) for leaf in leaves(modes))
    return tuple(math.prod(leaves(mode)) for mode in modes) if is_known else None


def copy_part(
    k: FunctionBuilder,
    copy: TiledCopy | CopyAtom | TmaCopy,
    source: Part | TensorMapParameter,
    destination: Part | TensorMapParameter,
    *,
    where: Inside | None = None,
    at: Sequence[Operand] | None = None,
    barrier: Address | None = None,
    multicast: bool = False,
) -> None:
    """Copy a thread's part, instruction by instruction: see `k.copy`."""
    if isinstance(copy, TmaCopy):
        copy_boxes(k, copy, source, destination, at, barrier, multicast=multicast, where=where)
        return
    if isinstance(source, TensorMapParameter) or isinstance(destination, TensorMapParameter):
        TMA_ONLY.fail(copy=copy)
    if at is not None or barrier is not None or multicast:
        TMA_ONLY.fail(copy=copy)
    atom = copy.atom if isinstance(copy, TiledCopy) else copy
    _check_copy(k, copy, atom, source, destination)
    walkers: list[Walker | RegisterTensor] = []
    faults = []
    for name, part in (("the source", source), ("the destination", destination)):
        if isinstance(part, Tensor):
            walker = Walker(part)
            promise = any(term.scale is not None for term in part._terms)
            faults += access_faults(atom, part.layout, name, walker.align, promise=promise)
            walkers.append(walker)
        else:
            walkers.append(part)
    raise_all(faults)
    if where is not None:
        _check_where(atom, where)
    moves: dict[CopyKind, Callable[[FunctionBuilder, CopyAtom, Any, Any, Value | None], None]] = {
        CopyKind.UNIVERSAL: _load_and_store,
        CopyKind.CP_ASYNC: _cp_async,
        CopyKind.LDMATRIX: _ldmatrix,
        CopyKind.STMATRIX: _stmatrix,
    }
    for place in _places(source):
        inside = None if where is None else where.holds(_of(place, 0))
        moves[atom.kind](k, atom, _at(walkers[0], atom, place), _at(walkers[1], atom, place), inside)


def _check_copy(
    k: FunctionBuilder, copy: TiledCopy | CopyAtom, atom: CopyAtom, source: Part, destination: Part
) -> None:
    parts = source, destination
    spaces = [_place_of(part) for part in parts]

    def fail(problem: str, instead: str) -> None:
        OPERANDS.fail(atom=atom, source=source, destination=destination, problem=problem, instead=instead)

    for side, space, legal in zip(("reads", "writes"), spaces, _FROM_TO[atom.kind], strict=True):
        if space not in legal:
            fail(f"it {side} {' or '.join(legal)}, not {space}", f"give it a tensor in {' or '.join(legal)}")
    for part in parts:
        if part.element.bits != atom.element.bits or part.element is not source.element:
            fail(f"it moves {atom.element}", f"give both as tensors of {atom.element}")
    for part, values in zip(parts, (size(atom.layout_src_tv, 1), size(atom.layout_dst_tv, 1)), strict=True):
        own = _plain(part)[0].modes[0]
        if size(own) != values:
            problem = f"of {_plain(part)} it would have {size(own)} values at once, and has {values}"
            fail(problem, "partition memory with partition_S or partition_D, and retile registers of an MMA")
    shapes = [_rests(part) for part in parts]
    if shapes[0] != shapes[1]:
        shown = " and ".join(text(shape) for shape in shapes)
        advice = (
            "give both one shape, for elements of an accumulator that of its tile; partition both with one tiled copy"
        )
        fail(f"there are {shown} instructions to do", advice)
    if isinstance(copy, TiledCopy) and copy.size > k.threads:
        problem = f"it is laid over {copy.size} threads, and the kernel has {k.threads}"
        fail(problem, f"lay it over {k.threads}, or launch {copy.size}")
    if isinstance(copy, TiledCopy) and (beyond := _threads_beyond(k, copy.size, parts)) is not None:
        problem = (
            f"it is laid over threads 0 to {copy.size - 1}, and thread {beyond[0]} of the CTA comes as {beyond[1]}"
        )
        fail(problem, f"let only {copy.size} threads come here, or number those of each group from 0 on")
    wide = atom.access_bytes not in ACCESS_BYTES
    if wide and not (k.target.has(Feature.SM_100) and {*spaces} <= {_PLACES[GLOBAL_SPACE], _REGISTERS}):
        fail(f"{atom.access_bytes} bytes at once are of sm_100 and global memory", "take universal_copy(..., 128)")


def _threads_beyond(k: FunctionBuilder, size: int, parts: tuple[Part, ...]) -> tuple[int, int] | None:
    """A thread that certainly comes here with a number of a thread that there is not, and that number."""
    for part in parts:
        number = part._thread if isinstance(part, Tensor) else None
        if number is None:
            continue
        for thread, own in k.core.execution.numbers_here(as_value(k.core, number).ir).items():
            if own >= size:
                return thread, own
    return None


def _load_and_store(k: FunctionBuilder, atom: CopyAtom, source: Any, destination: Any, inside: Value | None) -> None:
    words = _words(atom)
    if isinstance(source, Address) and inside is not None:
        kept = [k.var(0, words.element, name="copied") for _ in range(words.count)]
        with k.if_(inside):
            for variable, value in zip(kept, _load_words(k, source, words), strict=True):
                variable.set(value)
        values = [cell.value for cell in kept]
    else:
        values = _load_words(k, source, words) if isinstance(source, Address) else _taken(source, words)
    if isinstance(destination, RegisterTensor):
        _given(destination, words, values)
        return
    with nullcontext() if inside is None or destination.space != GLOBAL_SPACE else k.if_(inside):
        _store_words(k, destination, words, values)


def _load_words(k: FunctionBuilder, address: Address, words: _Words) -> list[Value]:
    place = address.cast(words.element)
    size = words.element.bytes_for(words.count)
    if size in ACCESS_BYTES:
        return place.load(words.count)
    kind = ir.VectorType(ir.IntType(REGISTER_BITS), words.count)
    pointer = place.pointer()
    loaded = k.core.llvm.load(pointer, typ=kind)
    k.core.plain_access(LOAD_GLOBAL, pointer, size)
    places = range(words.count)
    return [k.core.wrap(k.core.llvm.extract_element(loaded, llvm_constant(place, u32)), u32) for place in places]


def _store_words(k: FunctionBuilder, address: Address, words: _Words, values: list[Value]) -> None:
    place = address.cast(words.element)
    size = words.element.bytes_for(words.count)
    if size in ACCESS_BYTES:
        place.store(*values)
        return
    packed: ir.Value = ir.Constant(ir.VectorType(ir.IntType(REGISTER_BITS), words.count), ir.Undefined)
    for index, value in enumerate(values):
        packed = k.core.llvm.insert_element(packed, value.ir, llvm_constant(index, u32))
    pointer = place.pointer()
    k.core.llvm.store(packed, pointer)
    k.core.plain_access(STORE_GLOBAL, pointer, size)


def _cp_async(k: FunctionBuilder, atom: CopyAtom, source: Address, destination: Address, inside: Value | None) -> None:
    ignore = None if inside is None else ~inside
    cache = _row(atom).axes["cache_operator"]
    k.cp_async.copy(destination, source, atom.access_bytes, cache=str(cache), ignore=ignore)


def _ldmatrix(
    k: FunctionBuilder, atom: CopyAtom, source: Address, destination: RegisterTensor, _: Value | None
) -> None:
    row = _row(atom)
    results = k.emit(row, {"address": source.bytes.ir})["fragment"]
    _given(destination, _words(atom, len(results)), [k.core.wrap(register, u32) for register in results])


def _stmatrix(
    k: FunctionBuilder, atom: CopyAtom, source: RegisterTensor, destination: Address, _: Value | None
) -> None:
    row = _row(atom)
    registers = [value.ir for value in _taken(source, _words(atom, row.operand("fragment").count))]
    k.emit(row, {"address": destination.bytes.ir, "fragment": registers})


def _row(atom: CopyAtom) -> Row:
    row = atom.row
    assert row is not None
    return row


def _place_of(part: Part) -> str:
    return _PLACES[part._memory.space] if isinstance(part, Tensor) else _REGISTERS


def _plain(part: Part) -> Layout:
    return part._terms[0].part.plain if isinstance(part, Tensor) else part.layout


def _rests(part: Part) -> tuple[int, ...]:
    """How many instructions there are, along each mode."""
    own, *others = _plain(part).modes
    inner = own.modes
    return (size(make_layout(*inner[1:])) if len(inner) > 1 else 1, *map(size, others))


def _places(part: Part) -> Iterator[tuple[int, ...]]:
    """The place of each instruction, the first mode fastest."""
    for reverse in itertools.product(*map(range, reversed(_rests(part)))):
        yield tuple(reversed(reverse))


def _of(place: tuple[int, ...], value: int | None) -> Any:
    """The coordinate of a value of an instruction, `_` for all of them."""
    return ((value, place[0]), *place[1:])


def _at(part: Walker | RegisterTensor, atom: CopyAtom, place: tuple[int, ...]) -> Address | RegisterTensor:
    if isinstance(part, Walker):
        return part.address(_of(place, 0), align=atom.access_bytes)
    piece = part[_of(place, None)]
    assert isinstance(piece, RegisterTensor)
    return piece


def _check_where(atom: CopyAtom, where: Inside) -> None:
    if atom.kind in (CopyKind.LDMATRIX, CopyKind.STMATRIX):
        problem = "a warp executes it together, for all its rows"
        WHERE.fail(atom=atom, problem=problem, instead="bound the copies that fill the tile, which may write zeros")
    torn = where._torn()
    if torn is not None:
        dimension, span, known = torn
        problem = (
            f"{span} elements along dimension {dimension} are copied at once, and its end and places are known to "
        )
        problem += f"be multiples of {known}"
        instead = f"let the bound be a product with {span}, or copy fewer elements at once"
        WHERE.fail(atom=atom, problem=problem, instead=instead)


def _words(atom: CopyAtom, count: int | None = None) -> _Words:
    """The values that hold what an instruction moves: elements of 32 bits and more, else registers or less."""
    element, bits = atom.element, atom.access_bytes * 8 if count is None else count * REGISTER_BITS
    if count is None and element.bits >= REGISTER_BITS and atom.access_bytes in ACCESS_BYTES:
        return _Words(element, bits // element.bits)
    width = min(bits, REGISTER_BITS)
    return _Words(BY_NAME[f"u{width}"], bits // width)


def _taken(source: RegisterTensor, words: _Words) -> list[Value]:
    """The values of an instruction that reads registers."""
    if words.element.bits < REGISTER_BITS:
        return [_narrow(source, words.element)]
    return [_cast(value, words.element) for value in source.registers()]


def _given(destination: RegisterTensor, words: _Words, values: list[Value]) -> None:
    """Put the values of an instruction into registers."""
    if words.element.bits < REGISTER_BITS:
        _set_narrow(destination, values[0])
        return
    kind = u32 if destination.element.bits < REGISTER_BITS else destination.element
    destination.set_registers([_cast(value, kind) for value in values])


def _cast(value: Value, element: ElementType) -> Value:
    return value if value.type is element else value.bitcast(element)


def _narrow(source: RegisterTensor, element: ElementType) -> Value:
    """Elements of less than a register as one value."""
    joined: Value | None = None
    for place in range(size(source.layout)):
        bits = source[place].bitcast(BY_NAME[f"u{source.element.bits}"]).to(element) << place * source.element.bits
        joined = bits if joined is None else joined | bits
    assert joined is not None
    return joined


def _set_narrow(destination: RegisterTensor, value: Value) -> None:
    width = destination.element.bits
    for place in range(size(destination.layout)):
        bits = (value >> place * width).to(BY_NAME[f"u{width}"])
        destination[place] = bits.bitcast(destination.element)

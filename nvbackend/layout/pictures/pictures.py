"""Pictures of who holds what, and of where shared memory lies in the banks: SVG documents that notebooks show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nvbackend.diagnostics import Rule, missing_name, printed, user_facing
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.intrinsics.maps.rows import FragmentMap, Position, fragment_maps
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE
from nvbackend.layout.algebra.inttuple import modes, product
from nvbackend.layout.algebra.swizzle import AnyLayout, ComposedLayout
from nvbackend.layout.banks.conflicts import BANK_BYTES, BANKS, byte_addresses
from nvbackend.layout.drawing.svg import GROUP, HUES, Axis, GridCell, Picture, check_size, grid, numbered, palette

MOST_HOLDERS = 2
"""Threads named in a cell that more than one thread has; the others are in its hint."""

TILE = Rule(
    id="picture.tile",
    message="{layout} as a thread-value layout of a tile of {rows} x {columns}: {problem}",
    fix="give a layout of two modes, (threads, values), whose indices are row + {rows} * column; a picture of the "
    "indices themselves needs no tile",
    why="Cells would be missing, or show other elements.",
    reference="CUTLASS documentation, CuTe's TV layouts; include/cute/util/print_latex.hpp",
)

Holders = Mapping[tuple[int, ...], Sequence[tuple[int, int]]]
"""For each position, the threads that hold it, each with the number of its value."""


CTAS = 1
"""The `group` of a layout whose threads are CTAs."""


@user_facing
def thread_values(
    layout: AnyLayout, tile: tuple[int, int], *, title: str | None = None, group: int | None = None
) -> Picture:
    """The picture of a thread-value layout: (thread, value) to row + M * column of a tile of M x N, as CuTe has them.

    Each cell names the thread and the number of its value; the colour is the thread's, modulo 32. With a `group` (32
    for warps, 128 for warpgroups) it is that of the group, whose number precedes that of the thread in it; a group
    of one is a CTA, of an operand that is not in registers. What several have has the colour of the first. `title`
    is printed above the layout's text. Raises picture.tile and layout-algebra.run-time.
    """
    rows, columns = tile
    check_size(rows, columns)
    problem = None
    if len(modes(layout.shape)) != 2:
        problem = f"it has {len(modes(layout.shape))} modes"
    else:
        indices = layout.offsets()
        if not all(0 <= index < rows * columns for index in indices):
            wrong = next(index for index in indices if not 0 <= index < rows * columns)
            problem = f"its index {wrong} is not in the tile of {rows * columns} elements"
    if group is not None and group < 1:
        problem = f"groups of {group} threads"
    if problem is not None:
        TILE.fail(layout=layout, rows=rows, columns=columns, problem=problem)
    threads = _rows(layout)
    held: dict[tuple[int, ...], list[tuple[int, int]]] = {
        (row, column): [] for row in range(rows) for column in range(columns)
    }
    for place, index in enumerate(indices):
        held[index % rows, index // rows].append((place % threads, place // threads))
    headings = (
        *([title] if title else []),
        str(layout),
        f"({'CTA' if group == CTAS else 'thread'}, value) to an element of a tile of {rows} x {columns}",
    )
    return Picture(_held(headings, held, group))


@user_facing
def fragments(row: Row, operand: str | None = None) -> Picture:
    """The picture of an operand of an instruction, such as "d": for each element, who holds it, and as what.

    The row is what `nvb.mma.select` gives, or that of another family; without `operand` it is the first operand that
    threads hold. Elements that no thread holds are white. Raises call.argument, and call.name for another operand.
    """
    maps = {held.operand: held for held in fragment_maps(row)} if isinstance(row, Row) else {}
    if not maps:
        problem = f"takes a row whose operands threads hold, not {row.ptx if isinstance(row, Row) else printed(row)}"
        advice = "pass the row of an mma: nvb.mma.select(request, target)"
        ARGUMENT.fail(call="pictures.fragments", problem=problem, advice=advice)
    if operand is not None and operand not in maps:
        raise missing_name(row.ptx, "operand in registers", operand, maps)
    return fragment_picture(next(iter(maps.values())) if operand is None else maps[operand], row.ptx)


def fragment_picture(held: FragmentMap, title: str = "") -> Picture:
    """The picture of a fragment map, with the instruction's text as its title."""
    holders: dict[Position, list[tuple[int, int]]] = {}
    for thread in range(held.threads):
        for index in range(held.elements):
            holders.setdefault(held.position(thread, index), []).append((thread, index))
    headings = (*([title] if title else []), f"{held.operand}: {held.tile}", *([held.counted] if held.counted else []))
    return Picture(_held(headings, holders))


def _held(headings: Sequence[str], held: Holders, group: int | None = None) -> str:
    """Rows are the leading indices of the positions, columns the last ones; only those that occur have one."""
    rows = sorted({position[:-1] for position in held})
    columns = sorted({position[-1] for position in held})
    cells = [[_holders(held.get((*row, column), ()), group) for column in columns] for row in rows]
    threads = 1 + max((thread for holders in held.values() for thread, _ in holders), default=0)
    shown = {holders[0][0] // group for holders in held.values() if holders} if group else set()
    return grid(
        headings,
        cells,
        Axis(tuple(",".join(map(str, row)) for row in rows)),
        Axis(tuple(map(str, columns))),
        _thread_legend(threads) if group is None else _group_legend(shown, group),
    )


def _thread_legend(threads: int) -> list[tuple[str, str]]:
    """What the colours say: the quads of a warp."""
    colours = palette()
    last = min(threads, WARP_SIZE)
    legend = [(colours[first + 1], f"T{first}-{min(first + GROUP, last) - 1}") for first in range(0, last, GROUP)]
    return [*legend, ("#ffffff", "T thread (colour: modulo 32), V its value")]


def _group_legend(shown: Collection[int], group: int) -> list[tuple[str, str]]:
    """What the colours say: the groups of threads that are the first to have an element."""
    letter = _letter(group)
    legend = [(_group_colour(number), f"{letter}{number}") for number in sorted(shown)[: len(HUES)]]
    said = "C CTA, V its value" if group == CTAS else f"{letter} group of {group} threads, T thread of it, V its value"
    return [*legend, ("#ffffff", said)]


def _letter(group: int) -> str:
    return "W" if group == WARP_SIZE else "C" if group == CTAS else "G"


def _group_colour(number: int) -> str:
    colours = palette()
    return colours[(number * GROUP + 1) % len(colours)]


def _named(thread: int, group: int | None) -> str:
    if group is None:
        return f"T{thread}"
    number, inside = divmod(thread, group)
    return f"{_letter(group)}{number}" + (f" T{inside}" if group > 1 else "")


def _holders(holders: Sequence[tuple[int, int]], group: int | None) -> GridCell:
    if not holders:
        return GridCell()
    first = holders[0][0]
    colours = palette()
    fill = colours[first % len(colours)] if group is None else _group_colour(first // group)
    hint = ", ".join(f"{_named(thread, group)} V{value}" for thread, value in holders)
    if len(holders) == 1:
        (thread, value), *_ = holders
        return GridCell((_named(thread, group), f"V{value}"), fill, hint)
    shown = tuple(f"{_named(thread, group)} V{value}" for thread, value in holders[:MOST_HOLDERS])
    more = (f"+{len(holders) - MOST_HOLDERS}",) if len(holders) > MOST_HOLDERS else ()
    return GridCell((*shown, *more), fill, hint)


@user_facing
def banks(layout: AnyLayout, element_bits: int) -> Picture:
    """The picture of a tile of shared memory: the bank of each element, coloured by bank, first mode downwards.

    The memory begins at a multiple of 128 bytes. Elements that one access of a warp reads without conflicts have
    different colours; the four shades of a hue are 16 bytes. Raises layout-algebra.element-width and
    layout-algebra.run-time.
    """
    rows = _rows(layout)
    check_size(rows, product(layout.shape) // rows)
    places = byte_addresses(layout, element_bits)
    colours = palette()
    cells = [[_bank(place, colours) for place in places[row::rows]] for row in range(rows)]
    headings = (str(layout), f"the bank of each element of {element_bits} bits: {BANKS} banks of {BANK_BYTES} bytes")
    return Picture(grid(headings, cells, numbered(rows), numbered(len(cells[0])), _bank_legend()))


def _bank(place: float, colours: Sequence[str]) -> GridCell:
    word = int(place // BANK_BYTES)
    return GridCell((str(word % BANKS),), colours[word % BANKS], f"byte {place:g}, word {word}")


@user_facing
def memory(layout: AnyLayout, element_bits: int) -> Picture:
    """The picture of a swizzle: what lies in each word of shared memory, 128 bytes a line.

    A cell names the (row, column) of the first element of the tile in that word, where the row is the first mode of
    the layout; its colour is the bank that the element would lie in without the swizzle. Raises
    layout-algebra.element-width and layout-algebra.run-time.
    """
    check_size(_rows(layout), product(layout.shape) // _rows(layout))
    places = byte_addresses(layout, element_bits)
    plain = byte_addresses(layout.layout_b, element_bits) if isinstance(layout, ComposedLayout) else places
    rows = _rows(layout)
    first: dict[int, int] = {}
    for index, place in enumerate(places):
        word = int(place // BANK_BYTES)
        first[word] = min(first.get(word, index), index, key=lambda each: places[each])
    colours = palette()
    lines = range(min(first) // BANKS, max(first) // BANKS + 1)
    check_size(lines.stop - lines.start, BANKS)
    cells = []
    for words in (range(line * BANKS, (line + 1) * BANKS) for line in lines):
        drawn = [(word, first.get(word)) for word in words]
        cells.append([_word(word, index, rows, colours, plain) for word, index in drawn])
    headings = (
        str(layout),
        f"(row, column) of the first element of {element_bits} bits in each word; colour: its bank without the swizzle",
    )
    labels = tuple(str(line * BANKS * BANK_BYTES) for line in lines)
    return Picture(grid(headings, cells, Axis(labels, "byte"), numbered(BANKS, "bank"), _bank_legend()))


def _word(word: int, index: int | None, rows: int, colours: Sequence[str], plain: Sequence[float]) -> GridCell:
    if index is None:
        return GridCell()
    place = f"{index % rows},{index // rows}"
    return GridCell((place,), colours[int(plain[index] // BANK_BYTES) % BANKS], f"byte {word * BANK_BYTES}: ({place})")


def _rows(layout: AnyLayout) -> int:
    """The extent of the first mode."""
    return int(product(modes(layout.shape)[0])) if modes(layout.shape) else 1


def _bank_legend() -> list[tuple[str, str]]:
    colours = palette()
    return [(colours[first + 1], f"banks {first}-{first + GROUP - 1}") for first in range(0, BANKS, GROUP)]

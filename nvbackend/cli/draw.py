"""`nvbackend draw`: draw as SVG a layout in CuTe's notation, or which thread holds which elements of an operand."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nvbackend.atoms import atom
from nvbackend.cli import rules
from nvbackend.cli.explain import OF_ATOM, rows_spelled
from nvbackend.intrinsics.maps.rows import FragmentMap, fragment_maps
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE
from nvbackend.layout import AnyLayout, parse, pictures
from nvbackend.layout.banks.conflicts import bank_conflicts
from nvbackend.layout.drawing.svg import Picture
from nvbackend.layout.pictures.pictures import fragment_picture
from nvbackend.tiled import make_tiled_mma

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_LAYOUT = re.compile(r"\s*(?:[\d(_]|Sw<)")
"""The first characters of a layout; spellings begin with other letters."""
_ATOMS = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")
_OF_ATOMS = ("E", "SFA", "SFB")
"""Operands that an atom has, and a tiled MMA does not lay over a tile: metadata and scale factors."""
_GROUPS = {"warp": WARP_SIZE, "warpgroup": WARPGROUP_SIZE}
_TILE = re.compile(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})")


def add_to(commands: Commands) -> None:
    """The command's arguments."""
    parser = commands.add_parser("draw", help="draw a layout or an instruction's fragments", description=__doc__)
    parser.add_argument(
        "what", help="a layout such as '((_8,_2),_4):((_1,_32),_8)', a PTX spelling, or an MMA atom's name"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the SVG here instead of printing it")
    parser.add_argument(
        "--operand", metavar="D", help="of an instruction: the operand to draw, such as d; by default the first"
    )
    parser.add_argument("--tile", metavar="MxN", help="the layout maps (thread, value) to elements of this tile")
    parser.add_argument("--banks", metavar="BITS", type=int, help="draw the bank of each element of this many bits")
    parser.add_argument("--memory", metavar="BITS", type=int, help="draw where each element of this many bits lies")
    help_ = "with --banks: the layout maps a warp's threads to elements; draw the wavefronts of this access"
    parser.add_argument("--access", metavar="BYTES", type=int, help=help_)
    parser.add_argument("--atoms", metavar="MxNxK", help="of an MMA atom: the number of atoms along M, N and K")
    parser.add_argument(
        "--by", choices=_GROUPS, help="of an MMA atom: colour and number its threads by warp or warpgroup"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Iterator[str]:
    """The command's output: the SVG, or where it was written.

    Raises cli.draw, cli.operand, cli.output, cli.spelling, and what reading and drawing the layout or atom raises.
    """
    picture = _picture(arguments)
    if arguments.output is None:
        yield picture.svg
        return
    try:
        picture.save(Path(arguments.output))
    except OSError as error:
        rules.OUTPUT.fail(file=arguments.output, problem=error.strerror)
    yield f"{arguments.output}\n"


def _picture(arguments: argparse.Namespace) -> Picture:
    if OF_ATOM.match(arguments.what):
        return _of_atom(arguments)
    if of_atoms := _given(arguments, "atoms", "by"):
        rules.DRAW.fail(problem=f"{of_atoms[0]} is for MMA atoms, and {arguments.what!r} is not an MMA atom")
    return _of_layout(arguments) if _LAYOUT.match(arguments.what) else _of_instruction(arguments)


def _of_atom(arguments: argparse.Namespace) -> Picture:
    """The picture of a tiled MMA, of one atom or several."""
    if of_layouts := _given(arguments, "tile", "banks", "memory", "access"):
        rules.DRAW.fail(problem=f"{of_layouts[0]} is for layouts, and {arguments.what!r} is an MMA atom")
    atoms = arguments.atoms or "1x1x1"
    match = _ATOMS.fullmatch(atoms)
    if match is None:
        rules.DRAW.fail(problem=f"--atoms {atoms} is not how many there are along M, N and K")
    m, n, k = map(int, match.groups())
    group = None if arguments.by is None else _GROUPS[arguments.by]
    if arguments.atoms is None and (arguments.operand or "").upper() in _OF_ATOMS:
        return atom(arguments.what).picture(arguments.operand, group=group)
    return make_tiled_mma(arguments.what, (m, n, k)).picture(arguments.operand or "C", group=group)


def _given(arguments: argparse.Namespace, *names: str) -> list[str]:
    return [f"--{name}" for name in names if getattr(arguments, name) is not None]


def _of_layout(arguments: argparse.Namespace) -> Picture:
    views = _given(arguments, "tile", "banks", "memory")
    problem = None
    if arguments.operand is not None:
        problem = "a layout has no operands (--operand)"
    elif len(views) > 1:
        problem = f"{' and '.join(views)} are different pictures"
    elif arguments.access is not None and arguments.banks is None:
        problem = "--access counts bytes: it needs the elements' width (--banks)"
    elif any(bits is not None and bits < 1 for bits in (arguments.banks, arguments.memory)):
        problem = "an element has at least one bit"
    if problem is not None:
        rules.DRAW.fail(problem=problem)
    layout = parse(arguments.what)
    if arguments.access is not None:
        return Picture(bank_conflicts(layout, arguments.banks, arguments.access).svg())
    if arguments.tile is not None:
        return pictures.thread_values(layout, _tile(arguments.tile))
    if arguments.banks is not None:
        return pictures.banks(layout, arguments.banks)
    if arguments.memory is not None:
        return pictures.memory(layout, arguments.memory)
    return _indices(layout)


def _indices(layout: AnyLayout) -> Picture:
    return Picture(layout.svg())


def _tile(text: str) -> tuple[int, int]:
    match = _TILE.fullmatch(text)
    if match is None:
        rules.DRAW.fail(problem=f"--tile {text} is not a pair of extents")
    return int(match[1]), int(match[2])


def _of_instruction(arguments: argparse.Namespace) -> Picture:
    if views := _given(arguments, "tile", "banks", "memory", "access"):
        rules.DRAW.fail(problem=f"{views[0]} is for layouts, and {arguments.what!r} is not a layout")
    rows = rows_spelled(arguments.what, kind="a layout, an MMA atom or the spelling of an instruction")
    row, held = _held(rows, arguments.operand)
    return fragment_picture(held, row.ptx)


def _held(rows: list[Row], operand: str | None) -> tuple[Row, FragmentMap]:
    """The first fragment of that name among the forms of a spelling; the first of all without a name."""
    every = [(row, held) for row in rows for held in fragment_maps(row)]
    wanted = [(row, held) for row, held in every if operand in (None, held.operand)]
    if not wanted:
        names = sorted({held.operand for _, held in every})
        has = f"draw one of {', '.join(names)}" if names else "draw an instruction whose operands threads share, an mma"
        rules.OPERAND.fail(spelling=rows[0].ptx, operand=operand or "any operand", has=has)
    return wanted[0]

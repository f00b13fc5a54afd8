"""A function as one thread runs it: branches by what the thread's number decides go one way.

Of a store that a condition leaves to one thread, the paths of the others say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nvbackend.intrinsics.row.semantics import Completion
from nvbackend.isel.flow.dataflow import sites_of
from nvbackend.isel.flow.finished import with_successors
from nvbackend.lint.lifted.lift import Lifted
from nvbackend.lint.numbers.by_thread import CtaValues
from nvbackend.lint.numbers.facts import Facts, either
from nvbackend.lint.numbers.touched import said

_MOST = 4
"""Threads that are looked at."""


def storing_threads(lifted: Lifted) -> Iterator[Lifted]:
    """The function for the first thread that issues each bulk store, where some do not."""
    values = CtaValues(lifted)
    facts = Facts(values.expressions, values.threads, ())
    masks = _masks(lifted, values, facts)
    stores: dict[int, None] = {}
    place = 0
    for name, block in lifted.function.blocks.items():
        for line in lifted.lines[place : place + len(block.instructions)]:
            threads = masks.get(name, 0) & either(values, facts, values.guard(place))[0]
            if said(line).issues is Completion.BULK_GROUP and threads and threads != values.threads:
                stores[(threads & -threads).bit_length() - 1] = None
            place += 1
    for thread in list(stores)[:_MOST]:
        following = dict(_ways(lifted, values, facts, 1 << thread))
        yield replace(lifted, function=with_successors(lifted.function, following))


def executing(lifted: Lifted, values: CtaValues) -> dict[int, int]:
    """The threads that may execute each instruction, a bit each, by its position."""
    facts = Facts(values.expressions, values.threads, ())
    masks = _masks(lifted, values, facts)
    return {
        site.position: masks.get(name, 0) & either(values, facts, values.guard(site.position))[0]
        for name, sites in sites_of(lifted.function).items()
        for site in sites
    }


def _masks(lifted: Lifted, values: CtaValues, facts: Facts) -> dict[str, int]:
    """The threads that may run each block."""
    masks = {lifted.function.entry.name: values.threads}
    waiting = [lifted.function.entry.name]
    ends = dict(_ends(lifted))
    while waiting:
        name = waiting.pop()
        successors = lifted.function.blocks[name].successors
        branched = _branched(lifted, values, facts, ends[name]) if len(successors) == 2 else ()
        for successor, may in zip(successors, branched or (values.threads,) * len(successors), strict=True):
            threads = masks.get(successor, 0) | (masks[name] & may)
            if threads != masks.get(successor, 0):
                masks[successor] = threads
                waiting.append(successor)
    return masks


def _ways(lifted: Lifted, values: CtaValues, facts: Facts, thread: int) -> Iterator[tuple[str, list[str]]]:
    """The successors of each block for one thread, which is a bit."""
    ends = dict(_ends(lifted))
    for name, block in lifted.function.blocks.items():
        branched = _branched(lifted, values, facts, ends[name]) if len(block.successors) == 2 else ()
        ways = [successor for successor, may in zip(block.successors, branched, strict=False) if may & thread]
        yield name, ways if branched else list(block.successors)


def _ends(lifted: Lifted) -> Iterator[tuple[str, int]]:
    """The place of the last instruction of each block; -1 where it has none."""
    place = 0
    for name, block in lifted.function.blocks.items():
        place += len(block.instructions)
        yield name, place - 1 if block.instructions else -1


def _branched(lifted: Lifted, values: CtaValues, facts: Facts, place: int) -> tuple[int, int]:
    """The threads that may take the branch at a place, and those that may not."""
    is_branch = place >= 0 and lifted.lines[place].instruction.parts[0] == "bra"
    return either(values, facts, values.guard(place)) if is_branch else (values.threads, values.threads)

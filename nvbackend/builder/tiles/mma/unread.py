"""Products of a warp, mma.sync and wmma, whose results nothing uses: LLVM drops them, or they are for nothing.

Their results are values of LLVM; accumulators with an identity are looked at in the machine form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.tiles.mma.epilogue import TmaEpilogue, not_stored
from nvbackend.diagnostics import Diagnostic
from nvbackend.dry_run.anchors import Anchor
from nvbackend.isel.protocols.unread import rules
from nvbackend.isel.protocols.unread.protocol import check_unread, writes_results

_COMPUTES = (ir.LoadInstr, ir.GEPInstr, ir.ExtractValue, ir.InsertValue, ir.CastInstr, ir.SelectInstr, ir.PhiInstr)
_OF_INTEGERS = ("add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and", "or", "xor", "shl", "lshr", "ashr", "icmp")
_OF_FLOATS = ("fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fcmp")


def work_for_nothing(k: Core, epilogues: Iterable[TmaEpilogue]) -> Iterator[Diagnostic]:
    """mma.unread, async.empty-group and epilogue.not-stored of a whole kernel."""
    yield from check_unread(k.machine)
    yield from unread_products(k)
    for each in epilogues:
        yield from not_stored(each)


def unread_products(k: Core) -> Iterator[Diagnostic]:
    """mma.unread for each line of products of which nothing reads a result."""
    anchors = [anchor for several in k.anchors.blocks.values() for anchor in several if _gives_products(anchor)]
    if not anchors or k.attached or not writes_results(k.machine):
        return
    of = _Uses(k.function, anchors)
    dead: set[ir.Value] = set()
    for anchor in anchors:
        results = of.results(anchor)
        if not results or not dead.isdisjoint(results):
            continue
        following = of.following(results)
        if following is not None:
            dead |= following
            fix = "store the results, or use them; or leave the multiplies out"
            spelled = anchor.instr.row.ptx if anchor.instr.row is not None else anchor.instr.opcode
            yield rules.UNREAD.diagnose(at=anchor.instr.location, name="D", instruction=spelled, fix=fix)


def _gives_products(anchor: Anchor) -> bool:
    said, row = anchor.instr.semantics, anchor.instr.row
    return said.multiplies and said.issues is None and row is not None and bool(row.outputs)


class _Uses:
    """Who uses each value of a function."""

    def __init__(self, function: ir.Function, anchors: list[Anchor]) -> None:
        self._of: defaultdict[Any, list[ir.Instruction]] = defaultdict(list)
        self._products = {call for anchor in anchors for call in self._calls(anchor)}
        for user in chain.from_iterable(block.instructions for block in function.blocks):
            used = [value for value, _ in user.incomings] if isinstance(user, ir.PhiInstr) else user.operands
            for value in used:
                self._of[value].append(user)

    def results(self, anchor: Anchor) -> list[ir.Value]:
        """The values that a product gives."""
        names = () if anchor.instr.row is None else (output.name for output in anchor.instr.row.outputs)
        values = chain.from_iterable(anchor.registers.get(name, ()) for name in names)
        return [value for value in values if isinstance(value, ir.Instruction)]

    def _calls(self, anchor: Anchor) -> Iterator[ir.Instruction]:
        """The LLVM instruction that multiplies, from which the results are taken."""
        for result in self.results(anchor):
            taken = result
            while isinstance(taken, ir.ExtractValue | ir.CastInstr):
                taken = taken.operands[0]
            yield taken

    def following(self, results: list[ir.Value]) -> set[ir.Value] | None:
        """All that is computed of the values, further products among it; None where that is used for anything else."""
        following, waiting = set(results), [*results]
        while waiting:
            value = waiting.pop()
            for user in self._of.get(value, ()):
                target = self._target(value, user)
                if target is None:
                    return None
                if target not in following:
                    following.add(target)
                    waiting.append(target)
        return following

    def _target(self, value: ir.Value, user: ir.Instruction) -> ir.Value | None:
        """What has the value, or what is computed of it, after an instruction; None for any other use."""
        if isinstance(user, ir.StoreInstr):
            place = user.operands[1]
            if isinstance(place, ir.AllocaInstr):
                return place
            return None
        if isinstance(value, ir.AllocaInstr):
            return user if isinstance(user, ir.LoadInstr) else None
        if isinstance(user, _COMPUTES) or user.opname in (*_OF_INTEGERS, *_OF_FLOATS) or user in self._products:
            return user
        return None

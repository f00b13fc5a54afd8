"""Control flow as with-blocks: branches, counted and open loops, early exits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from llvmlite import ir

from nvbackend.builder.core.core import Core
from nvbackend.builder.core.variables import make_variable
from nvbackend.builder.lower.conversions import Number
from nvbackend.builder.lower.loop_hints import Unroll, ask, check_unroll
from nvbackend.builder.scopes import rules
from nvbackend.builder.scopes.blocks import Body, Region, Storage, with_block
from nvbackend.builder.scopes.function_rules import RESULT
from nvbackend.builder.thread_tables.tables import ThreadSet
from nvbackend.builder.value_tracking.execution import Merged, in_first_round
from nvbackend.builder.values.carried import DEALT, steps_by_grid
from nvbackend.builder.values.values import Arithmetic, Operand, Value, as_value
from nvbackend.diagnostics import Location, Rule, caller_location
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.types import ElementType, pred, s32
from nvbackend.isel.machine.pseudo import RETURN

Known = dict[Storage, list[ir.Value]]
_COUNTER = "i"
"""The name of a loop's variable that nobody gave one."""


@dataclass(frozen=True, slots=True)
class _If:
    """What `else_` needs to know of the last if_ block."""

    branch: ir.Instruction
    test: ir.Value
    merge: ir.Block
    region: Region
    before: Known
    inside: Known
    others: ThreadSet | None
    rest: ThreadSet | None
    anchor: str | None


class Control:
    """Branches, loops and exits of one function."""

    def __init__(self, k: Core) -> None:
        self._k = k
        self._last_if: _If | None = None

    @with_block
    def if_(self, condition: Operand) -> Iterator[None]:
        """Run the block where `condition` (a predicate) holds. `k.else_()` may follow."""
        self._k.check_live()
        test = as_value(self._k, condition, pred)
        then, merge = self._k.new_block("then"), self._k.new_block("endif")
        branch = self._k.branch_if(test, then, merge)
        before = dict(self._k.known.registers)
        chosen, others = self._k.execution.split(test.ir)
        crew, rest = self._k.execution.part(test.ir)
        anchor = None if crew is rest else self._k.regions[-1].anchor or branch.parent.name
        with self._k.region("if") as region:
            region.alone = self._k.execution.is_alone(test.ir, chosen, holds=True)
            region.executing, region.crew, region.anchor = chosen, crew, anchor
            self._k.execution.narrow(test.ir, holds=True)
            self._k.enter(then, before)
            yield
            leaves = self._k.exit_kind is not None
            self._k.branch(merge)
            inside = self._k.known.registers
        if leaves:
            self._k.execution.narrow(test.ir, holds=False)
        self._k.enter(merge, _unchanged(before, region) | _merged(test.ir, region.written, inside, before))
        self._last_if = _If(branch, test.ir, merge, region, before, inside, others, rest, anchor)

    @with_block
    def apart(self, condition: Operand) -> Iterator[None]:
        """As `if_`, for what a call emits: no `else_` of the user's may follow."""
        with self.if_(condition):
            yield
        self._last_if = None

    @with_block
    def else_(self) -> Iterator[None]:
        """The else side of the if_ block just above."""
        last = self._last_if
        if last is None or self._k.llvm.block is not last.merge or self._has_content(last.merge):
            rules.ELSE_WITHOUT_IF.fail()
        self._last_if = None
        otherwise = self._k.new_block("else")
        last.branch.operands[2] = otherwise
        with self._k.region("else") as region:
            region.executing, region.crew, region.anchor = last.others, last.rest, last.anchor
            region.alone = self._k.execution.is_alone(last.test, last.others, holds=False)
            self._k.execution.narrow(last.test, holds=False)
            self._k.enter(otherwise, last.before)
            yield
            leaves = self._k.exit_kind is not None
            self._k.branch(last.merge)
            outside = self._k.known.registers
        if leaves:
            self._k.execution.narrow(last.test, holds=True)
        written = last.region.written | region.written
        merged = _merged(last.test, written, last.inside, outside)
        self._k.enter(last.merge, _unchanged(_unchanged(last.before, last.region), region) | merged)

    @with_block
    def range(
        self,
        start: Operand,
        stop: Operand | None = None,
        step: Operand = 1,
        *,
        name: str = _COUNTER,
        unroll: Unroll = None,
    ) -> Iterator[Value]:
        """Count from `start` (0 where only one bound is given) up to but not including `stop`, by a positive `step`.

        A step known at build time is checked (control.step); a run-time one must be positive. Of 32 bits and more, the
        last count and the step must fit the type together (control.range-end). `unroll` asks LLVM for copies of the
        body (control.unroll).
        """
        each = step._value().constant if isinstance(step, Arithmetic) else step
        known = None if isinstance(each, int) and self._k.execution.is_unreached() else each
        if known is not None and (not isinstance(known, int) or known <= 0):
            rules.ZERO_STEP.fail(step=known)
        if stop is None:
            start, stop = 0, start
        element = next((bound.type for bound in (start, stop) if isinstance(bound, Arithmetic)), s32)
        if not element.is_integer:
            rules.UNSUPPORTED_OPERATION.fail(operation="k.range", element=element, advice="count in integers: .to(i32)")
        if element.bits < s32.bits and known != 1:  # a step past the last count would wrap
            bounds = (as_value(self._k, bound, element).to(s32) for bound in (start, stop, step))
            with self.range(*bounds, name=name, unroll=unroll) as wide:
                yield wide.to(element)
            return
        last = as_value(self._k, stop, element)
        _check_last_count(start, last.constant, known, element)
        first = as_value(self._k, start, element)
        check_unroll(unroll, (first.constant, last.constant, each))
        rounds = (first.ir, last.ir, as_value(self._k, step, element).ir)
        counter = make_variable(self._k, first, name=name)
        self._k.places.multiples.count(counter._storage.slots[0], first.ir, rounds[2])
        if self._k.execution.is_same(*rounds):
            self._k.shared_counters.update(counter._storage.slots)
        header, body, latch, done = (self._k.new_block(part) for part in ("for", "for.body", "for.next", "for.end"))
        self._k.branch(header)
        before = dict(self._k.known.registers)
        with self._k.region("range") as region:
            region.executing, region.rounds = self._k.regions[-2].executing, rounds
            if steps_by_grid(rounds[2]):
                region.tiles = DEALT
            self._k.anchors.loops[header.name] = region.location, "" if name == _COUNTER else name
            self._k.execution.count(rounds, counter._storage.slots[0])
            self._k.enter(header)
            test = counter.value < last
            self._k.branch_if(test, body, done, rounds)
            self._k.execution.narrow(in_first_round(test.ir, rounds), holds=True)
            region.exit_block, region.next_block = done, latch
            self._k.enter(body)
            yield counter.value.named(name)
            self._k.branch(latch)
            self._k.enter(latch)
            counter += step
            self._k.branch(header)
            ask(latch, unroll, region.location)
        self._k.enter(done, _unchanged(before, region))

    @with_block
    def loop(self) -> Iterator[None]:
        """Repeat until break_if, break_ or return_ leaves."""
        self._k.check_live()
        body, done = self._k.new_block("loop"), self._k.new_block("loop.end")
        self._k.branch(body)
        before = dict(self._k.known.registers)
        with self._k.region("loop") as region:
            region.executing = self._k.regions[-2].executing
            region.exit_block, region.next_block = done, body
            self._k.anchors.loops[body.name] = region.location, ""
            self._k.enter(body)
            yield
            self._k.branch(body)
            if not region.left:
                rules.ENDLESS.fail(at=region.location)
        self._k.enter(done, _unchanged(before, region))

    def break_(self) -> None:
        """Leave the innermost loop."""
        loop = self._loop("break_")
        self._check_held("break_", loop)
        self._leave("break_", loop.exit_block)
        self._k.execution.leave(loop)
        loop.left = True

    def continue_(self) -> None:
        """Continue with the next iteration of the innermost loop."""
        loop = self._loop("continue_")
        self._check_held("continue_", loop)
        self._leave("continue_", loop.next_block)
        self._k.execution.leave(loop)
        loop.skipped = True

    def return_(self) -> None:
        """End the function, or else the kernel, for the threads that reach this line."""
        body = next((region for region in reversed(self._k.regions) if region.function is not None), None)
        if body is None or body.function is None:
            self.end(caller_location())
            return
        if body.function.results is not None:
            advice = "set a variable, k.var(...), and return it at the end of the function"
            named, wanted = body.function.name, body.function.results
            RESULT.fail(function=named, given="nothing by k.return_()", wanted=wanted, advice=advice)
        self._check_held("return_", body)
        body.done = body.done or self._k.new_block("returned")
        self._leave("return_", body.done)
        for region in self._k.regions[self._k.regions.index(body) + 1 :]:
            region.left = True
        self._k.execution.leave(body)

    @contextmanager
    def function(self, body: Body, *, apart: bool) -> Iterator[Region]:
        """The body of a device function, which `return_` leaves; in blocks of its own where it is `apart`.

        Values that it gives back live in the region around.
        """
        self._last_if = None
        before = dict(self._k.known.registers)
        around = self._k.regions[-1]
        first = self._k.new_block(body.name) if apart else None
        if first is not None:
            self._k.branch(first)
        with self._k.region("function") as region:
            region.function = body
            region.executing, region.crew, region.anchor = around.executing, around.crew, around.anchor
            if first is not None:
                self._k.enter(first, before)
            yield region
            if region.done is not None:
                self._k.branch(region.done)
        if region.done is not None:
            self._k.enter(region.done, _unchanged(before, region))
        else:
            self._k.rehome(region, around)
            if apart:
                done = self._k.new_block("returned")
                self._k.branch(done)
                self._k.enter(done, self._k.known.registers)
        self._last_if = None

    def end(self, place: Location | None) -> None:
        """End the kernel here; `place` is the user's line."""
        self._k.check_live()
        returned = self._k.function.function_type.return_type
        if not isinstance(returned, ir.VoidType):
            problem = f"k.return_() returns nothing, and {self._k.function.name} returns {returned}"
            advice = "return a value in blocks of your own, with the IRBuilder's ret"
            rules.ATTACH_BLOCK.fail(block=self._k.llvm.block.name, problem=problem, advice=advice)
        self._check_held("return_", None)
        with self._k.llvm.of_line(place):
            self._k.known.store(self._k.llvm)
            self._k.pseudo(RETURN, place=place)
            self._k.llvm.ret_void()
        for region in self._k.regions:
            region.left = True
        self._k.execution.leave(self._k.regions[0])
        self._k.exit_kind = "return_"

    def break_if(self, condition: Operand) -> None:
        """Leave the innermost loop where `condition` holds."""
        loop = self._loop("break_if")
        self._check_held("break_if", loop)
        self._leave_if(condition, loop.exit_block)
        self._k.execution.leave(loop)
        loop.left = True

    def continue_if(self, condition: Operand) -> None:
        """Continue with the next iteration of the innermost loop where `condition` holds."""
        loop = self._loop("continue_if")
        self._check_held("continue_if", loop)
        self._leave_if(condition, loop.next_block)
        self._k.execution.leave(loop)
        loop.skipped = True

    def return_if(self, condition: Operand) -> None:
        """End the kernel for the threads where `condition` holds."""
        with self.if_(condition):
            self.return_()

    def _has_content(self, block: ir.Block) -> bool:
        """Whether `block` has instructions or records, or a store is pending at its end."""
        recorded = self._k.machine.blocks.get(block.name)
        return bool(block.instructions or not self._k.known.is_stored or (recorded and recorded.instructions))

    def _leave(self, kind: str, block: ir.Block | None) -> None:
        self._k.check_live()
        assert block is not None
        self._k.branch(block)
        self._k.exit_kind = kind

    def _leave_if(self, condition: Operand, block: ir.Block | None) -> None:
        self._k.check_live()
        assert block is not None
        test = as_value(self._k, condition, pred)
        stay = self._k.new_block("stay")
        self._k.branch_if(test, block, stay)
        self._k.execution.narrow(test.ir, holds=False)
        self._k.enter(stay, self._k.known.registers)

    def _check_held(self, exit_kind: str, loop: Region | None) -> None:
        """Raises pipeline.left, or the block's own rule, where an exit from `loop`, or the kernel, leaves a block."""
        for region in reversed(self._k.regions):
            if region.held:
                call, place, rule = region.held[-1]
                rule.fail(exit=exit_kind, call=call, notes=(("the block begins here", place),))
            if region is loop:
                return

    def _loop(self, exit_kind: str) -> Region:
        for region in reversed(self._k.regions):
            if region.exit_block is not None:
                return region
            if region.function is not None:
                break  # a function leaves no loop of its caller
        rules.NO_LOOP.fail(exit=exit_kind)


@contextmanager
def holding(k: Core, call: str, rule: Rule = rules.HELD) -> Iterator[None]:
    """Mark a block that no thread may leave early, because its end emits code: an exit breaks the rule."""
    region, held = k.regions[-1], (call, caller_location(), rule)
    region.held.append(held)
    try:
        yield
    finally:
        region.held.remove(held)


def _unchanged(known: Known, region: Region) -> Known:
    """The storages that `region` did not write: their registers are unchanged after it."""
    return {storage: values for storage, values in known.items() if storage not in region.written}


def _merged(test: ir.Value, written: Collection[Storage], inside: Known, outside: Known) -> Known:
    """The values after an if of the one-register variables that either side has `written`.

    A side that ends in an exit contributes no value.
    """
    return {
        storage: [Merged(test, yes[0], no[0])]
        for storage in written
        if (yes := inside.get(storage)) and (no := outside.get(storage)) and len(yes) == len(no) == 1
    }


def _check_last_count(start: Operand, stop: Number | None, step: object, element: ElementType) -> None:
    """The counter goes one step past the last iteration; if that does not fit its type, it would wrap."""
    if not isinstance(stop, int) or not isinstance(step, int):
        return
    first = start._value().constant if isinstance(start, Arithmetic) else start
    last = first + -(-(stop - first) // step) * step if isinstance(first, int) else stop - 1 + step
    limit = (1 << element.bits - element.is_signed) - 1
    if last > limit:
        rules.RANGE_END.fail(stop=stop, step=step, last=last, element=element, limit=limit)

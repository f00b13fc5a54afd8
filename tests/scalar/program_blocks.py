"""Random statements of a program: variables that are set, branches, loops, arrays, and numbers of other threads.

NumPy runs all threads at once, each statement for those that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nvbackend.intrinsics.row.types import pred, s32
from tests.scalar import numbers
from tests.scalar.numbers import Array
from tests.scalar.program_values import THREADS, Machine, State, Values

DEPTH = 3
"""Operations in a value."""
_SHARED = 0.15
"""How often a statement outside of divergent blocks moves numbers between threads."""


@dataclass
class Round:
    """Threads that have left a loop, or the rest of this round."""

    broken: Array
    continued: Array


@dataclass(frozen=True)
class Statement:
    """`run` takes the threads that reach it, and gives those that go on after it."""

    lines: Sequence[str]
    emit: Callable[[Machine], None]
    run: Callable[[State, Array, Round | None], Array]


def emit_all(statements: Sequence[Statement], machine: Machine) -> None:
    """The builder writes them."""
    for each in statements:
        each.emit(machine)


def run_all(statements: Sequence[Statement], state: State, mask: Array, within: Round | None = None) -> Array:
    """NumPy runs them for the threads of a mask; those that go on afterwards."""
    for each in statements:
        if not mask.any():
            break
        mask = each.run(state, mask, within)
    return mask


def _indented(statements: Sequence[Statement]) -> list[str]:
    return [f"  {line}" for each in statements for line in each.lines]


class Blocks(Values):
    """Draws statements."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._loops = 0
        self._leaves = [False]
        """Whether threads may leave the loop around by themselves."""

    def block(self, size: int, depth: int, *, together: bool) -> list[Statement]:
        """A few statements; `together`: all threads reach them."""
        return [self._statement(depth, together=together) for _ in range(self._random.randint(1, size))]

    def _statement(self, depth: int, *, together: bool) -> Statement:
        if together and self._random.random() < _SHARED:
            return self._random.choice((self._exchange, self._shuffled))()
        makers: list[Callable[..., Statement]] = [self._assignment] * 4 + [self._update] * 2 + [self._store] * 2
        if self._leaves[-1]:
            makers.append(self._left)
        if depth and self._random.random() < 0.5:
            blocks: list[Callable[..., Statement]] = [self._branch, self._branch, self._range, self._loop]
            return self._random.choice(blocks)(depth - 1, together=together)
        return self._random.choice(makers)()

    def _assignment(self) -> Statement:
        place = self._random.randrange(len(self.elements))
        value = self.of(self.elements[place], DEPTH)

        def run(state: State, mask: Array, _: Round | None) -> Array:
            state.variables[place] = np.where(mask, value.rows(state), state.variables[place])
            return mask

        return Statement([f"v{place} = {value.text}"], lambda m: m.variables[place].set(value.emit(m)), run)

    def _update(self) -> Statement:
        place = self._random.randrange(len(self.elements))
        element = self.elements[place]
        name = self._random.choice("+-*" if element.is_float else "+-*^")
        value = self.of(element, DEPTH - 1)

        def emit(m: Machine) -> None:
            if name == "+":
                m.variables[place] += value.emit(m)
            elif name == "-":
                m.variables[place] -= value.emit(m)
            elif name == "*":
                m.variables[place] *= value.emit(m)
            else:
                m.variables[place] ^= value.emit(m)

        def run(state: State, mask: Array, _: Round | None) -> Array:
            new = numbers.binary(name, element, state.variables[place], value.rows(state))
            state.variables[place] = np.where(mask, new, state.variables[place])
            return mask

        return Statement([f"v{place} {name}= {value.text}"], emit, run)

    def _store(self) -> Statement:
        number = self._random.randrange(len(self.array_elements))
        place, value = self._place(1), self.of(self.array_elements[number], DEPTH - 1)

        def emit(m: Machine) -> None:
            m.arrays[number][place.emit(m)] = value.emit(m)

        def run(state: State, mask: Array, _: Round | None) -> Array:
            at, new = place.rows(state), value.rows(state)
            threads = np.nonzero(mask)[0]
            state.arrays[number][threads, at[threads]] = new[threads]
            return mask

        return Statement([f"a{number}[{place.text}] = {value.text}"], emit, run)

    def _exchange(self) -> Statement:
        """Through shared memory: each thread reads what another one has written."""
        place = self._random.randrange(len(self.elements))
        element = self.elements[place]
        factor, step = self._random.randrange(1, THREADS, 2), self._random.randrange(THREADS)

        def emit(m: Machine) -> None:
            thread = m.k.thread_id()
            m.k.barrier.sync()
            m.shared[element][thread] = m.variables[place].value
            m.k.barrier.sync()
            m.variables[place].set(m.shared[element][(thread * factor + step) & THREADS - 1])

        def run(state: State, mask: Array, _: Round | None) -> Array:
            assert mask.all()
            state.variables[place] = state.variables[place][(np.arange(THREADS) * factor + step) & THREADS - 1]
            return mask

        return Statement([f"v{place} = v{place} of thread * {factor} + {step}"], emit, run)

    def _shuffled(self) -> Statement:
        place = self._random.randrange(len(self.elements))
        lanes = self._random.choice((1, 2, 4, 8, 16, 31))

        def emit(m: Machine) -> None:
            m.variables[place].set(m.k.warp.shuffle(m.variables[place].value, "bfly", lanes))

        def run(state: State, mask: Array, _: Round | None) -> Array:
            assert mask.all()
            state.variables[place] = state.variables[place][np.arange(THREADS) ^ lanes]
            return mask

        return Statement([f"v{place} = v{place} of lane ^ {lanes}"], emit, run)

    def _left(self) -> Statement:
        """A break or a continue."""
        breaks = self._random.random() < 0.5
        condition = self.of(pred, 2)

        def emit(m: Machine) -> None:
            (m.k.break_if if breaks else m.k.continue_if)(condition.emit(m))

        def run(state: State, mask: Array, within: Round | None) -> Array:
            assert within is not None
            leaving = mask & condition.rows(state)
            if breaks:
                within.broken |= leaving
            else:
                within.continued |= leaving
            return mask & ~leaving

        return Statement([f"{'break' if breaks else 'continue'} if {condition.text}"], emit, run)

    def _branch(self, depth: int, *, together: bool) -> Statement:
        condition = self.of(pred, 2)
        first = self.block(3, depth, together=False)
        second = self.block(3, depth, together=False) if self._random.random() < 0.5 else []

        def emit(m: Machine) -> None:
            with m.k.if_(condition.emit(m)):
                emit_all(first, m)
            if second:
                with m.k.else_():
                    emit_all(second, m)

        def run(state: State, mask: Array, within: Round | None) -> Array:
            chosen = condition.rows(state)
            return run_all(first, state, mask & chosen, within) | run_all(second, state, mask & ~chosen, within)

        lines = [f"if {condition.text}:", *_indented(first), *(["else:", *_indented(second)] if second else [])]
        return Statement(lines, emit, run)

    def _range(self, depth: int, *, together: bool) -> Statement:
        """The bounds are constants, and the same for all threads, where all threads are together."""
        loop, self._loops = self._loops, self._loops + 1
        constant = together or self._random.random() < 0.3
        start, stop = (
            self._constant(s32, self._random.randrange(-2, 6)) if constant else self._masked(self.of(s32, 2), 7)
            for _ in range(2)
        )
        step, unroll = self._random.choice((1, 1, 2, 3)), self._random.choice((None, None, 2, 4, False))
        body = self._body(loop, depth, together=together)

        def emit(m: Machine) -> None:
            options = {} if unroll is None else {"unroll": unroll}
            with m.k.range(start.emit(m), stop.emit(m), step, **options) as i:
                m.counters[loop] = i
                emit_all(body, m)

        def run(state: State, mask: Array, _: Round | None) -> Array:
            count, last = start.rows(state).copy(), stop.rows(state).copy()
            left = np.zeros(THREADS, bool)
            while (active := mask & ~left & (count < last)).any():
                state.counters[loop] = count.copy()
                within = Round(np.zeros(THREADS, bool), np.zeros(THREADS, bool))
                run_all(body, state, active, within)
                left |= within.broken
                count = np.where(active, count + step, count).astype(np.int32)
            return mask

        head = f"for i{loop} in range({start.text}, {stop.text}, {step}):  # unroll={unroll}"
        return Statement([head, *_indented(body)], emit, run)

    def _body(self, loop: int, depth: int, *, together: bool) -> list[Statement]:
        self._counters.append(loop)
        self._leaves.append(not together)
        body = self.block(4, depth, together=together)
        self._leaves.pop()
        self._counters.pop()
        return body

    def _loop(self, depth: int, *, together: bool) -> Statement:
        """Until a condition holds, or some rounds are over."""
        loop, self._loops = self._loops, self._loops + 1
        most = self._random.randrange(1, 7)
        before, after = self._body(loop, depth, together=False), self._body(loop, depth, together=False)
        condition = self.of(pred, 2)

        def emit(m: Machine) -> None:
            rounds = m.k.var(0)
            with m.k.loop():
                m.counters[loop] = rounds.value
                m.k.break_if(m.counters[loop] >= most)
                rounds += 1
                emit_all(before, m)
                m.k.break_if(condition.emit(m))
                emit_all(after, m)

        def run(state: State, mask: Array, _: Round | None) -> Array:
            count, active = np.zeros(THREADS, np.int32), mask
            while (active := active & (count < most)).any():
                state.counters[loop] = count.copy()
                within = Round(np.zeros(THREADS, bool), np.zeros(THREADS, bool))
                on = run_all(before, state, active, within)
                on &= ~condition.rows(state)
                on = run_all(after, state, on, within)
                count = np.where(active, count + 1, count).astype(np.int32)
                active = on | within.continued
            return mask

        lines = [
            f"for i{loop} in range({most}):  # a loop",
            *_indented(before),
            f"  break if {condition.text}",
            *_indented(after),
        ]
        return Statement(lines, emit, run)

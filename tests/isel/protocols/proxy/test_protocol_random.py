"""Random kernels of right episodes, nested in loops and branches: nothing is said of them, and what is taken out is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nvbackend import KernelBuilder
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.isel.protocols.proxy.protocol import check_proxy_protocol
from tests.support.proxy_program import Program

TILES = 3


@dataclass(frozen=True)
class Episode:
    """Something is put into a tile and read from it: what is put there how, and read how."""

    tile: int
    filled: str
    read: str


@dataclass(frozen=True)
class Nest:
    """Episodes in a loop or a branch that every thread takes alike."""

    kind: str
    body: tuple[Episode | Nest, ...]


episodes = st.builds(
    Episode,
    st.integers(0, TILES - 1),
    st.sampled_from(["ordinary", "stmatrix", "load"]),
    st.sampled_from(["multiply", "store"]),
)
nodes = st.recursive(
    episodes,
    lambda inner: st.builds(Nest, st.sampled_from(["loop", "if"]), st.lists(inner, min_size=1, max_size=3).map(tuple)),
    max_leaves=6,
)
programs = st.lists(nodes, min_size=1, max_size=4)


class Emitter:
    """Writes a program; `without` is a pair of what is left out and of which episode, in the order of the text."""

    def __init__(self, without: tuple[str, int | None] | None = None) -> None:
        self.p = Program(tiles=TILES)
        self.accumulator = self.p.accumulator()
        self.without = without
        self.episode = -1

    def keeps(self, what: str) -> bool:
        return self.without is None or self.without not in ((what, self.episode), (what, None))

    def emit(self, program: Sequence[Episode | Nest]) -> None:
        for node in program:
            if isinstance(node, Episode):
                self.play(node)
            elif node.kind == "loop":
                with self.p.k.range(self.p.n):
                    self.emit(node.body)
            else:
                with self.p.k.if_(self.p.n > 1):
                    self.emit(node.body)

    def play(self, episode: Episode) -> None:
        self.episode += 1
        p, tile = self.p, self.p.tiles.at(episode.tile)
        if episode.filled == "load":
            p.load(tile)
            if self.keeps("wait"):
                p.k.mbarrier.wait(p.full, 0)
        else:
            if episode.filled == "ordinary":
                p.write(tile)
            else:
                p.stmatrix(tile)
            if self.keeps("fence"):
                p.k.fence.proxy_async()
            p.k.barrier.sync()
        if episode.read == "multiply":
            with p.k.wgmma.group():
                p.mma(self.accumulator, tile, tile)
        else:
            p.store(tile, wait=self.keeps("drain"))
        p.k.barrier.sync()


def found(program: Sequence[Episode | Nest], without: tuple[str, int | None] | None = None) -> list[str]:
    emitter = Emitter(without)
    emitter.emit(program)
    return [one.rule_id for one in emitter.p.found()]


def flat(program: Sequence[Episode | Nest]) -> list[Episode]:
    return [episode for node in program for episode in ([node] if isinstance(node, Episode) else flat(node.body))]


@settings(max_examples=60, deadline=None)
@given(programs)
def test_nothing_is_said_of_right_kernels(program: list[Episode | Nest]) -> None:
    assert found(program) == []


@settings(max_examples=60, deadline=None)
@given(programs, st.integers(0, 23))
def test_a_fence_or_a_wait_that_is_taken_out_is_missed(program: list[Episode | Nest], chosen: int) -> None:
    """Each episode orders itself, so whatever the others do, its own reads are then the ones that nothing orders."""
    all_of_them = flat(program)
    chosen %= len(all_of_them)
    what, rule = {"load": ("wait", "proxy.read-before-wait")}.get(
        all_of_them[chosen].filled, ("fence", "proxy.missing-fence")
    )
    assert found(program, (what, chosen)) == [rule]


@settings(max_examples=40, deadline=None)
@given(programs)
def test_stores_that_nobody_waits_for_are_missed(program: list[Episode | Nest]) -> None:
    assume(any(episode.read == "store" for episode in flat(program)))
    said = found(program, ("drain", None))
    assert said
    assert set(said) <= {"proxy.write-in-flight", "proxy.store-not-waited"}


def machine(rounds: int) -> MachineFunction:
    """`rounds` episodes of each kind, one behind the other."""
    emitter = Emitter()
    emitter.emit(
        [Episode(number % TILES, "ordinary", read) for number in range(rounds) for read in ("multiply", "store")]
    )
    emitter.p.found()
    return emitter.p.k.machine


def test_the_work_grows_with_the_text() -> None:
    """Counted in transfers and in the runs that states hold, not in seconds."""
    from nvbackend.isel.flow.dataflow import solve
    from nvbackend.isel.protocols.proxy.protocol import _analysis, reduce_function
    from nvbackend.isel.protocols.proxy.state import HAZARDS, State

    def held(state: State) -> int:
        return len(state.active) + sum(map(len, state.done.values()))

    def work(rounds: int) -> int:
        reduced = reduce_function(machine(rounds))
        solution = solve(reduced.function, _analysis(reduced, frozenset(HAZARDS)))
        return solution.transfers + sum(held(state) for _, state in solution.visit())

    few, many = work(8), work(32)
    assert many <= 4.5 * few


def test_an_empty_kernel() -> None:
    k = KernelBuilder("kernel", "sm_90a", threads=128)
    k.return_()
    assert check_proxy_protocol(k.machine) == []

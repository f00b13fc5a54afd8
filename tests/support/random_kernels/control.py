"""Random control flow: branches, loops, exits, barriers, in any nesting."""

from __future__ import annotations

from nvbackend.intrinsics.row.types import pred, s32
from tests.support.random_kernels import memory, scalars
from tests.support.random_kernels.writer import Writer

DEEPEST = 5


def body(w: Writer, most: int = 4) -> None:
    """Statements of a block."""
    if w.depth >= DEEPEST:
        w.some(scalars.STATEMENTS, 1)
        return
    together = not w.divergent or w.odd()
    w.some(EVERYWHERE + (TOGETHER if together else []), w.rng.randint(0, most))


def branch(w: Writer) -> None:
    """if_, and now and then else_. The condition is of threads or of all of them together."""
    w.divergent += 1
    entered = w.inside(lambda _: body(w), w.k.if_, w.value(pred))
    if entered and w.chance(0.4):
        w.inside(lambda _: body(w), w.k.else_)
    w.divergent -= 1
    if not entered and w.chance(0.1):
        w.inside(lambda _: body(w), w.k.else_)


def counted(w: Writer) -> None:
    """range, of numbers or values."""
    element = w.element("s32", "s32", "s32", "u32", "s64")
    bounds = {
        0: lambda: (w.count(0, 1, 4, 10, 100),),
        1: lambda: (w.operand(element), w.operand(element)),
        2: lambda: (w.count(0, 3), w.operand(s32), w.count(1, 2, 7, 32)),
        3: lambda: (w.value(element), w.value(element), w.operand(element)),
    }[w.rng.randrange(4)]()

    def round_(counter: object) -> None:
        w.keep(counter)
        w.loops += 1
        body(w)
        if w.chance(0.2):
            left(w)
        w.loops -= 1

    uniform = all(isinstance(one, int) for one in bounds)
    w.divergent += not uniform
    w.inside(round_, w.k.range, *bounds)
    w.divergent -= not uniform


def endless(w: Writer) -> None:
    """loop, left by some exit."""

    def round_(_: object) -> None:
        w.loops += 1
        body(w, 2)
        if not w.odd():
            w.call(w.k.break_if, w.value(pred))
        body(w, 2)
        w.loops -= 1

    w.divergent += 1
    w.inside(round_, w.k.loop)
    w.divergent -= 1


def left(w: Writer) -> None:
    """An exit of any kind; statements after it are refused, and leave the kernel as it was."""
    k = w.k
    conditional = [k.return_if, k.break_if, k.continue_if] if w.loops else [k.return_if]
    plain = [k.break_, k.continue_, k.return_] if w.loops and w.depth > 1 else [k.return_if]
    if w.odd():
        w.call(w.one(k.break_, k.continue_, k.return_, k.break_if), *w.one((), (True,)))
    elif w.chance(0.7) or plain == [k.return_if]:
        w.divergent += 100 * (not w.depth)  # some threads may be gone: no more barriers
        w.call(w.rng.choice(conditional), w.value(pred))
    else:
        w.call(w.rng.choice(plain))


def one_thread(w: Writer) -> None:
    w.divergent += 1
    w.inside(lambda _: body(w), w.k.one_thread, w.count(0, 0, 0, w.threads // 32 - 1))
    w.divergent -= 1


def barrier(w: Writer) -> None:
    """Barriers of the CTA, named ones, of some of its threads, and of the cluster."""
    k = w.k
    match w.rng.randrange(8):
        case 0 | 1 | 2:
            w.call(k.barrier.sync)
        case 3:
            w.call(k.barrier.sync, w.count(1, 2, 15), w.count(w.threads), aligned=w.chance(0.8))
        case 4:
            operation = w.one("popc", "and", "or")
            w.keep(w.call(k.barrier.reduce, operation, w.value(pred), w.count(0, 1)))
        case 5:
            w.call(k.cluster.sync, **w.one({}, {}, {"relaxed": True}, {"scope": "cta"}))
        case 6:
            w.call(k.fence.membar, w.one("cta", "gl", "sys"))
        case 7:
            w.call(k.barrier.arrive, w.count(3), w.count(w.threads))
            w.call(k.barrier.sync, w.count(3), w.count(w.threads))


def torn(w: Writer) -> None:
    """A block that an exception leaves; the kernel cannot be finished any more."""
    block = w.call(w.k.if_, w.value(pred))
    if block is None or not hasattr(block, "__enter__"):
        return
    refused = sum(w.refused.values())
    w.call(block.__enter__)
    if sum(w.refused.values()) == refused:
        error = ValueError("the user's own")
        try:
            block.__exit__(ValueError, error, error.__traceback__)
        except ValueError:
            return


def hostile_exit(w: Writer) -> None:
    """Something rare: a torn block, an else_ alone, a second finish."""
    if not w.odd():
        return
    match w.rng.randrange(4):
        case 0:
            torn(w)
        case 1:
            w.inside(lambda _: body(w), w.k.else_)
        case 2:
            w.call(w.k.if_, w.value(pred))  # never entered
        case 3:
            left(w)


EVERYWHERE = [
    *((6 * weight / 10, each) for weight, each in (*scalars.STATEMENTS, *memory.STATEMENTS)),
    *((2.5, branch), (1.5, counted), (0.8, endless), (0.5, left), (0.5, hostile_exit)),
]
TOGETHER = [
    *((3 * weight, each) for weight, each in scalars.TOGETHER),
    *((1.5 * weight, each) for weight, each in memory.TOGETHER),
    *((2, barrier), (1, one_thread)),
]

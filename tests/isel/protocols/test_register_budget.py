"""setmaxnreg.largest against ptxas, which compares every dec with the largest inc of the program (C7406)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from nvbackend import i32
from nvbackend.builder.kernel.kernel import KernelBuilder, kernel_text
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import gather
from nvbackend.signature import Parameter, Scalar
from tests.support.ptxas import assemble

COUNTS = (24, 40, 64)
THREADS = 384
Program = Callable[[KernelBuilder, int, int, int], None]


def arms(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(dec)
    with k.else_():
        with k.if_(k.warpgroup_id() == 1):
            k.setmaxnreg.inc(inc)
        with k.else_():
            k.setmaxnreg.inc(other)


def in_turn(k, dec, inc, other):
    k.setmaxnreg.dec(dec)
    k.setmaxnreg.inc(inc)
    k.setmaxnreg.dec(other)


def in_a_loop(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0), k.range(k.arguments[0]):
        k.setmaxnreg.dec(dec)
        k.setmaxnreg.inc(inc)
    with k.else_():
        k.setmaxnreg.dec(other)


def after_an_exit(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(dec)
        k.return_()
    k.setmaxnreg.dec(other)
    k.setmaxnreg.inc(inc)


def only_down(k, dec, inc, other):
    with k.if_(k.warpgroup_id() == 0):
        k.setmaxnreg.dec(dec)
    with k.else_():
        k.setmaxnreg.dec(max(inc, other))


@pytest.mark.parametrize("program", [arms, in_turn, in_a_loop, after_an_exit, only_down])
def test_a_count_that_stays_above_every_inc_is_what_ptxas_refuses(program: Program) -> None:
    """What nvbackend takes, ptxas takes, and what it refuses by this rule, ptxas refuses for this reason."""
    verdicts = []
    for counts in itertools.product(COUNTS, repeat=3):
        k = KernelBuilder("kernel", "sm_90a", threads=THREADS, min_ctas=1, parameters=[Parameter("n", Scalar(i32))])
        program(k, *counts)
        refused = {one.rule_id for one in gather(k.finish)}
        fine, said = assemble(compile_ir(kernel_text(k.module, k), k.target).ptx, "sm_90a")
        verdicts.append(refused)
        assert refused or fine, (counts, said)
        if "setmaxnreg.largest" in refused:
            assert "C7406" in said, (counts, said)
    assert verdicts.count(set()) > 2
    assert ({"setmaxnreg.largest"} in verdicts) == (program in (arms, in_a_loop, after_an_exit))

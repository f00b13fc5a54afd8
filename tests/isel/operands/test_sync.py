"""The rules of the general families: each kept and broken, and their limits against what ptxas says of the numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nvbackend.diagnostics import DiagnosticError, Severity
from nvbackend.isel.operands.sync import (
    check_arrival_count,
    check_barrier_crowd,
    check_barrier_id,
    check_barrier_threads,
    check_bulk_size,
    check_cluster_size,
    check_cluster_target,
    check_parity,
    check_register_count,
    check_setmaxnreg_target,
    check_special_register,
    check_transaction_count,
)
from nvbackend.isel.target.target import Target, target_names
from tests.support.ptxas import assemble
from tests.support.rule_catalogue import rules_of

Check = Callable[..., object]

KEPT_AND_BROKEN: list[tuple[str, Check, object, object, str]] = [
    ("tma.bulk-size", check_bulk_size, 48, 40, "a positive multiple of 16 bytes, not 40"),
    ("setmaxnreg.range", check_register_count, 232, 230, "24 to 256 registers by 8, not 230"),
    (
        "setmaxnreg.target",
        check_setmaxnreg_target,
        Target.parse("sm_90a"),
        Target.parse("sm_90"),
        "sm_90 at PTX 9.0 does not support setmaxnreg.inc.sync.aligned.u32",
    ),
    ("barrier.id", check_barrier_id, 15, 16, "named barriers 0 to 15, not 16"),
    ("barrier.threads", check_barrier_threads, 96, 100, "100 threads are not a positive multiple of 32"),
    ("mbarrier.count", check_arrival_count, 1, 0, "1 to 1048575 arrivals a phase, not 0"),
    ("mbarrier.expect-tx", check_transaction_count, 0, 1 << 20, "0 to 1048575 bytes, not 1048576"),
    ("mbarrier.parity", check_parity, 1, 2, "0 or 1, not 2"),
    ("cluster.size", check_cluster_size, 16, 17, "1 to 16 CTAs, not 17"),
    (
        "register.name",
        check_special_register,
        "tid.x",
        "tid.w",
        "'tid.w' is not a special register that nvbackend reads; the nearest is tid.z",
    ),
    (
        "cluster.target",
        check_cluster_target,
        Target.parse("sm_90"),
        Target.parse("sm_80"),
        "sm_80 at PTX 9.0 has no clusters",
    ),
    (
        "barrier.crowd",
        lambda coming: check_barrier_crowd(64, coming),
        64,
        65,
        "65 threads come to this barrier, and it opens for every 64",
    ),
]


@pytest.mark.parametrize(("rule_id", "check", "good", "bad", "text"), KEPT_AND_BROKEN)
def test_a_rule_passes_what_keeps_it_and_names_what_breaks_it(
    rule_id: str, check: Check, good: object, bad: object, text: str
) -> None:
    check(good)
    with pytest.raises(DiagnosticError) as raised:
        check(bad)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.rule_id == rule_id
    assert text in diagnostic.message
    assert diagnostic.fix
    assert diagnostic.location is not None
    assert diagnostic.location.file == __file__


def test_every_rule_of_the_module_has_a_case_here() -> None:
    cases = {case[0] for case in KEPT_AND_BROKEN} | {"cluster.portable-size"}
    assert {rule.id for rule in rules_of("isel.operands.sync")} == cases


def test_a_cluster_beyond_the_portable_size_is_a_warning() -> None:
    assert check_cluster_size(8) == ()
    (warning,) = check_cluster_size(9)
    assert warning.severity is Severity.WARNING
    assert "9 CTAs" in warning.message
    assert "at most 8" in warning.fix


@pytest.mark.parametrize(("given", "nearest"), [(0, 24), (30, 32), (27, 24), (1000, 256)])
def test_the_fix_names_the_nearest_register_count(given: int, nearest: int) -> None:
    with pytest.raises(DiagnosticError, match=f"fix: use {nearest}\n"):
        check_register_count(given)


def test_the_fix_of_a_target_rule_names_targets_that_work() -> None:
    with pytest.raises(DiagnosticError) as raised:
        check_setmaxnreg_target(Target.parse("sm_100"))
    fix = raised.value.diagnostics[0].fix
    named = [name for name in target_names() if f" {name}," in fix]
    assert named[0] == "sm_90a"
    assert {name[-1] for name in named} == {"a", "f"}


def _keeps(check: Check, value: int) -> bool:
    try:
        check(value)
    except DiagnosticError:
        return False
    return True


def _ptxas_takes(instruction: str) -> bool:
    body = f".reg .b32 %r<2>; .reg .b64 %rd<2>; .reg .pred %p<2>; mov.b32 %r1, 64; mov.b64 %rd1, 64; {instruction};"
    text = f".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry kernel() {{ {body} ret; }}\n"
    return assemble(text, "sm_90a")[0]


@pytest.mark.parametrize(
    ("check", "instruction", "values"),
    [
        (check_register_count, "setmaxnreg.inc.sync.aligned.u32 {}", (16, 24, 28, 256, 264)),
        (check_barrier_id, "bar.sync {}", (0, 15, 16)),
        (check_barrier_threads, "bar.arrive 0, {}", (0, 32, 33, 1024)),
        (check_arrival_count, "mbarrier.init.shared.b64 [%r1], {}", (0, 1, (1 << 20) - 1, 1 << 20)),
        (check_parity, "mbarrier.try_wait.parity.shared.b64 %p1, [%r1], {}", (0, 1, 2)),
        (check_bulk_size, "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], {}", (16, 17, 32)),
    ],
)
def test_a_limit_is_where_ptxas_draws_it(check: Check, instruction: str, values: tuple[int, ...]) -> None:
    assert [_keeps(check, value) for value in values] == [_ptxas_takes(instruction.format(value)) for value in values]


@pytest.mark.parametrize(("size", "rounded"), [(-16, 16), (0, 16), (1, 16), (15, 16), (17, 32), (40, 48)])
def test_a_bulk_copy_moves_something(size: int, rounded: int) -> None:
    """ptxas takes 0, with which a copy does nothing and completes no bytes."""
    with pytest.raises(DiagnosticError, match=f"round the size up to {rounded},") as raised:
        check_bulk_size(size)
    assert f"positive multiple of 16 bytes, not {size}" in raised.value.diagnostics[0].message


@pytest.mark.parametrize("threads", [-32, 0, 1056])
def test_barrier_threads_that_ptxas_lets_through_are_refused(threads: int) -> None:
    """bar.sync takes any multiple of 32 from ptxas, zero and more than a CTA holds included."""
    assert not _keeps(check_barrier_threads, threads)

"""Other spellings of instructions as PTX, axes crossed, from the PTX ISA's syntax: state spaces, `.cta`, defaults.

Each variant comes with how its row is found: by its spelling and operand names among the rows of `spellings` and of
the modules that those come from. What has no row is illegal.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import product

from nvbackend.intrinsics import spellings
from nvbackend.intrinsics.copy import async_store, cache_control, tensormap
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import cluster, mbarrier, mbarrier_phases
from tests.support.async_text import COMPLETES, SCOPES, Variant, register_list

SPACES = ("", ".shared", ".shared::cta", ".shared::cluster")
QUALIFIERS = ("", *(f".{one}.{scope}" for one in ("release", "relaxed", "acquire") for scope in ("cta", "cluster")))


@functools.cache
def _rows() -> dict[tuple[str, int, bool], Row]:
    """Rows by spelling, number of registers, and whether a result goes to the sink."""
    modules = (mbarrier, mbarrier_phases, sync, async_store, cache_control, cluster, tensormap, spellings)
    return {
        (row.ptx, sum(one.count for one in row.operands), "_," in str(row.lowering)): row
        for module in modules
        for row in module.rows()
        if not row.axes.get("blocking")
    }


def _found(ptx: str, registers: int, sink: bool) -> Row:
    if (ptx, registers, sink) not in _rows():
        raise NoSuchRow(ptx)
    return _rows()[ptx, registers, sink]


def _variant(ptx: str, operands: str, *, registers: int | None = None) -> Variant:
    """The statement; a sink is no register, and neither is a number."""
    given = [one for one in operands.replace("{", "").replace("}", "").split(", ") if one not in ("", "_", "0")]
    count = len(given) if registers is None else registers
    return Variant(
        f"{ptx} {operands};" if operands else f"{ptx};", lambda: _found(ptx, count, operands.startswith("_"))
    )


def mbarriers() -> Iterator[Variant]:
    """Every operation on an mbarrier, in each state space."""
    for space in SPACES:
        at = "[%r1]" if space else "[%rd1]"
        yield _variant(f"mbarrier.init{space}.b64", f"{at}, %r2")
        yield _variant(f"mbarrier.inval{space}.b64", at)
        yield from (_variant(f"cp.async.mbarrier.arrive{one}{space}.b64", at) for one in ("", ".noinc"))
        for action, given, state in product(("arrive", "arrive_drop"), QUALIFIERS, ("%rd3", "_")):
            yield _variant(f"mbarrier.{action}{given}{space}.b64", f"{state}, {at}")
            yield _variant(f"mbarrier.{action}{given}{space}.b64", f"{state}, {at}, %r2")
            yield _variant(f"mbarrier.{action}.expect_tx{given}{space}.b64", f"{state}, {at}, %r2")
            yield _variant(f"mbarrier.{action}.noComplete{given}{space}.b64", f"{state}, {at}, %r2")
        for operation, given in product(("expect_tx", "complete_tx"), QUALIFIERS):
            yield _variant(f"mbarrier.{operation}{given}{space}.b64", f"{at}, %r2")
        for kind, given, hint in product(("test_wait", "try_wait"), QUALIFIERS, ("", ", %r4")):
            yield _variant(f"mbarrier.{kind}{given}{space}.b64", f"%p1, {at}, %rd3{hint}")
            yield _variant(f"mbarrier.{kind}.parity{given}{space}.b64", f"%p1, {at}, %r3{hint}")


def barriers() -> Iterator[Variant]:
    """bar and barrier, by all of their names; membar and fence with and without what is the default."""
    for name, cta, aligned in product(("bar", "barrier"), ("", ".cta"), ("", ".aligned")):
        for count in ("", ", %r2"):
            yield _variant(f"{name}{cta}.sync{aligned}", f"%r1{count}")
            yield _variant(f"{name}{cta}.red.popc{aligned}.u32", f"%r3, %r1{count}, %p1")
            yield from (
                _variant(f"{name}{cta}.red.{operation}{aligned}.pred", f"%p2, %r1{count}, %p1")
                for operation in ("and", "or", "xor")
            )
        yield _variant(f"{name}{cta}.arrive{aligned}", "%r1, %r2")
    yield from (_variant(f"fence.{scope}", "") for scope in (*SCOPES, "gl"))
    yield from (_variant(f"membar.{level}", "") for level in (*SCOPES, "gl"))
    for name, kind in product(
        ("fence", "membar"), ("alias", "async", *(f"async{one}" for one in (".global", *SPACES)))
    ):
        yield _variant(f"{name}.proxy.{kind}", "")


def addresses() -> Iterator[Variant]:
    """mapa and getctarank of every address; stores to a cluster and to global memory without their state space."""
    for space, bits in product(("", ".shared", ".shared::cta", ".shared::cluster"), (16, 32, 64)):
        one, other = (f"%r{place}" if bits == 32 else f"%rd{place}" for place in (1, 2))
        yield _variant(f"mapa{space}.u{bits}", f"{one}, {other}, %r3")
        yield _variant(f"getctarank{space}.u{bits}", f"%r3, {one}")
    for weak, space, vector, element in product(
        ("", ".weak"), ("", ".shared::cluster"), (1, 2, 4), ("b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64")
    ):
        length, (at, bar) = f".v{vector}" if vector > 1 else "", ("[%r1]", "[%r2]") if space else ("[%rd1]", "[%rd2]")
        values = register_list(element, vector)
        yield _variant(f"st.async{weak}{space}.{COMPLETES}{length}.{element}", f"{at}, {values}, {bar}")
    elements = ("b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s64", "f32", "f64", "f16")
    for mmio, scope, space, element in product(("", ".mmio"), SCOPES, ("", ".global"), elements):
        values = register_list("b16" if element[1:] == "16" else element, 1)
        yield _variant(f"st.async{mmio}.release.{scope}{space}.{element}", f"[%rd1], {values}")
    for mmio, scope, space, element in product(
        ("", ".mmio"), SCOPES, ("", ".global"), ("b32", "u32", "s32", "u64", "s64", "f32")
    ):
        values = register_list(element, 1)
        yield _variant(f"red.async{mmio}.release.{scope}{space}.add.{element}", f"[%rd1], {values}")
    for operation, element in (("add", "u32"), ("add", "u64"), ("min", "s32"), ("xor", "b32"), ("inc", "u32")):
        values = register_list(element, 1)
        yield _variant(f"red.async.relaxed.cluster.{COMPLETES}.{operation}.{element}", f"[%rd1], {values}, [%rd2]")
    for weak, space in product(("", ".weak"), ("", ".shared::cta", ".shared", ".global")):
        yield _variant(f"st.bulk{weak}{space}", f"[{'%r1' if 'shared' in space else '%rd1'}], %rd2, 0", registers=2)
    for space in ("", ".const", ".param", ".global", ".shared"):
        yield _variant(f"prefetch{space}.tensormap", "[%rd1]")


FAMILIES = {"mbarrier_spaces": mbarriers, "barrier_names": barriers, "addresses": addresses}
_SINK = (
    "a result is not wanted (`_`) of barriers in shared::cluster or at a generic address; of this CTA's, shared::cta"
)
_MMIO = "ptxas of CUDA 12, which alone knows sm_101, took mmio at gpu scope; the PTX ISA has it at system scope"
UNDOCUMENTED = {
    **{
        each.text: _SINK
        for each in mbarriers()
        if " _," in each.text and (".shared.b64" in each.text or ".noComplete" in each.text)
    },
    **{each.text: _MMIO for each in addresses() if ".async.mmio.release.gpu." in each.text},
    "membar.proxy.async;": "ptxas of CUDA 12 refuses the older name, and fence.proxy.async is the same instruction",
}
"""What ptxas takes and no row stands for, and why."""

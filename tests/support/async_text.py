"""The general families as PTX, axes crossed, from the PTX ISA's syntax; each variant with how its row is asked for.

A variant that the tables have no row for is asked for all the same: what has no row is illegal. Other spellings of the
same instruction (`.shared::cta` for `.shared`, generic addresses, `bar.cta.red` for `bar.red`) are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from nvbackend.intrinsics.copy import async_store, cache_control, cp_async, matrix_move, tensormap, tma_bulk
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.sync import barriers as sync
from nvbackend.intrinsics.sync import launch_control, mbarrier, mbarrier_phases, warp

DECLARATIONS = (
    ".reg .b64 %rd<24>; .reg .b32 %r<24>; .reg .b16 %rs<24>; .reg .b8 %b<24>; "
    ".reg .pred %p<4>; .reg .f32 %f<24>; .reg .f64 %fd<24>;"
)
TYPES = ("b16", "b32", "b64", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64")
STORED = ("b8", "u8", "s8", "b16", *TYPES[1:7], "f32", "f64")
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
SCOPES = ("cta", "cluster", "gpu", "sys")
COMPLETES = "mbarrier::complete_tx::bytes"


@dataclass(frozen=True, slots=True)
class Variant:
    """A PTX statement, and the row that it would be: raises NoSuchRow where there is none."""

    text: str
    row: Callable[[], Row]


def _register(element: str, number: int) -> str:
    prefix = {"f32": "%f", "f64": "%fd"}.get(element)
    width = element.lstrip("bufs")
    return f"{prefix or {'8': '%b', '16': '%rs', '32': '%r', '64': '%rd'}[width]}{number}"


def register_list(element: str, count: int) -> str:
    """Registers of a type's kind, braced where there are several. 8-bit elements have registers of 8 bits."""
    if element in ("e5m2", "e4m3"):
        return _list([f"%b{index}" for index in range(count)])
    kind = "b16" if element in ("f16", "bf16", "e5m2x2", "e4m3x2") else "b32" if "x" in element else element
    return _list([_register(kind, 2 + index) for index in range(count)])


def _list(registers: list[str]) -> str:
    return "{" + ", ".join(registers) + "}" if len(registers) > 1 else registers[0]


def bulk() -> Iterator[Variant]:
    """cp.async.bulk and cp.reduce.async.bulk."""
    for hint, multicast, space in product((False, True), (False, True), ("cta", "cluster")):
        name, policy = (".L2::cache_hint", ", %rd2") if hint else ("", "")
        cast, mask = (".multicast::cluster", ", %rs1") if multicast else ("", "")
        yield Variant(
            f"cp.async.bulk.shared::{space}.global.{COMPLETES}{cast}{name} [%r1], [%rd1], %r3, [%r2]{mask}{policy};",
            lambda m=multicast, h=hint, s=space: tma_bulk.load_bulk(m, h, s),
        )
    for hint, masked in product((False, True), (False, True)):
        name, policy = (".L2::cache_hint", ", %rd2") if hint else ("", "")
        cp, mask = (".cp_mask", ", %rs1") if masked else ("", "")
        yield Variant(
            f"cp.async.bulk.global.shared::cta.bulk_group{name}{cp} [%rd1], [%r1], %r3{policy}{mask};",
            lambda h=hint, m=masked: tma_bulk.store_bulk(h, m),
        )
    for operation, element, rounding in product(OPERATIONS, TYPES, ("", ".noftz")):
        # Only an addition spells how it rounds subnormals, and has to.
        wanted = ".noftz" if operation == "add" and element in ("f16", "bf16") else ""
        known = element if rounding == wanted else f"{element} with {rounding}"
        for hint in (False, True):
            name, policy = (".L2::cache_hint", ", %rd2") if hint else ("", "")
            yield Variant(
                f"cp.reduce.async.bulk.global.shared::cta.bulk_group{name}.{operation}{rounding}.{element} "
                f"[%rd1], [%r1], %r3{policy};",
                lambda o=operation, e=known, h=hint: tma_bulk.reduce_bulk("global", o, e, h),
            )
        yield Variant(
            f"cp.reduce.async.bulk.shared::cluster.shared::cta.{COMPLETES}.{operation}{rounding}.{element} "
            "[%r1], [%r2], %r3, [%r4];",
            lambda o=operation, e=known: tma_bulk.reduce_bulk("cluster", o, e),
        )


def tensor_maps() -> Iterator[Variant]:
    """tensormap.replace, its publication and its fences."""
    registers = {"rank": False, "global_address": False} | dict.fromkeys(
        ("box_dim", "global_dim", "global_stride", "element_stride"), True
    )
    for space, width in product(("global", "shared::cta"), ("b32", "b64")):
        address = "[%rd1]" if space == "global" else "[%r1]"
        for field, ordinal in registers.items():
            wide = field in ("global_address", "global_stride")
            known = field if wide == (width == "b64") else f"{field} of {width}"
            place = "2, " if ordinal else ""
            yield Variant(
                f"tensormap.replace.tile.{field}.{space}.b1024.{width} {address}, {place}{_register(width, 3)};",
                lambda f=known, s=space: tensormap.replace(f, s),
            )
        for field, value in product(
            ("elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"), range(18)
        ):
            yield Variant(
                f"tensormap.replace.tile.{field}.{space}.b1024.{width} {address}, {value};",
                lambda f=field, s=space, v=value, w=width: _field_with(f, s, v, w),
            )
    for scope, semantics in product(SCOPES, ("acquire", "release", "acq_rel")):
        where = " [%rd1], 128" if semantics == "acquire" else ""
        yield Variant(
            f"fence.proxy.tensormap::generic.{semantics}.{scope}{where};",
            lambda m=semantics, s=scope: tensormap.fence(m, s),
        )
        name = f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.{semantics}.{scope}.sync.aligned"
        known = scope if semantics == "release" else semantics
        yield Variant(f"{name} [%rd1], [%r1], 128;", lambda s=known: tensormap.copy_and_publish(s))


def _field_with(field: str, space: str, value: int, width: str) -> Row:
    """The row of a field that takes `value`; later values have rows of their own."""
    if width != "b32":
        return tensormap.replace(f"{field} of {width}", space)
    for name in (field, f"packed_{field}", f"wide_{field}"):
        if name in tensormap.FIELDS:
            row = tensormap.replace(name, space)
            if value in (row.immediates[-1].values or ()):
                return row
    return tensormap.replace(f"{field} = {value}", space)


def barriers() -> Iterator[Variant]:
    """mbarrier arrivals that return a state, waits and transactions."""
    qualifiers = (None, *product(("release", "relaxed", "acquire"), ("cta", "cluster", "gpu")))
    for given, drop in product(qualifiers, (False, True)):
        dotted = "".join(f".{each}" for each in given or ())
        action = "arrive_drop" if drop else "arrive"
        for expect, counted in ((False, False), (False, True), (True, True), (True, False)):
            name = f"mbarrier.{action}{'.expect_tx' if expect else ''}{dotted}.shared.b64"
            # expect_tx always has its one operand, the bytes.
            tail = ", %r2;" if counted else ";"
            if expect and not counted:
                continue
            yield Variant(
                f"{name} %rd3, [%r1]{tail}",
                lambda q=given, d=drop, e=expect, c=counted: _arrival(q, d, e, c),
            )
        yield Variant(
            f"mbarrier.{action}.noComplete{dotted}.shared.b64 %rd3, [%r1], %r2;",
            lambda q=given, d=drop: mbarrier_phases.arrive_no_complete(q, drop=d),
        )
    for given, kind, parity, hint in product(qualifiers, ("test_wait", "try_wait"), (False, True), (False, True)):
        dotted = "".join(f".{each}" for each in given or ())
        phase = "%r3" if parity else "%rd3"
        yield Variant(
            f"mbarrier.{kind}{'.parity' if parity else ''}{dotted}.shared.b64 %p1, [%r1], {phase}"
            f"{', %r4' if hint else ''};",
            lambda q=given, k=kind, p=parity, h=hint: mbarrier_phases.wait(
                k, "parity" if p else "state", q, time_hint=h
            ),
        )
    for operation, space, scope in product(("expect_tx", "complete_tx"), ("cta", "cluster"), (None, *SCOPES)):
        name = f"mbarrier.{operation}{f'.relaxed.{scope}' if scope else ''}"
        yield Variant(
            f"{name}.{'shared' if space == 'cta' else 'shared::cluster'}.b64 [%r1], %r2;",
            lambda o=operation, p=space, c=scope: mbarrier_phases.transaction(o, p, c),
        )


def _arrival(qualifiers: tuple[str, str] | None, drop: bool, expect: bool, counted: bool) -> Row:
    if qualifiers is None and not (drop or expect or counted):
        return mbarrier.arrive_state()
    return mbarrier_phases.arrive_state(qualifiers, drop=drop, expect_tx=expect, counted=counted and not expect)


def matrices() -> Iterator[Variant]:
    """ldmatrix and stmatrix."""
    shapes, elements = ("m8n8", "m16n16", "m8n16", "m16n8"), ("b16", "b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64")
    for shape, element, count, transposed in product(shapes, elements, (1, 2, 4, 8), (False, True)):
        name = f"matrix.sync.aligned.{shape}.x{count}{'.trans' if transposed else ''}.shared.{element}"
        loaded = _list([f"%r{2 + index}" for index in range(count * (2 if shape == "m16n16" else 1))])
        stored = _list([f"%r{2 + index}" for index in range(count)])
        braced = [text if text.startswith("{") else "{" + text + "}" for text in (loaded, stored)]
        axes = (count, transposed, shape, element)
        yield Variant(f"ld{name} {braced[0]}, [%r1];", lambda a=axes: matrix_move.ldmatrix(*a))
        yield Variant(f"st{name} [%r1], {braced[1]};", lambda a=axes: matrix_move.stmatrix(*a))


def copies() -> Iterator[Variant]:
    """cp.async."""
    fills = {None: "", "bytes": ", %r3", "ignore": ", %p1"}
    for cache, size, fill, prefetch, hint in product(
        ("ca", "cg"), (2, 4, 8, 16, 32), fills, (None, 32, 64, 128, 256), (False, True)
    ):
        level = f".L2::{prefetch}B" if prefetch else ""
        name, policy = (".L2::cache_hint", ", %rd2") if hint else ("", "")
        yield Variant(
            f"cp.async.{cache}.shared.global{name}{level} [%r1], [%rd1], {size}{fills[fill]}{policy};",
            lambda c=cache, s=size, f=fill, p=prefetch, h=hint: cp_async.copy(c, s, f, prefetch=p, cache_hint=h),
        )


def warps() -> Iterator[Variant]:
    """redux, shfl, vote, match."""
    for operation, element, absolute, nan in product(
        (*OPERATIONS, "mul"), ("u32", "s32", "b32", "f32", "u64"), (False, True), (False, True)
    ):
        name = f"redux.sync.{operation}{'.abs' if absolute else ''}{'.NaN' if nan else ''}.{element}"
        yield Variant(
            f"{name} {_register(element, 1)}, {_register(element, 2)}, %r3;",
            lambda o=operation, e=element, a=absolute, n=nan: warp.reduce(o, e, absolute=a, nan=n),
        )
    for mode, in_range in product(("idx", "up", "down", "bfly", "xor"), (False, True)):
        yield Variant(
            f"shfl.sync.{mode}.b32 %r1{'|%p1' if in_range else ''}, %r2, %r3, %r4, %r5;",
            lambda m=mode, p=in_range: warp.shuffle(m, p),
        )
    for mode in ("all", "any", "uni", "ballot", "none"):
        result = "b32 %r2" if mode == "ballot" else "pred %p1"
        yield Variant(f"vote.sync.{mode}.{result}, %p2, %r1;", lambda m=mode: warp.vote(m))
    for mode, bits, equal in product(("any", "all", "one"), (16, 32, 64), (False, True)):
        yield Variant(
            f"match.{mode}.sync.b{bits} %r5{'|%p1' if equal else ''}, {_register(f'b{bits}', 1)}, %r3;",
            lambda m=mode, b=bits, e=equal: warp.match(m, b, e),
        )


def stores() -> Iterator[Variant]:
    """st.async and red.async."""
    for element, count in product(STORED, (1, 2, 4, 8)):
        values = _list([_register(element, index) for index in range(count)])
        vector = f".v{count}" if count > 1 else ""
        yield Variant(
            f"st.async.shared::cluster.{COMPLETES}{vector}.{element} [%r1], {values}, [%r2];",
            lambda e=element, c=count: async_store.store(e, c),
        )
    for element, scope, mmio in product(STORED, SCOPES, (False, True)):
        yield Variant(
            f"st.async{'.mmio' if mmio else ''}.release.{scope}.global.{element} [%rd1], {_register(element, 1)};",
            lambda e=element, s=scope, m=mmio: async_store.store_global(e, s, mmio=m),
        )
    for operation, element in product(OPERATIONS, ("u8", *TYPES[1:7])):
        yield Variant(
            f"red.async.relaxed.cluster.shared::cluster.{COMPLETES}.{operation}.{element} "
            f"[%r1], {_register(element, 3)}, [%r2];",
            lambda o=operation, e=element: async_store.reduce(o, e),
        )


def fences_and_caches() -> Iterator[Variant]:
    """Fences, reducing barriers, prefetches, policies, cluster launch control."""
    for semantics, scope in product(("acq_rel", "sc", "acquire", "release", "relaxed"), (*SCOPES, "warp")):
        yield Variant(f"fence.{semantics}.{scope};", lambda m=semantics, s=scope: sync.fence(m, s))
    for operation, counted in product(("popc", "and", "or", "xor"), (False, True)):
        result = "u32 %r5" if operation == "popc" else "pred %p2"
        yield Variant(
            f"bar.red.{operation}.{result}, %r1{', %r2' if counted else ''}, %p1;",
            lambda o=operation, c=counted: sync.barrier_reduce(o, counted=c),
        )
    for space, level in product(
        ("global", "local", "shared"), ("L1", "L2", "L3", "L2::evict_last", "L2::evict_normal", "L2::evict_first")
    ):
        yield Variant(f"prefetch.{space}.{level} [%rd1];", lambda s=space, v=level: cache_control.prefetch(v, s))
    priorities = ("L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged", "L1::evict_last")
    for first, rest, fraction in product(priorities, (None, *priorities), (False, True)):
        name = f"{first}{f'.{rest}' if rest else ''}.b64"
        yield Variant(
            f"createpolicy.fractional.{name} %rd1{', %f1' if fraction else ''};",
            lambda p=first, r=rest, f=fraction: cache_control.policy_fractional(p, r, fraction=f),
        )
        yield Variant(
            f"createpolicy.range.global.{name} %rd1, [%rd2], %r1, %r2;",
            lambda p=first, r=rest: cache_control.policy_range(p, r, "global"),
        )
    for suffix, multicast in (("", False), (".multicast::cluster::all", True)):
        yield Variant(
            f"clusterlaunchcontrol.try_cancel.async.shared::cta.{COMPLETES}{suffix}.b128 [%r1], [%r2];",
            lambda m=multicast: launch_control.try_cancel(multicast=m),
        )


FAMILIES: dict[str, Callable[[], Iterator[Variant]]] = {
    family.__name__: family
    for family in (bulk, tensor_maps, barriers, matrices, copies, warps, stores, fences_and_caches)
}

"""TMA copies of boxes, one instruction a call: every mode, destination and option; reductions and prefetches."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from nvbackend.builder.copies import Copies
from nvbackend.builder.core import BuilderCore
from nvbackend.builder.memory import Address
from nvbackend.builder.parameters import TENSOR_MAP_ALIGNMENT, TensorMapParameter
from nvbackend.builder.scaling import GLOBAL_SPACE
from nvbackend.builder.values import Operand, Value, as_value
from nvbackend.diagnostics import Rule, raise_all
from nvbackend.intrinsics import tensormap, tma_bulk
from nvbackend.intrinsics.row import Row
from nvbackend.intrinsics.tma import BULK_ALIGNMENT
from nvbackend.intrinsics.types import ElementType, s32, s64, u16, u32, u64
from nvbackend.isel.families import family_rules
from nvbackend.isel.families.tma_place_rules import ALIGNMENT, place_faults
from nvbackend.isel.families.tma_request import TmaRequest
from nvbackend.isel.families.tma_rules import select_tma
from nvbackend.isel.variants import variant
from nvbackend.signature import TensorMap

PLACE = Rule(
    id="tma.box-operands",
    message="{instruction} takes {wanted} {name}, not {given}",
    fix="give one coordinate for each dimension, innermost first; im2col also wants its offsets",
    why="The operands would not be those of the instruction.",
    reference="PTX ISA 9.7.9 (cp.async.bulk.tensor), tensorCoords and im2colInfo",
)

MAP_MODE = Rule(
    id="tma.map-mode",
    message="{name} is a map {made}, and {instruction} in mode {mode} takes one {wanted}",
    fix="use the mode of the map, or declare the parameter as TensorMap(..., im2col={im2col})",
    why="The map means another thing in the other mode: the copy stops the kernel, or moves other elements.",
    reference="PTX ISA 5.5.3 to 5.5.5 (tiled, im2col and im2col::w modes), 9.7.9 (cp.async.bulk.tensor)",
)
MAP_ADDRESS = Rule(
    id="tma.map-address",
    message="{given!r} cannot be a tensor map, which is {bytes} bytes of global memory at a multiple of {wanted}",
    fix="give the address of an array of maps in global memory, declared Pointer(u32, align={wanted})",
    why="The copy unit reads the map itself, from global memory alone: the copy stops the kernel.",
    reference="PTX ISA 5.5.8 (tensor-map), 9.7.9 (cp.async.bulk.tensor)",
)
_WIDE_OF_MODE = {"im2col::w": "w", "im2col::w::128": "w128"}


def _kind(im2col: bool, wide: str | None) -> str:
    return f"of pixels along W ({wide!r})" if wide else "of pixels" if im2col else "of boxes"


def _check_mode(tensor_map: TensorMapParameter, row: Row) -> None:
    """Raises tma.map-mode where the map was declared for another mode than `row` has."""
    mode, walk = str(row.axes["mode"]), tensor_map.type.im2col
    made = _kind(walk is not None, None if walk is None else walk.wide)
    wanted = _kind(mode.startswith("im2col"), _WIDE_OF_MODE.get(mode))
    if made != wanted:
        im2col = "Im2col(rank, lower, upper, wide)" if mode.startswith("im2col") else None
        MAP_MODE.fail(name=tensor_map.name, made=made, instruction=row.opcode, mode=mode, wanted=wanted, im2col=im2col)


def _all(k: BuilderCore, row: Row, name: str, given: Sequence[Operand], element: ElementType) -> list[ir.Value]:
    """The operand `name` of `row` out of `given`. Raises tma.box-operands where their number is another."""
    wanted = next((operand.count for operand in row.operands if operand.name == name), 0)
    if len(given) != wanted:
        PLACE.fail(instruction=row.ptx, wanted=wanted, name=name, given=len(given))
    return [as_value(k, each, element).ir for each in given]


class TensorCopies(Copies):
    """Single TMA instructions (PTX ISA 9.7.9); one thread executes each of them."""

    def tma_load_box(
        self,
        destination: Address,
        source: TensorMapParameter,
        coordinates: Sequence[Operand],
        barrier: Address,
        *,
        mode: str = "tile",
        offsets: Sequence[Operand] = (),
        space: str = "cluster",
        multicast_mask: Operand | None = None,
        cta_group: int | None = None,
        cache_policy: Value | None = None,
    ) -> None:
        """cp.async.bulk.tensor: the box at `coordinates` (elements, innermost first) of the map to `destination`.

        Its bytes complete on `barrier`. `mode` is tile, tile::gather4 (a column and four rows are the coordinates),
        im2col (with an offset for each dimension of space), im2col::w or im2col::w::128 (two offsets). The innermost
        coordinate is a multiple of 16 bytes (tma.start); what lies outside of the tensor is filled. `space` is
        "cluster" or "cta"; `multicast_mask` has a bit for each CTA that gets a copy; `cta_group` 2 lets the barrier be
        the peer's. Raises every broken rule of `tma.*`.
        """
        row = self._tensor_row(
            TmaRequest(
                source.type.rank,
                mode=mode,
                destination=space,
                multicast=multicast_mask is not None,
                cta_group=cta_group,
                cache_hint=cache_policy is not None,
            )
        )
        given = self._place(row, source, coordinates, offsets, cache_policy)
        if multicast_mask is not None:
            given["multicast_mask"] = as_value(self, multicast_mask, u16).ir
        given |= {"destination": destination.bytes.ir, "barrier": self._mbarrier(barrier).ir}
        self._copy(row, given, source, destination.align, "destination")

    def tma_store_box(
        self,
        target: TensorMapParameter,
        coordinates: Sequence[Operand],
        source: Address,
        *,
        mode: str = "tile",
        cache_policy: Value | None = None,
    ) -> None:
        """cp.async.bulk.tensor to global memory: the box at `source` to `coordinates`, in this thread's bulk group.

        `mode` is tile, tile::scatter4 (a column and four rows) or im2col_no_offs. The innermost coordinate is a
        multiple of 16 bytes (tma.start), and none is negative (tma.before); what lies behind the end of the tensor is
        left out. Raises rules of `tma.*`.
        """
        row = self._tensor_row(
            TmaRequest(target.type.rank, "store", mode, cache_hint=cache_policy is not None),
        )
        given = {**self._place(row, target, coordinates, (), cache_policy), "source": source.bytes.ir}
        self._copy(row, given, target, source.align, "source")

    def tma_reduce_box(
        self,
        target: TensorMapParameter,
        coordinates: Sequence[Operand],
        source: Address,
        operation: str,
        *,
        mode: str = "tile",
        cache_policy: Value | None = None,
    ) -> None:
        """cp.reduce.async.bulk.tensor: combine the box at `source` with the tensor, element by element, atomically.

        `operation` is add, min, max, inc, dec, and, or, xor; the type is the map's, and one that the operation is for
        (tma.reduced-type). In this thread's bulk group. The innermost coordinate is a multiple of 16 bytes (tma.start),
        and none is negative (tma.before). Raises rules of `tma.*`.
        """
        request = TmaRequest(target.type.rank, "reduce", mode, operation=operation, cache_hint=cache_policy is not None)
        row = self._tensor_row(request)
        given = {**self._place(row, target, coordinates, (), cache_policy), "source": source.bytes.ir}
        self._copy(row, given, target, source.align, "source")

    def tma_prefetch_box(
        self,
        source: TensorMapParameter,
        coordinates: Sequence[Operand],
        *,
        mode: str = "tile",
        offsets: Sequence[Operand] = (),
        cache_policy: Value | None = None,
    ) -> None:
        """cp.async.bulk.prefetch.tensor: bring the box at `coordinates` to the L2 cache; modes and starts as of a load.

        Raises rules of `tma.*`.
        """
        row = self._tensor_row(TmaRequest(source.type.rank, "prefetch", mode, cache_hint=cache_policy is not None))
        given = self._place(row, source, coordinates, offsets, cache_policy)
        known = self._start_facts(source.type.element, given)
        raise_all(place_faults(row, known))
        self.emit(row, given, facts=known)

    def _tensor_row(self, request: TmaRequest) -> Row:
        return select_tma(request, self.target)

    def _place(
        self,
        row: Row,
        tensor_map: TensorMapParameter,
        coordinates: Sequence[Operand],
        offsets: Sequence[Operand],
        cache_policy: Value | None,
    ) -> dict[str, ir.Value | int | Sequence[ir.Value]]:
        _check_mode(tensor_map, row)
        given: dict[str, ir.Value | int | Sequence[ir.Value]] = {
            "tensor_map": tensor_map.address,
            "coordinates": _all(self, row, "coordinates", coordinates, s32),
        }
        filter_offsets = _all(self, row, "offsets", offsets, u16)
        if filter_offsets:
            given["offsets"] = filter_offsets
        if cache_policy is not None:
            given["cache_policy"] = as_value(self, cache_policy, u64).ir
        return given

    def bulk_load(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        barrier: Address,
        *,
        space: str = "cluster",
        multicast_mask: Operand | None = None,
        cache_policy: Value | None = None,
    ) -> None:
        """cp.async.bulk: `size` bytes (a multiple of 16) from global to shared memory; they complete on `barrier`.

        With `multicast_mask` (u16, a bit for each CTA of the cluster) in each of those CTAs. `space` is "cluster", or
        "cta" for the form without a cluster. Raises mbarrier.address, tma.bulk-size, tma.multicast-target,
        instruction.variant, target.feature. PTX ISA 9.7.9.
        """
        many = multicast_mask is not None
        if many:
            family_rules.check_tma_multicast_target(self.target)
        row = variant("cp.async.bulk", tma_bulk.load_bulk, many, cache_policy is not None, space)
        given = {
            **self._bytes(destination, source, size),
            **self._hint(cache_policy),
            "barrier": self._mbarrier(barrier).ir,
        }
        if multicast_mask is not None:
            given["multicast_mask"] = as_value(self, multicast_mask, u16).ir
        self.emit(row, given)

    def bulk_store(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        *,
        byte_mask: Operand | None = None,
        cache_policy: Value | None = None,
    ) -> None:
        """cp.async.bulk: `size` bytes from shared to global memory, in this thread's bulk group.

        Bit i of `byte_mask` says whether byte i of every 16 is written (from compute capability 10.0 on). Raises
        tma.bulk-size, target.feature. PTX ISA 9.7.9.
        """
        given = {**self._bytes(destination, source, size), **self._hint(cache_policy)}
        if byte_mask is not None:
            given["byte_mask"] = as_value(self, byte_mask, u16).ir
        self.emit(tma_bulk.store_bulk(cache_policy is not None, byte_mask=byte_mask is not None), given)

    def bulk_reduce(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        operation: str,
        element: ElementType | str,
        *,
        cache_policy: Value | None = None,
    ) -> None:
        """cp.reduce.async.bulk: combine `size` bytes of shared memory with global memory, in the bulk group.

        `operation` and `element` ("b32" and "b64" for the bitwise ones) are a pair the instruction has, else
        instruction.variant. Raises tma.bulk-size too. PTX ISA 9.7.9.
        """
        hinted = cache_policy is not None
        row = variant("cp.reduce.async.bulk", tma_bulk.reduce_bulk, "global", operation, str(element), hinted)
        self.emit(row, {**self._bytes(destination, source, size), **self._hint(cache_policy)})

    def bulk_reduce_peer(
        self,
        destination: Address,
        source: Address,
        size: Operand,
        operation: str,
        element: ElementType | str,
        barrier: Address,
        rank: Operand,
    ) -> None:
        """cp.reduce.async.bulk between CTAs: combine `size` bytes with `destination` in CTA `rank` of the cluster.

        They complete on `barrier` there. Raises tma.bulk-size, instruction.variant, target.feature. PTX ISA 9.7.9.
        """
        row = variant("cp.reduce.async.bulk", tma_bulk.reduce_bulk, "cluster", operation, str(element))
        given = self._bytes(destination, source, size)
        given["destination"] = self.map_to_peer(destination.bytes, rank).ir
        self.emit(row, {**given, "barrier": self.map_to_peer(self._mbarrier(barrier), rank).ir})

    def bulk_copy_peer(
        self, destination: Address, source: Address, size: Operand, barrier: Address, rank: Operand
    ) -> None:
        """cp.async.bulk between CTAs: `size` bytes to `destination` in CTA `rank`, completed on `barrier` there."""
        given = self._bytes(destination, source, size)
        given["destination"] = self.map_to_peer(destination.bytes, rank).ir
        self.emit(tma_bulk.copy_bulk(), {**given, "barrier": self.map_to_peer(self._mbarrier(barrier), rank).ir})

    def bulk_prefetch(self, source: Address, size: Operand, *, cache_policy: Value | None = None) -> None:
        """cp.async.bulk.prefetch: bring `size` bytes of global memory to the L2 cache (tma.bulk-size)."""
        row = tma_bulk.prefetch_bulk(cache_policy is not None)
        self.emit(row, {"source": source.bytes.ir, "bytes": self._size(size), **self._hint(cache_policy)})

    def _hint(self, cache_policy: Value | None) -> dict[str, ir.Value]:
        return {} if cache_policy is None else {"cache_policy": as_value(self, cache_policy, u64).ir}

    def _bytes(
        self, destination: Address, source: Address, size: Operand
    ) -> dict[str, ir.Value | int | Sequence[ir.Value]]:
        for operand, address in (("destination", destination), ("source", source)):
            if address.space != GLOBAL_SPACE and address.align % BULK_ALIGNMENT:
                ALIGNMENT.fail(instruction="cp.async.bulk", operand=operand, given=address.align, wanted=BULK_ALIGNMENT)
        return {"destination": destination.bytes.ir, "source": source.bytes.ir, "bytes": self._size(size)}

    def _size(self, size: Operand) -> ir.Value:
        found = as_value(self, size, s32)
        if isinstance(found.constant, int):
            family_rules.check_bulk_size(found.constant)
        return found.ir

    def tensor_map_at(self, address: Address, kind: TensorMap, *, name: str = "map") -> TensorMapParameter:
        """The tensor map that lies in global memory at `address`, as copies take it; `kind` is what was put there.

        After another thread changed it, `tensormap_acquire` comes before the copies. Raises tma.map-address. PTX ISA
        5.5.8.
        """
        if address.space != GLOBAL_SPACE or address.align % TENSOR_MAP_ALIGNMENT:
            MAP_ADDRESS.fail(given=address, bytes=tensormap.TENSOR_MAP_BYTES, wanted=TENSOR_MAP_ALIGNMENT)
        generic = self._ir.inttoptr(self._own(address).bytes.ir, ir.PointerType(addrspace=GLOBAL_SPACE))
        return TensorMapParameter(name, self._ir.addrspacecast(generic, ir.PointerType()), kind)

    def tensormap_replace(
        self, tensor_map: Address, field: str, value: Operand, *, dimension: int | None = None
    ) -> None:
        """tensormap.replace: set `field` of the 128-byte map in shared or global memory at `tensor_map`.

        Fields: global_address, rank (less one), box_dim, global_dim, global_stride (bytes), element_stride, elemtype,
        packed_elemtype, interleave_layout, swizzle_mode, wide_swizzle_mode (96 bytes), swizzle_atomicity, fill_mode.
        Those that are lists take a `dimension`, innermost 0; those that are codes take a constant.
        """
        space = "global" if tensor_map.space == tensormap.SPACES["global"].addrspace else "shared::cta"
        row = variant("tensormap.replace", tensormap.replace, field, space)
        given: dict[str, ir.Value | int | Sequence[ir.Value]] = {"tensor_map": tensor_map.bytes.ir}
        if dimension is not None:
            given["ordinal"] = dimension
        constant = [operand.name for operand in row.immediates if operand.name != "ordinal"]
        if constant and type(value) is int:
            given[constant[0]] = value
        else:
            wide = not constant and row.operand("value").register.llvm == "i64"
            given["value"] = as_value(self, value, s64 if wide else u32).ir
        self.emit(row, given)

    def tensormap_publish(self, destination: Address, source: Address, *, scope: str = "gpu") -> None:
        """tensormap.cp_fenceproxy: copy a map from shared to global memory and release it; a whole warp executes it."""
        row = variant("tensormap.cp_fenceproxy", tensormap.copy_and_publish, scope)
        self.emit(row, {"destination": destination.bytes.ir, "source": source.bytes.ir})

    def tensormap_acquire(self, tensor_map: Address, *, scope: str = "gpu") -> None:
        """fence.proxy.tensormap acquire: copies after it use the map in global memory as it was released."""
        row = variant("fence.proxy.tensormap", tensormap.fence, "acquire", scope)
        self.emit(row, {"tensor_map": tensor_map.bytes.ir})

    def tensormap_release(self, *, scope: str = "gpu") -> None:
        """fence.proxy.tensormap release: this thread's changes of maps so far, for who acquires them."""
        self.emit(variant("fence.proxy.tensormap", tensormap.fence, "release", scope), {})

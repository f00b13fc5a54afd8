"""Tensor maps in memory: how to change, publish and fetch them."""

from __future__ import annotations

from llvmlite import ir

from nvbackend.builder.core.instructions import issue
from nvbackend.builder.core.memory import Address, own
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.parameters import TENSOR_MAP_ALIGNMENT, TensorMapParameter
from nvbackend.builder.values.values import GLOBAL_SPACE, Operand, Value
from nvbackend.diagnostics import Rule, user_facing
from nvbackend.intrinsics.copy import tensormap
from nvbackend.isel.target.target import variant
from nvbackend.signature import TensorMap

MAP_ADDRESS = Rule(
    id="tma.map-address",
    message="{given!r} cannot be a tensor map, which is {bytes} bytes of global memory at a multiple of {wanted}",
    fix="give the address of an array of maps in global memory, declared Pointer(u32, align={wanted})",
    why=("The TMA unit reads the map from global memory only: with another address the copy stops the kernel."),
    reference="PTX ISA 5.5.8 (tensor-map), 9.7.9 (cp.async.bulk.tensor)",
)


@user_facing
class TensorMaps(Noun):
    """Tensor maps in memory: how to change, publish and fetch them (PTX ISA 9.7.9, tensormap.replace)."""

    __noun__ = "tensormap"
    __usual__ = "replace"

    def at(self, address: Address, kind: TensorMap, *, name: str = "map") -> TensorMapParameter:
        """The tensor map in global memory at `address`, for copies; `kind` says what was stored there.

        If another thread has changed it, call `k.tensormap.acquire` before the copies. Raises tma.map-address. PTX ISA
        5.5.8.
        """
        if address.space != GLOBAL_SPACE or address.align % TENSOR_MAP_ALIGNMENT:
            MAP_ADDRESS.fail(given=address, bytes=tensormap.TENSOR_MAP_BYTES, wanted=TENSOR_MAP_ALIGNMENT)
        generic = self._k.llvm.inttoptr(own(self._k, address).bytes.ir, ir.PointerType(addrspace=GLOBAL_SPACE))
        return TensorMapParameter(name, self._k.llvm.addrspacecast(generic, ir.PointerType()), kind)

    def replace(self, tensor_map: Address, field: str, value: Operand, *, dimension: int | None = None) -> None:
        """tensormap.replace: set `field` of the 128-byte map in shared or global memory at `tensor_map`.

        Fields: global_address, rank (less one), box_dim, global_dim, global_stride (bytes), element_stride, elemtype,
        packed_elemtype, interleave_layout, swizzle_mode, wide_swizzle_mode (96 bytes), swizzle_atomicity, fill_mode.
        Lists take a `dimension`, 0 for the innermost; codes take a constant.
        """
        space = "global" if tensor_map.space == tensormap.SPACES["global"].addrspace else "shared::cta"
        row = variant("tensormap.replace", tensormap.replace, field, space)
        constant = [operand.name for operand in row.immediates if operand.name != "ordinal"]
        named = constant[0] if constant and type(value) is int else "value"
        issue(self._k, row, **{"tensor_map": tensor_map, "ordinal": dimension, named: value})

    def publish(self, destination: Address, source: Address, *, scope: str = "gpu") -> None:
        """tensormap.cp_fenceproxy: copy a map from shared to global memory and release it; a whole warp executes it."""
        row = variant("tensormap.cp_fenceproxy", tensormap.copy_and_publish, scope)
        issue(self._k, row, destination=destination, source=source)

    def acquire(self, tensor_map: Address, *, scope: str = "gpu") -> None:
        """fence.proxy.tensormap acquire: later copies use the map in global memory as it was released."""
        row = variant("fence.proxy.tensormap", tensormap.fence, "acquire", scope)
        issue(self._k, row, tensor_map=tensor_map)

    def release(self, *, scope: str = "gpu") -> None:
        """fence.proxy.tensormap release: make this thread's changes of maps visible to threads that acquire them."""
        issue(self._k, variant("fence.proxy.tensormap", tensormap.fence, "release", scope))

    def prefetch(self, address: Value, *, space: str | None = None) -> None:
        """prefetch.tensormap: prefetch a tensor map, at a generic address (u64) or one of `space` "const".

        Raises instruction.variant, target.feature. PTX ISA 9.7.9 (prefetch).
        """
        row = variant("prefetch.tensormap", tensormap.prefetch, space)
        issue(self._k, row, tensor_map=address)

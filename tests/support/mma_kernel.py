"""One warp that executes one mma: registers come and go thread by thread, so the host decides what they hold."""

from __future__ import annotations

from nvbackend.builder.kernel.kernel import FinishedKernel, KernelBuilder
from nvbackend.intrinsics.mma import mma
from nvbackend.intrinsics.row.types import f64, u32
from nvbackend.isel.select.mma.request import MmaRequest
from nvbackend.signature import Parameter, Pointer

WARP = 32


def mma_kernel(request: MmaRequest, *, target: str = "sm_90a") -> FinishedKernel:
    """Parameters a, b, c, metadata, d: `[thread * registers + register]`, f64 or words; one word a thread of metadata.

    Kernels of block-scaled instructions have scale_a and scale_b besides, a word a thread each, before d.
    """
    one = request.instruction
    row = mma.mma(one)
    word = f64 if one.a is f64 else u32
    scales = ("scale_a", "scale_b") if one.scale is not None else ()
    parameters = [Parameter(name, Pointer(word)) for name in ("a", "b", "c")]
    parameters += [Parameter(name, Pointer(u32)) for name in ("metadata", *scales)]
    parameters.append(Parameter("d", Pointer(word)))
    k = KernelBuilder("mma_numbers", target, threads=WARP, parameters=parameters)
    given = dict(zip((parameter.name for parameter in parameters), k.arguments, strict=True))
    thread = k.thread_id()
    fragments = {}
    for name in ("a", "b", "c"):
        count = row.operand(name).count
        registers = [given[name][thread * count + index] for index in range(count)]
        is_f32 = name == "c" and one.c.name == "f32"
        fragments[name] = [register.bitcast(one.c) for register in registers] if is_f32 else registers
    words = {name: given[name][thread] for name in scales}
    if one.sparsity is not None:
        words["metadata"] = given["metadata"][thread]
    results = k.mma.sync(request, **fragments, **words)
    for index, value in enumerate(results):
        given["d"][thread * len(results) + index] = value if word is f64 else value.bitcast(u32)
    return k.finish()

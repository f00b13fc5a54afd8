"""Small sm_90a kernels in PTX, written by hand, that follow the WGMMA protocol or break it in one place."""

from __future__ import annotations

FENCE = "wgmma.fence.sync.aligned;\n"
COMMIT = "wgmma.commit_group.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"

NOT_INLINED = """.visible .func (.param .b32 r) callee(.param .b32 x)
{ .reg .b32 t; mov.u32 t, %clock; st.param.b32 [r], t; ret; }
"""
INDIRECT_CALL = """{ .reg .b64 pointer; .param .b32 p0; .param .b32 r0;
mov.u64 pointer, callee; ld.global.u64 pointer, [%out+1024]; st.param.b32 [p0], %r0;
prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
call (r0), pointer, (p0), prototype; ld.param.b32 %r5, [r0]; }
st.global.u32 [%out+512], %r5;
"""


def _accumulator(n: int) -> str:
    return "{" + ", ".join(f"%f{index}" for index in range(n // 2)) + "}"


def mma(n: int = 8) -> str:
    """One m64nNk16 f16 mma with both operands in shared memory."""
    return f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {_accumulator(n)}, %a, %b, p, 1, 1, 0, 0;\n"


def mma_register_a() -> str:
    """The same with A in registers."""
    fragment = "{%r0, %r1, %r2, %r3}"
    return f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {_accumulator(8)}, {fragment}, %b, p, 1, 1, 0;\n"


def kernel(body: str, *, n: int = 8, before: str = "", attributes: str = ".maxntid 128, 1, 1", wide: int = 0) -> str:
    """A kernel `k` with zeroed accumulators of N = `n`, then `body`, then their store.

    `wide` values are loaded before the body and stored behind it, so that they live across it.
    """
    count = n // 2
    extra = [f"%x{index}" for index in range(wide)]
    lines = [
        *(f"mov.f32 %f{index}, 0f00000000;" for index in range(count)),
        *(f"ld.global.f32 {name}, [%out+{4096 + 4 * index}];" for index, name in enumerate(extra)),
        body,
        *(f"st.global.f32 [%out+{8192 + 4 * index}], {name};" for index, name in enumerate(extra)),
        *(f"st.global.f32 [%out+{4 * index}], %f{index};" for index in range(count)),
    ]
    return f""".version 8.0
.target sm_90a
.address_size 64
{before}.visible .entry k(.param .u64 out, .param .u64 pa, .param .u64 pb) {attributes}
{{
.reg .f32 %f<{count}>; .reg .f32 %x<{wide + 1}>; .reg .b64 %a, %b, %out; .reg .b32 %r<10>; .reg .pred p, q;
ld.param.u64 %out, [out]; ld.param.u64 %a, [pa]; ld.param.u64 %b, [pb]; setp.eq.u32 p, 0, 0;
cvta.to.global.u64 %out, %out;
mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.x;
{chr(10).join(lines)}
ret;
}}
"""


def loop(body: str) -> str:
    """`body` until a counter that starts at the thread's number reaches 640."""
    return f"again:\n{body}add.u32 %r0, %r0, 1;\nsetp.lt.u32 q, %r0, 640;\n@q bra again;\n"

"""What running kernels do wrong with tensor memory: PTX texts that the simulator runs."""

from __future__ import annotations

from nvbackend.simulator import Simulator
from tests.rules.example import program

HEAD = ".version 8.6\n.target sm_100a\n.address_size 64\n"


@program("simulator.tensor-memory", located=False)
def beyond_the_columns():
    column = 32  # breaks
    column = 31  # keeps
    body = f"""
        tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 32;
        bar.warp.sync -1;
        ld.shared.b32 %r0, [place];
        add.u32 %r1, %r0, {column};
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {{%r0}};
        tcgen05.wait::st.sync.aligned;
        tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 32;"""
    text = f"{HEAD}.entry k() {{ .shared .b32 place; .reg .b32 %r<2>; {body} ret; }}"
    Simulator().load(text).launch("k", block=(32, 1, 1))

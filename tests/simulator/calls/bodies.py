"""Small PTX kernels: a body of instructions with registers, shared memory, mbarriers and arguments at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nvbackend import DiagnosticError
from nvbackend.simulator import Simulator

FIRST = 11
"""The line of the text that the body begins at."""
TEXT = """.version 9.0
.target {target}
.address_size 64
.visible .entry k({parameters})
{{
.shared .align 1024 .b8 buf[8192];
.shared .align 8 .b64 bar[4];
.reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .pred %p<16>; .reg .b16 %h<8>; .reg .f32 %f<8>;
mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; mov.u32 %r1, buf; mov.u32 %r2, bar;
{loads}
{body}
ret;
}}
"""
"""%r0 is the thread, %p0 whether it is thread 0, %r1 shared memory, %r2 the mbarriers, %rd0, %rd1 ... the arguments."""


def ptx(body: str, arguments: Sequence[Any] = (), target: str = "sm_90a") -> str:
    """The text of a kernel that takes arrays and tensor maps; of a map %rd holds the generic address."""
    parameters, loads = [], []
    for number, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            parameters.append(f".param .u64 a{number}")
            loads.append(f"ld.param.u64 %rd{number}, [a{number}];")
        else:
            parameters.append(f".param .align 64 .b8 a{number}[128]")
            loads.append(f"mov.b64 %rd{number}, a{number}; cvta.param.u64 %rd{number}, %rd{number};")
    return TEXT.format(target=target, parameters=", ".join(parameters), loads=" ".join(loads), body=body)


def run(body: str, *arguments: Any, threads: int = 32, cluster: int = 1, seed: int = 0, **options: Any) -> None:
    """Run it in one cluster; arrays are changed in place."""
    module = Simulator().load(ptx(body, arguments), source="k.ptx")
    module.launch(
        "k",
        grid=(cluster, 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1),
        args=arguments,
        seed=seed,
        **options,
    )


def rules(body: str, *arguments: Any, **options: Any) -> list[tuple[str, int]]:
    """The rules that it breaks, each with the line of the body."""
    try:
        run(body, *arguments, **options)
    except DiagnosticError as error:
        return [(one.rule_id, one.location.line - FIRST if one.location else -1) for one in error.diagnostics]
    return []

"""What commands print, whole: a column, a key or a line that changes is seen, whatever the row or the word is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import pytest

from nvbackend.cli import main
from tests.support.golden import Golden
from tests.support.process import ROOT

Printed = pytest.CaptureFixture[str]
PROGRAM, PTX = "tests/cli/programs/spread.py", "tests/cli/programs/spread.ptx"
MAP = "global_address=0x7f0000000000 element=f16 global_dim=4096,4096 global_stride=8192 box_dim=64,128 swizzle=128"
OUTPUTS: dict[str, Sequence[str]] = {
    "explain": (
        "explain wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
        "explain wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 --target sm_90",
        "explain mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 --target sm_80",
        "explain wmma.load.a.sync.aligned.row.m16n16k16.f16",
        "explain tcgen05.mma.cta_group::1.kind::f16 --target sm_100a",
        "explain tcgen05.mma.ws.sp.cta_group::1.kind::i8",
        "explain tcgen05.ld.sync.aligned.16x64b.x2.b32",
        "explain cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes --target sm_120a",
        "explain cp.async.cg.shared.global",
        "explain mbarrier.try_wait.parity.shared::cta.b64",
        "explain bar.sync",
        "explain shfl.sync.idx.b32",
        "explain red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32",
        "explain fence.proxy.async.shared::cta --json",
        "explain setmaxnreg.inc.sync.aligned.u32 --json --target sm_100",
        "explain wgmma.n-step",
        "explain wgmma.n-step --json",
        f"explain {PTX}:22",
        f"explain {PTX}:25",
        f"explain {PTX}:25 --json",
        "explain wgmma.mma_async.m64n8k16",
        "explain cp.async.bulk.tensor --target sm_90",
    ),
    "catalogue": (
        "catalogue --family register_budget",
        "catalogue --family register_budget --json --target sm_100f",
        "catalogue --family ldmatrix --target sm_75",
        "catalogue --family matrix_move --target sm_80 --json",
        "catalogue --all-rules --family cli",
        "catalogue --all-rules --family cli --json",
        "catalogue --schema",
        "catalogue --schema --all-rules",
        "targets",
        "targets --json",
    ),
    "words": (
        "decode wgmma-desc 0x4000004000010040",
        "decode wgmma-desc 0x4000004000010040 --json",
        "decode umma-desc 0x4000404000010040",
        "decode idesc 0x08100490 --kind f16",
        "decode idesc 0x08100490 --kind f16 --json",
        "decode idesc 0x08900480 --kind mxf8f6f4",
        "decode tcgen05-control 0x25",
        "decode collector 0x1",
        "decode tileiras-desc 0x10000400010040",
        "decode tensor-map 0x7f0000000000 0x0000020000206310 0 0 0x00000fff00000fff 0 0x3f00000000000000 127"
        + 8 * " 0",
        f"encode tensor-map {MAP} --json",
        "encode wgmma-desc start_address=1024 leading_byte_offset=16 stride_byte_offset=1024",
        "encode umma-desc start_address=0x400 leading_byte_offset=16 stride_byte_offset=1024 --json",
        "encode idesc --kind i8 m=64 n=32 a=s8 b=u8 d=s32 saturate=yes",
        "encode collector valid=yes",
        "encode tileiras-desc start_addr=4 lbo=1 sbo=64",
    ),
    "build": (
        f"build {PROGRAM}:spread",
        f"build {PROGRAM}:spread --show ir",
        f"build {PROGRAM}:spread --show ptx --plain",
        f"build {PROGRAM}:spread --plain --target sm_100a",
        f"build {PROGRAM}:spread --diff turns=2",
        f"build {PROGRAM}:spread --show ptx --diff sm_80 --constant turns=1",
        f"build {PROGRAM} --show machine --json",
        f"build {PROGRAM}:other",
    ),
    "simulate": (
        f"simulate {PTX} --grid 2 --block 64 --arg f32[128]=arange --arg 64",
        f"simulate {PTX} --grid 1 --block 64 --arg f32[128]=ones --arg 64 --report",
        f"simulate {PTX} --block 64,1 --arg f32[128]=zeros --arg 64 --report --json",
        f"simulate {PTX} --grid 1 --block 256 --arg f32[128]=arange --arg 256 --json",
    ),
    "lint": (f"lint {PTX}", f"lint {PTX} --json", "lint tests/cli/programs/wrong.ptx --json"),
}


def printed(line: str, capsys: Printed) -> str:
    code = main(shlex.split(line))
    out, error = capsys.readouterr()
    return f"$ nvbackend {line}\n{out}{error}" + (f"exit {code}\n" if code else "")


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name: str, golden: Golden, capsys: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(printed(line, capsys) for line in OUTPUTS[name])
    golden.check(f"{name}.txt", re.sub(r'("seconds": )[\d.e-]+', r"\g<1>0", text))

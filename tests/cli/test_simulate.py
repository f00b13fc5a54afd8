"""`nvbackend simulate`: arguments, what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nvbackend.cli import main
from nvbackend.simulator import SimulatedModule

SCALE = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 by)
{
    .reg .b32 %r<4>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %r3, [by];
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r0, %r0, %r1, %r2;
    mul.wide.u32 %rd3, %r0, 4; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    ld.global.f32 %r1, [%rd4];
    mul.f32 %r1, %r1, %r3;
    st.global.f32 [%rd5], %r1;
    ret;
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "scale.ptx"
    path.write_text(SCALE, encoding="utf-8")
    return str(path)


def test_a_kernel_is_run(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["--grid", "2", "--block", "8", "--arg", "f32[16]=arange", "--arg", "f32[16]", "--arg", "0.5"]
    assert main(["simulate", file, *launch]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("scale: ")
    assert "  floating point         16   7.1 %  mul\n" in printed
    assert printed.endswith("1: f32[16]: 0 0.5 1 1.5 2 2.5 3 3.5 ...\n")


@pytest.mark.parametrize(
    ("directives", "block"), [(".maxntid 16", 16), (".maxntid 32 .reqntid 4, 2", 8), (".maxnreg 32", 1)]
)
def test_the_ptx_says_how_many_threads_there_are(
    directives: str, block: int, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text(SCALE.replace(".f32 by)\n", f".f32 by) {directives}\n"), encoding="utf-8")
    launch = ["--arg", "f32[16]", "--arg", "f32[16]", "--arg", "0.5", "--json"]
    assert main(["simulate", file, *launch]) == 0
    assert np.prod(json.loads(capsys.readouterr().out)["block"]) == block


def test_json_of_a_launch(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["--grid", "2", "--block", "8", "--arg", "f32[16]=arange", "--arg", "f32[16]", "--arg", "inf", "--report"]
    assert main(["simulate", file, *launch, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["kernel"], data["grid"], data["block"]) == ("scale", [2, 1, 1], [8, 1, 1])
    assert data["instructions"]["mul"] >= 16
    assert (data["read"]["global"], data["written"]["global"]) == (64, 64)
    first, second = data["arrays"]
    assert first == {"argument": "f32[16]=arange", "values": [float(each) for each in range(16)]}
    assert second["values"] == ["nan", *["inf"] * 15]


def test_a_report_and_a_timeline(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "scale.svg"
    launch = ["--grid", "2", "--block", "32", "--arg", "f32[64]", "--arg", "f32[64]", "--arg", "2.0", "--no-checks"]
    assert main(["simulate", file, *launch, "--report", "--timeline", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "  global  256 B    256 B  4 requests of warps, 16 sectors, none by scattered addresses\n" in printed
    assert "scale by the lines of scale.ptx\n" in printed
    assert f"{picture}\n" in printed and picture.read_text(encoding="utf-8").startswith("<svg ")
    assert main(["simulate", file, *launch, "--timeline", str(tmp_path / "missing" / "scale.svg")]) == 2
    said = capsys.readouterr()
    assert "cli.output" in said.err
    assert not said.out, "it ran before the file was refused"


def test_arrays_of_files(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.full(4, 3, np.float32))
    arguments = ["--arg", str(tmp_path / "x.npy"), "--arg", "f32[4]=ones", "--arg", "2.0"]
    assert main(["simulate", file, "--kernel", "scale", "--block", "4", *arguments]) == 0
    assert "f32[4]=ones: 6 6 6 6\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "rule", "text"),
    [
        (["--block", "17", "--arg", "f32[16]", "--arg", "f32[17]", "--arg", "1.0"], "simulator.bounds", "thread 16"),
        (["--arg", "f32[16]"], "simulator.launch", "takes 3 arguments (x, y, by), not 1"),
        (["--arg", "seven"], "cli.simulate", "is not a number, an .npy file or an array"),
        (["--arg", "u8[30]=rand"], "cli.simulate", "filled with: that is zeros, ones, arange, normal, random"),
        (["--arg", "missing.npy"], "cli.simulate", "missing.npy cannot be read"),
        (["--kernel", "other"], "call.name", "the module has no kernel 'other', only scale"),
        (["--arg", "f32[4]=other"], "cli.simulate", "other is not what an array is filled with"),
        (["--arg", "0x1e.5"], "cli.simulate", "'0x1e.5' is not a number"),
        (["--arg", "f8[4]"], "cli.simulate", "f8[4]: an array is of f16, f32, f64, s8, s16, s32, s64, i8, "),
        (["--arg", "seven"], "cli.simulate", "such as f32[64,64]=normal of f16, f32, "),
        (["--grid", "1,1,1,1"], "cli.usage", "--grid: '1,1,1,1' is not one to three numbers, such as 4"),
        (["--block", "x"], "cli.usage", "argument --block: 'x' is not one to three numbers, such as 4 or 4,2,1"),
        (["--arg", "u32[99999999999]"], "cli.simulate", "has 399999999996 bytes; an array has at most 8589934592"),
        (["--arg", f"u32[{'9' * 5000}]"], "cli.simulate", "is not a number, an .npy file or an array"),
        (["--shared", "99999999999"], "simulator.launch", "99999999999 bytes of dynamic shared memory"),
        (["--shared", "-5"], "simulator.launch", "-5 bytes of dynamic shared memory"),
        (["--grid", "99999999999"], "simulator.launch", "a grid of (99999999999, 1, 1) CTAs"),
        (["--grid", "0"], "simulator.launch", "launch 1 to 2147483647, 65535 and 65535 along x, y and z"),
        (["--grid", "1,65536"], "simulator.launch", "a grid of (1, 65536, 1) CTAs"),
        (["--grid", "64", "--cluster", "64"], "simulator.launch", "put 1 to 16 CTAs in a cluster"),
        (["--limit", "0"], "simulator.launch", "limit=0"),
        (["--seed", "-1"], "simulator.launch", "seed=-1"),
    ],
)
def test_what_is_refused(
    file: str, arguments: list[str], rule: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", file, *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error[{rule}]")
    assert text in printed


def test_integers_are_called_as_in_python(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(SimulatedModule, "launch", lambda *_, args, **__: given.extend(args) or "done")
    assert main(["simulate", file, "--arg", "i32[4]=ones", "--arg", "s32[4]=ones"]) == 0
    assert [each.dtype for each in given] == [np.int32, np.int32]


def test_tensor_maps_are_bound_in_python(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = SCALE.replace(".param .u64 y", ".param .align 64 .b8 y[128]").replace(
        "ld.param.u64 %rd2, [y]", "mov.b64 %rd2, 0"
    )
    Path(file).write_text(text, encoding="utf-8")
    assert main(["simulate", file, "--arg", "f32[4]", "--arg", "f32[4]", "--arg", "1"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error[cli.simulate]: scale takes tensor maps (y), which the command line cannot bind")
    assert "nvb.TensorMap(...).bind(array)" in printed
    body = SCALE[SCALE.index(".visible") :].replace("scale(", "plain(")
    Path(file).write_text(f"{text}\n{body}", encoding="utf-8")
    plain = ["simulate", file, "--kernel", "plain", "--arg", "f32[4]", "--arg", "f32[4]", "--arg", "1"]
    assert main(plain) == 0, "the other kernel takes none"
    assert main([*plain[:3], "scale", *plain[4:]]) == 2
    assert capsys.readouterr().err == printed


def test_memory_runs_out(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    saved = f"{file}.npy"
    np.save(saved, np.zeros(4, np.float32))
    for where, argument in (("numpy.full", "f32[4]"), ("numpy.lib.format.read_array", saved)):
        with monkeypatch.context() as patched:
            patched.setattr(where, full)
            assert main(["simulate", file, "--arg", argument]) == 2
        assert "does not fit" in capsys.readouterr().err
    monkeypatch.setattr(SimulatedModule, "launch", full)
    assert main(["simulate", file]) == 2
    assert "too little memory for the launch" in capsys.readouterr().err


def test_files_that_hold_no_kernel(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(tmp_path / "missing.ptx")]) == 2
    assert "missing.ptx cannot be read" in capsys.readouterr().err
    (tmp_path / "binary.ptx").write_bytes(b"\xff\xfe\x00")
    assert main(["simulate", str(tmp_path / "binary.ptx")]) == 2
    assert "binary.ptx is not text" in capsys.readouterr().err
    Path(file).write_text(".version 9.0\n.target sm_90a\n.address_size 64\n", encoding="utf-8")
    assert main(["simulate", file]) == 2
    assert f"{file} has no kernel" in capsys.readouterr().err


def test_what_a_launch_is_given(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command line leaves out, and each option by itself; scale has an argument of each kind."""
    seen: list[dict[str, Any]] = []

    def launch(self: object, name: str, **given: Any) -> str:
        seen.append({"name": name, **given})
        return "done"

    monkeypatch.setattr(SimulatedModule, "launch", launch)
    other = tmp_path / "two.ptx"
    other.write_text(SCALE + SCALE[SCALE.index(".visible") :].replace(" scale(", " other("), encoding="utf-8")
    options = ["--kernel", "other", "--grid", "2,3,4", "--block", "5", "--cluster", "2,1", "--shared", "64"]
    for arguments in ([], [*options, "--seed", "9", "--no-checks", "--limit", "70"]):
        assert main(["simulate", str(other), *arguments]) == 0
    plain = {"grid": (1,), "block": (1,), "cluster": None, "shared": 0, "seed": 0, "args": []}
    said = {"grid": (2, 3, 4), "block": (5,), "cluster": (2, 1), "shared": 64, "seed": 9, "args": [], "limit": 70}
    assert seen == [
        {"name": "scale", "checks": True, "report": False, **plain},
        {"name": "other", "checks": False, "report": False, **said},
    ]
    texts = ["7", "-0x1e", "1e3", "2.5", "f32[3]=normal", "u16[2,2]=ones", "s64[3]=arange", "s8[9]", "u8[8]=zeros"]
    assert main(["simulate", file, *(f"--arg={text}" for text in texts)]) == 0
    expected = [7, -30, 1000.0, 2.5, np.random.default_rng(0).standard_normal(3).astype(np.float32)]
    expected += [np.ones((2, 2), np.uint16), np.arange(3), np.zeros(9, np.int8), np.zeros(8, np.uint8)]
    for found, wanted in zip(seen[-1]["args"], expected, strict=True):
        assert type(found) is type(wanted)
        assert np.array_equal(found, wanted)
        assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None)


def test_what_build_shows_for_people_is_not_what_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "twice.py"
    program.write_text(
        "import nvbackend as nvb\n\n\n"
        '@nvb.kernel("sm_80", threads=32)\n'
        "def twice(k, x: nvb.Pointer(nvb.f32)):\n"
        "    x[k.thread_id()] *= 2.0\n",
        encoding="utf-8",
    )
    file = tmp_path / "twice.ptx"
    for options, status in (([], 2), (["--plain"], 0)):
        assert main(["build", str(program), "--show", "ptx", *options]) == 0
        file.write_text(capsys.readouterr().out, encoding="utf-8")
        assert main(["simulate", str(file), "--arg", "f32[32]"]) == status
        fix = "nvbackend build FILE.py --show ptx --plain prints it without the lines of Python"
        assert (fix in capsys.readouterr().err) == (status == 2)


@pytest.mark.parametrize("name", ["u8", "s8"])
def test_random_bytes_have_every_pattern(name: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(SimulatedModule, "launch", lambda *_, args, **__: given.extend(args) or "done")
    assert main(["simulate", file, "--arg", f"{name}[64,128]=random"]) == 0
    assert given[0].shape == (64, 128)
    assert {*given[0].view(np.uint8).ravel().tolist()} == {*range(256)}


def test_random_numbers_are_the_same_each_time(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(SimulatedModule, "launch", lambda *_, args, **__: given.extend(args) or "done")
    assert main(["simulate", file, "--arg", "f32[5]=random", "--arg", "s16[5]=random"]) == 0
    assert np.array_equal(given[0], np.random.default_rng(0).random(5).astype(np.float32))
    assert np.array_equal(given[1], np.random.default_rng(0).integers(-(1 << 15), 1 << 15, 5, np.int16))


def test_the_first_elements_of_each_array_are_printed(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SimulatedModule, "launch", lambda *_, **__: "done")
    arrays = ["s32[2,4]=arange", "s32[9]=ones", "f32[2]=arange", "3"]
    assert main(["simulate", file, *(part for text in arrays for part in ("--arg", text))]) == 0
    lines = ("0 1 2 3 4 5 6 7", "1 1 1 1 1 1 1 1 ...", "0 1")
    printed = "".join(f"{place}: {arrays[place]}: {line}\n" for place, line in enumerate(lines))
    assert capsys.readouterr().out == "done\n" + printed


@pytest.mark.parametrize("option", [["--report"], ["--timeline", "line.svg"]])
def test_a_report_is_asked_for_where_something_shows_it(
    option: list[str], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    made = SimpleNamespace(by_line=lambda: "lines", timeline=lambda: SimpleNamespace(save=lambda _: None))
    monkeypatch.setattr(SimulatedModule, "launch", lambda *_, report, **__: asked.append(report) or made)
    assert main(["simulate", file, *option]) == 0
    assert asked == [True]


def test_what_a_report_shows(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launch = ["simulate", file, "--arg", "f32[1]", "--arg", "f32[1]", "--arg", "1.0"]
    assert main([*launch, "--report"]) == 0
    longer = capsys.readouterr().out
    assert main([*launch, "--timeline", str(tmp_path / "line.svg")]) == 0
    assert (tmp_path / "line.svg").read_text(encoding="utf-8").startswith("<svg")
    assert len(capsys.readouterr().out) < len(longer)
    assert main([*launch, "--timeline", str(tmp_path / "none" / "line.svg")]) == 2
    assert "No such file or directory" in (said := capsys.readouterr().err)
    assert "Errno" not in said


SHARED = """.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 16 .b8 memory[];
.visible .entry k()
{
    .reg .b32 %r<2>;
    .loc 1 7 0
    mov.u32 %r0, memory; st.shared.b32 [%r0], %r0;
    ret;
}
.file 1 "/nowhere/kernel.py"
"""


def test_a_launch_without_shared_memory_is_told_how_to_give_it_and_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(SHARED, encoding="utf-8")
    assert main(["simulate", str(path)]) == 2
    said = capsys.readouterr().err
    assert "the launch gives no shared memory: shared=BYTES, or --shared BYTES of the command line" in said
    assert "  at /nowhere/kernel.py:7\n" in said
    assert main(["simulate", str(path), "--shared", "16"]) == 0


def test_mistakes_of_the_command_line_have_no_place(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", file, "--arg", "f32[16]"]) == 2
    assert "  at " not in capsys.readouterr().err

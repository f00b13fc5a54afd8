"""Kernels, and all that describes them, go to another process and come back; copies are equal and work as the first."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Major, SmemLayout, SwizzleMode, f16, f32, i32
from nvbackend.codegen.toolchain import find_ptxas
from nvbackend.intrinsics.row.types import ELEMENT_TYPES
from nvbackend.layout import Layout
from nvbackend.signature import Im2col
from tests.support.process import ROOT, python_output
from tests.support.runtime import broken


@nvb.kernel("sm_90a", threads=64, cluster=2)
def sample(k: Any, out: nvb.Pointer[f32], source: nvb.TensorMap(f16, box=(64, 64)), count: i32) -> None:
    out[0] = count.to(f32)


@nvb.kernel("sm_90a", threads=100)
def refused(k: Any, out: nvb.Pointer[f32]) -> None:
    out[k.thread_id()] = out


FINISHED = sample.build()
COMPILED = sample.compile()
OBJECTS: dict[str, Any] = {
    "finished": FINISHED,
    "compiled": COMPILED,
    "cubin": COMPILED.cubin,
    "signature": COMPILED.signature,
    "target": COMPILED.target,
    "tool": find_ptxas(),
    "cache": nvb.Cache.default(),
    "layout": Layout((2, (3, 4)), (1, (2, 6))),
    "tile": SmemLayout(Major.K, SwizzleMode.B128, f16, 64, 64),
    "request": nvb.wgmma.mma_async("m64n64k16", f16, f16, f32),
    "map": nvb.TensorMap(f16, (64, 64), 128, Im2col(4, (0, 0), (1, 1))),
    "diagnostic": broken(lambda: nvb.Target.parse("sm_1"))[0],
    "warning": broken(lambda: refused.build())[0],  # noqa: PLW0108 (the line is the user's)
}


@pytest.mark.parametrize("name", OBJECTS)
def test_copies_are_equal_and_hash_alike(name: str) -> None:
    given = OBJECTS[name]
    for made in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
        if name != "warning":
            assert made == given
        assert type(made) is type(given)
        assert hash(made) == hash(given)
        assert str(made) == str(given)


@pytest.mark.parametrize("element", ELEMENT_TYPES, ids=str)
def test_an_element_type_stays_itself(element: Any) -> None:
    """The builder compares them by identity."""
    for made in (copy.copy(element), copy.deepcopy(element), pickle.loads(pickle.dumps(element))):
        assert made is element


def test_rows_of_a_machine_form_stay_equal() -> None:
    machine = pickle.loads(pickle.dumps(COMPILED)).machine
    assert str(machine) == str(COMPILED.machine)
    assert machine == COMPILED.machine
    rows = [one.row for one in COMPILED.machine.instructions()]
    copied = [one.row for one in machine.instructions()]
    assert copied == rows
    assert [row and dict(row.axes) for row in copied] == [row and dict(row.axes) for row in rows]


def test_a_finished_kernel_is_compiled_from_its_copy() -> None:
    made = pickle.loads(pickle.dumps(FINISHED)).compile(cache=nvb.Cache.disabled())
    assert made.ptx == COMPILED.ptx
    assert made.cubin.data == COMPILED.cubin.data
    assert sample.build() == FINISHED, "two builds of one program are equal, though not in their times"
    assert hash(sample.build()) == hash(FINISHED)


IN_A_FRESH_PROCESS = """
import pickle, sys
from pathlib import Path
compiled, finished, error = pickle.loads(Path(sys.argv[1]).read_bytes())
from nvbackend import runtime
from tests.support.runtime import FakeArray, FakeDevice
from nvbackend.runtime import tensor_map
tensor_map.encode = lambda name, plan: plan
device = FakeDevice()
loaded = runtime.load(compiled, device=device)
loaded.launch((4, 3), FakeArray((8,), "<f4"), FakeArray((64, 64)), 5)
[(_, configuration, _, arguments)] = device.named("launch")
print(configuration.grid, configuration.cluster, arguments[1].data_type, int(arguments[2]))
print(device.named("load")[0][1] == compiled.cubin.data)
print(compiled.report().splitlines()[0])
print(finished.compile(assemble=False).ptx == compiled.ptx)
print(error.diagnostics[0].rule_id)
"""


def test_a_fresh_process_launches_it(tmp_path: Path) -> None:
    with pytest.raises(nvb.DiagnosticError) as caught:
        refused.build()
    (tmp_path / "pickled").write_bytes(pickle.dumps((COMPILED, FINISHED, caught.value)))
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FRESH_PROCESS, str(tmp_path / "pickled")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "(4, 3, 1) (2, 1, 1) FLOAT16 5",
        "True",
        COMPILED.report().splitlines()[0],
        "True",
        caught.value.diagnostics[0].rule_id,
    ]


def test_values_that_cannot_go_become_their_text() -> None:
    class Local:
        def __str__(self) -> str:
            return "a local"

    rule = nvb.diagnostics.Rule("some.rule", "{value} and {number}", "do it", "why")
    given = rule.diagnose(value=Local(), number=3)
    made = pickle.loads(pickle.dumps(given))
    assert made.values == {"value": "a local", "number": 3}
    assert str(made) == str(given)


@nvb.kernel("sm_80", threads=lambda warps: 32 * warps)
def configured(k: Any, out: nvb.Pointer[f32], *, warps: int = 1, value: float = 1.0, scale: Any = None) -> None:
    out[k.thread_id()] = scale(k, k.const(value, f32)) if scale else value


@nvb.function
def doubled(k: Any, x: f32) -> f32:
    return x + x


def at_another_target(k: Any, out: nvb.Pointer[f32]) -> None:
    out[k.thread_id()] = 3.0


DEFINITIONS = {
    "as decorated": configured,
    "with constants": configured.with_(warps=2, value=2.0, scale=doubled, name="called"),
    "of a function": nvb.kernel("sm_90a", threads=64, math=nvb.MathPolicy(ftz=True))(at_another_target),
}
COMPILES = """
import pickle, sys
from pathlib import Path
for compile_ in pickle.loads(Path(sys.argv[1]).read_bytes()):
    print(repr(compile_(assemble=False).ptx))
"""


def test_a_definition_goes_to_another_process(tmp_path: Path) -> None:
    """As a bound method does, which is what an executor of processes is given."""
    (tmp_path / "pickled").write_bytes(pickle.dumps([one.compile for one in DEFINITIONS.values()]))
    printed = python_output(COMPILES, str(tmp_path / "pickled"))
    assert printed.splitlines() == [repr(one.compile(assemble=False).ptx) for one in DEFINITIONS.values()]
    assert pickle.loads(pickle.dumps((configured, doubled))) == (configured, doubled)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_copied_definition_builds_the_same(name: str) -> None:
    given = DEFINITIONS[name]
    for made in (copy.copy(given), copy.deepcopy(given), pickle.loads(pickle.dumps(given))):
        assert (made.name, repr(made), made.build()) == (given.name, repr(given), given.build())
        assert made.with_(**({"warps": 3} if given is not DEFINITIONS["of a function"] else {})).build()


def test_a_definition_that_no_import_finds_has_no_pickle() -> None:
    @nvb.kernel("sm_80", threads=32)
    def inside(k: Any, out: nvb.Pointer[f32]) -> None:
        out[k.thread_id()] = 1.0

    with pytest.raises(nvb.DiagnosticError, match=r"call\.pickle.*nothing is called .*<locals>\.inside"):
        pickle.dumps(inside)
    assert copy.deepcopy(inside).build() == inside.build()

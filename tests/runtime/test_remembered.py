"""What a kernel remembers of its launches: streams, grids, arrays and lines, told apart, and so many of each."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import runtime
from nvbackend.intrinsics.row import types
from nvbackend.runtime.launch import REMEMBERED_LAUNCHES
from nvbackend.signature import Pointer
from tests.support.runtime import FakeArray, FakeCompiled, FakeDevice, broken, signature

ADDRESS = 0x7F0000000000


def loaded(*kinds: Any) -> tuple[runtime.LoadedKernel, FakeDevice]:
    device = FakeDevice()
    return runtime.load(FakeCompiled(signature(*kinds)), device=device), device


def test_a_stream_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, device = loaded()
    made: list[int] = []
    monkeypatch.setattr(device, "stream", lambda handle: made.append(handle) or ("stream", handle))
    for stream in (0, 0x5000, 0, 0x5000, None, 1, 2):
        kernel.launch(1, stream=stream)
        kernel.prepare(1, stream=stream).run()
    assert made == [0, 0x5000, 1, 2]
    assert [stream for stream, *_ in device.named("launch")][::2] == [
        ("stream", handle) for handle in (0, 0x5000, 0, 0x5000, 0, 1, 2)
    ]


@pytest.mark.parametrize("what", ["stream", "configuration", "ordinal_of"])
def test_so_many_are_remembered_and_then_none(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 streams and 256 grids a kernel, 1024 arrays a parameter: what comes after them begins anew."""
    bound = 1024 if what == "ordinal_of" else 256
    kernel, device = loaded(Pointer(types.f16))
    asked: list[object] = []
    answer = getattr(device, what)
    monkeypatch.setattr(device, what, lambda given: asked.append(given) or answer(given))
    made = [FakeArray((64, 128), pointer=ADDRESS + 256 * index) for index in range(bound + 1)]

    def launch(number: int) -> int:
        """How often it is asked for in a launch with the stream, grid or array of this number."""
        before = len(asked)
        array = made[number if what == "ordinal_of" else 0]
        grid, stream = 1 + number * (what == "configuration"), number * (what == "stream")
        kernel.launch(grid, array, stream=stream + 0x1000)
        return len(asked) - before

    assert [launch(number) for number in range(bound)] == [1] * bound
    assert [launch(number) for number in range(bound)] == [0] * bound
    assert launch(bound) == 1
    assert [launch(number) for number in range(bound)] == [1] * bound


def test_so_many_lines_are_remembered() -> None:
    """A record is one object for as long as its line is known: 256 of them."""
    kernel, _ = loaded()

    def record(grid: int) -> object:
        return kernel.prepare(grid).record

    records = [record(grid) for grid in range(1, 257)]
    assert all(record(grid) is records[grid - 1] for grid in range(1, 257))
    assert record(257) not in records
    assert record(1) == records[0]
    assert record(1) is not records[0]


def test_a_launch_is_named_by_its_own_line() -> None:
    kernel, device = loaded()
    kernel.launch(1)
    kernel.launch(1)
    kernel.launch(2)
    device.failing = "synchronize"
    [diagnostic] = broken(kernel.synchronize)
    places = [location for _, location in diagnostic.notes]
    assert all(place is not None and place.file == __file__ for place in places)
    assert len({place.line for place in places if place}) == 3
    assert [place.source for place in places if place] == ["kernel.launch(1)", "kernel.launch(1)", "kernel.launch(2)"]


def test_lines_that_differ_in_anything_are_told_apart() -> None:
    """File, function, line and grid: each of them alone makes another launch."""
    kernel, device = loaded()
    places = list(itertools.product(("a.py", "b.py"), ("f", "g"), (1, 2), (3, 4)))
    expected = []
    for _ in range(4):  # from the second on a launch is known by its line
        for file, function, line, grid in places:
            names: dict[str, Any] = {"launch": kernel.launch, "__name__": "users"}
            text = "\n" * (line - 1) + f"def {function}(): launch({grid})"
            exec(compile(text, file, "exec"), names)
            names[function]()
            expected.append((f"launched: k (grid {(grid, 1, 1)})", file, line, function))
    device.failing = "synchronize"
    [diagnostic] = broken(kernel.synchronize)
    found = [(note, place.file, place.line, place.function) for note, place in diagnostic.notes if place]
    assert found == expected[-REMEMBERED_LAUNCHES:]
    assert len(places) == REMEMBERED_LAUNCHES


@pytest.mark.parametrize("call", ["kernel.launch(2)", "kernel[2]()", "kernel[2, None]()", "launch(2)", "later()"])
def test_a_line_that_launches_again_is_named(call: str) -> None:
    """In each way to launch, from the user's line and from a compiler's that the user calls."""
    kernel, device = loaded()
    names = {"kernel": kernel, "launch": kernel.launch, "later": functools.partial(kernel[2])}
    users, compiler = {**names, "__name__": "users"}, {**names, "__name__": "c", "__nvbackend_plumbing__": True}
    exec(compile(f"def lowered(): {call}", "compiler.py", "exec"), compiler)
    users["lowered"] = compiler["lowered"]
    exec(compile(f"def mine(): {call}\n\ndef other(): {call}\n\ndef lowers(): lowered()", "user.py", "exec"), users)
    threads = [threading.Thread(target=compiler["lowered"]) for _ in range(3)]  # which no line of a user's is beyond
    for thread in threads:
        thread.start()
        thread.join()
    expected = []
    for _ in range(5):
        for line, name in ((1, "mine"), (3, "other"), (5, "lowers")):
            users[name]()
            expected.append(("user.py", line, name))
    device.failing = "synchronize"
    [diagnostic] = broken(kernel.synchronize)
    found = [(place.file, place.line, place.function) for _, place in diagnostic.notes if place]
    assert found == [("compiler.py", 1, "lowered"), *expected]


def test_code_that_is_gone_is_not_taken_for_other_code() -> None:
    """Functions made and dropped, whose code may lie where another's lay."""
    kernel, device = loaded()
    for number in range(600):
        names: dict[str, Any] = {"launch": kernel.launch, "__name__": "users"}
        exec(compile(f"def made_{number}(): launch(1)", f"{number}.py", "exec"), names)
        for _ in range(3):
            names[f"made_{number}"]()
        del names
        if number % 50 == 0:
            device.failing = "synchronize"
            [diagnostic] = broken(kernel.synchronize)
            _, place = diagnostic.notes[-1]
            assert place is not None
            assert place.function == f"made_{number}"


def test_a_failure_of_a_launch_that_is_known_is_named() -> None:
    kernel, device = loaded(Pointer(types.f16))
    array = FakeArray((64, 128))
    for call in (lambda: kernel.launch(1, array), lambda: kernel[1](array)):
        for _ in range(3):
            call()
        device.failing = "launch"
        with pytest.raises(nvb.DiagnosticError) as caught:
            call()
        assert [each.rule_id for each in caught.value.diagnostics] == ["launch.failed"]
        frames = [entry.frame.f_code.co_filename for entry in inspect.getinnerframes(caught.tb)]
        assert set(frames) == {__file__}
        call()


def test_a_launch_that_no_line_makes_has_no_place() -> None:
    """A thread that calls the launch itself: nothing of the user's is on its stack."""
    kernel, device = loaded()
    thread = threading.Thread(target=kernel.launch, args=(1,))
    thread.start()
    thread.join()
    device.failing = "synchronize"
    [diagnostic] = broken(kernel.synchronize)
    assert diagnostic.notes == (("launched: k (grid (1, 1, 1))", None),)


def test_a_line_is_the_innermost_of_the_users_whatever_was_remembered() -> None:
    """Callers are known by their code: a function between, a library's and a compiler's own line are told apart."""
    kernel, _ = loaded()

    def inner() -> Any:
        return kernel.prepare(1).record

    def outer(launch: Any) -> Any:
        return launch(1).record if launch == kernel.prepare else launch()

    compiler: dict[str, Any] = {"__name__": "compilers", "__nvbackend_plumbing__": True}
    exec("def lowered(kernel): return kernel.prepare(1).record", compiler)

    def compiled() -> Any:
        return compiler["lowered"](kernel)

    for _ in range(2):
        assert outer(kernel.prepare).location.function == "outer"
        assert outer(inner).location.function == "inner"
        assert outer(functools.partial(inner)).location.function == "inner"
        assert outer(compiled).location.function == "compiled"
    lines = [kernel.prepare(1).record.location.line for _ in range(2)]
    lines += [kernel.prepare(1).record.location.line]
    assert lines[0] == lines[1] == lines[2] - 1

"""Packages of a compiler that say that they are plumbing: places are the lines of their users."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import pytest

import nvbackend as nvb
from nvbackend.codegen.llvm import compile_ir
from nvbackend.diagnostics import location, users
from nvbackend.diagnostics.location import MARK_OF_PLUMBING

LOWERING = """
import nvbackend as nvb

def wait(k, amount=20):
    k.nanosleep(amount)

def kept():
    return nvb.user_line()

def leave(k, early=True):
    with k.if_(k.thread_id() < 16):
        if early:
            return
    k.nanosleep(20)

def run(user, k):
    user(k)

def not_of_python(k):
    return len(k.thread_id())

def alone():
    k = nvb.KernelBuilder("alone", "sm_90a", threads=32)
    k.nanosleep(20)
    return k.finish()
"""


@pytest.fixture(params=["source", "site-packages"])
def lowering(request, monkeypatch, tmp_path):
    """A module two packages deep, of a compiler that is installed or not; its outer package is marked."""
    inner = tmp_path / request.param / "tiny" / "passes"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text(f"{MARK_OF_PLUMBING} = True\n")
    (inner / "__init__.py").write_text("")
    (inner / "lowering.py").write_text(LOWERING)
    monkeypatch.syspath_prepend(inner.parents[1])
    yield importlib.import_module("tiny.passes.lowering")
    for name in ("tiny", "tiny.passes", "tiny.passes.lowering"):
        del sys.modules[name]


def builder():
    return nvb.KernelBuilder("own", "sm_90a", threads=32)


def _waits(k):
    return [each.location for each in k.machine.blocks["entry"].instructions if each.opcode == "nanosleep"]


def test_the_line_is_the_users(lowering):
    k = builder()
    lowering.wait(k)
    line = inspect.currentframe().f_lineno - 1
    (place,) = _waits(k)
    assert (place.file, place.line) == (__file__, line)
    assert all("tiny" not in caller.file for caller in place.callers)
    finished = k.finish()
    ptx = compile_ir(finished.ir, finished.target).ptx
    assert "tiny" not in ptx and re.search(rf"\.loc\s+1 {line} 0\n\s+nanosleep", ptx)


def test_a_diagnostic_is_at_the_users_line(lowering):
    with pytest.raises(nvb.DiagnosticError) as raised:
        lowering.wait(builder(), -1)
    assert "tiny" not in str(raised.value)
    assert raised.value.diagnostics[0].location.source == "lowering.wait(builder(), -1)"
    assert any("tiny" in frame.frame.f_code.co_filename for frame in inspect.getinnerframes(raised.value.__traceback__))


def test_a_compiler_between_two_lines_of_its_user(lowering):
    k = builder()

    def user(k):
        lowering.wait(k)

    lowering.run(user, k)
    (place,) = _waits(k)
    assert place.source == "lowering.wait(k)"
    assert place.callers[0].source == "lowering.run(user, k)"


def test_a_module_takes_itself_out(lowering):
    setattr(lowering, MARK_OF_PLUMBING, False)
    k = builder()
    lowering.wait(k)
    (place,) = _waits(k)
    assert place.file == lowering.wait.__code__.co_filename


def test_a_line_that_a_compiler_keeps_is_its_users(lowering):
    place = lowering.kept()
    assert (place.file, place.source) == (__file__, "place = lowering.kept()")
    rule = nvb.Rule("tiny.mistake", message="{what}", fix="write it otherwise")
    with pytest.raises(nvb.DiagnosticError) as raised:
        rule.fail(at=place, what="a mistake")
    assert raised.value.diagnostics[0].location == place


def test_where_only_nvbackend_runs_there_is_no_line(monkeypatch):
    monkeypatch.setattr(users, "caller_location", lambda: None)
    assert nvb.user_line() == nvb.Location("<unknown>", 1, "")


def test_without_the_mark_its_lines_count(lowering):
    delattr(sys.modules["tiny"], MARK_OF_PLUMBING)
    k = builder()
    lowering.wait(k)
    (place,) = _waits(k)
    assert place.file == lowering.wait.__code__.co_filename


def test_a_mark_of_another_kind_says_nothing(lowering):
    setattr(sys.modules["tiny"], MARK_OF_PLUMBING, "True")
    k = builder()
    lowering.wait(k)
    assert "tiny" in _waits(k)[0].file


def test_with_a_place_of_its_own_python_follows(lowering):
    k = builder()
    with k.location("model.tiny", 4, name="wait"):
        lowering.wait(k)
    (place,) = _waits(k)
    assert str(place) == "model.tiny:4 in wait"
    assert place.callers[0].source == "lowering.wait(k)"


def test_a_python_exit_in_the_compiler_is_still_seen(lowering):
    """The statement that leaves a block is Python's own, in the compiler's code."""
    with pytest.raises(nvb.DiagnosticError, match=r"control\.left") as raised:
        lowering.leave(builder())
    assert raised.value.diagnostics[0].location.source == "return"


def test_what_python_cannot_do_is_reported_where_it_was_tried(lowering):
    @nvb.kernel("sm_90a", threads=32)
    def counted(k):
        lowering.not_of_python(k)

    with pytest.raises(nvb.DiagnosticError, match=r"value\.") as raised:
        counted.build()
    assert raised.value.diagnostics[0].location.source == "return len(k.thread_id())"


def test_a_compiler_that_nobody_calls_keeps_its_lines(lowering):
    with ThreadPoolExecutor(1) as pool:
        finished = pool.submit(lowering.alone).result()
    (place,) = [each.location for each in finished.machine.blocks["entry"].instructions if each.opcode == "nanosleep"]
    assert place.source == "k.nanosleep(20)"
    assert f"line: {place.line}" in finished.ir


ASKING = """
from nvbackend.diagnostics import location

def inner(**options):
    here = 3
    return location.caller_frame(**options)

def outer(**options):
    here = 5
    return inner(**options)
"""


@pytest.fixture
def asking():
    """A compiler's module whose functions ask for their caller's frame."""
    module = types.ModuleType("asking")
    vars(module)[MARK_OF_PLUMBING] = True
    exec(compile(ASKING, "asking.lang", "exec", dont_inherit=True), vars(module))
    return module


def test_the_frame_is_the_users_or_else_the_compilers_innermost(asking):
    def user(**options):
        return asking.outer(**options)

    def there(function, **options):
        frame = function(**options)
        return frame and frame.f_code.co_name

    with ThreadPoolExecutor(1) as pool:
        alone = [pool.submit(there, asking.outer, **each).result() for each in ({}, {"passes_compilers": False})]
        in_thread = pool.submit(asking.outer).result()
    assert there(user) == "user"
    assert there(user, passes_compilers=False) == "inner"
    assert alone == ["there", "inner"]
    assert in_thread.f_code.co_name == "inner", "nobody but Python's library calls it"


def test_a_compiler_is_not_kept_as_the_user(asking):
    """A place that asks again and again has the user's frame, also after nobody but the compiler was there."""
    callers = location.CallerFrames()
    asking.location = types.SimpleNamespace(caller_frame=callers.caller)

    def first():
        return asking.outer()

    def second():
        return asking.outer()

    for _ in range(2):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(asking.outer).result().f_code.co_name == "inner"
        assert [function().f_code.co_name for function in (first, second, first)] == ["first", "second", "first"]

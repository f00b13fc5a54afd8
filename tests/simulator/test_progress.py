"""Long launches: a line on a terminal, and Ctrl-C."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from nvbackend.simulator import Simulator, progress
from nvbackend.simulator.execution import Execution
from nvbackend.simulator.program.scheduler import Scheduler
from tests.simulator.calls.bodies import ptx
from tests.support.process import ROOT

SPIN = """
import signal
import sys
import numpy as np
from nvbackend.simulator import Simulator
from tests.simulator.calls.bodies import ptx

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job is started with it ignored
out = np.zeros(64, np.uint32)
body = "st.global.u32 [%rd0], 7; mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L;"
module = Simulator().load(ptx(body, [out]), source="spin.ptx")
print("ready", flush=True)
try:
    module.launch("k", block=(64,), args=[out])
except KeyboardInterrupt as interrupted:
    print(interrupted, out[0], flush=True)
    raise
"""


class _Terminal(io.StringIO):
    """A terminal, which knows when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_ctrl_c_says_where_it_was_and_shows_the_users_lines_alone() -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SPIN)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    try:
        running.wait(2)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGINT)
    try:
        printed, errors = running.communicate(timeout=60)
    finally:
        running.kill()
    assert printed.startswith("k was interrupted at spin.ptx:11, PTX line 11: ")
    assert printed.endswith("; 0 of 1 CTAs have ended 7\n")
    assert "nvbackend/simulator" not in errors
    assert errors.count('File "') == 1


@pytest.mark.parametrize("method", ["_lanes", "_block", "_leave", "_try_again", "_wake", "_complete", "go_on"])
def test_ctrl_c_between_two_blocks_says_where_it_was_too(method: str, monkeypatch) -> None:
    """Ctrl-C comes at any moment; here it comes when a method of the scheduler is called for the fourth time."""
    calls, own = [], getattr(Scheduler, method)

    def interrupted(self: Scheduler, *args: object) -> object:
        calls.append(method)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return own(self, *args)

    monkeypatch.setattr(Scheduler, method, interrupted)
    module = Simulator().load(
        ptx("mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L;"), source="spin.ptx"
    )
    with pytest.raises(KeyboardInterrupt, match=r"k was interrupted at spin\.ptx:1\d, PTX line 1\d: .*; 0 of 1 CTAs"):
        module.launch("k", block=(64,))


def shown(stream: io.StringIO) -> str:
    """What a launch writes."""
    module = Simulator().load(ptx("mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3000; @%p1 bra L;"))
    launch = module.start("k", block=(64,), grid=(3,))
    execution: Execution = launch._execution
    with progress.Progress(execution, stream):
        if isinstance(stream, _Terminal):
            assert stream.written.wait(60)  # a thread may get its first turn late
        launch.finish()
    return stream.getvalue()


def test_a_terminal_gets_a_line_that_goes_away(monkeypatch) -> None:
    monkeypatch.setattr(progress, "_QUIET", 0.01)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    text = shown(_Terminal())
    assert "k [........................] 0 of 3 CTAs, " in text
    assert text.endswith("\r\x1b[K")


def test_nothing_else_gets_one(monkeypatch) -> None:
    monkeypatch.setattr(progress, "_QUIET", 0.0)
    assert shown(io.StringIO()) == ""


def test_the_line_counts_what_has_ended() -> None:
    out = np.zeros(64, np.uint32)
    launch = Simulator().load(ptx("st.global.u32 [%rd0], 7;", [out])).start("k", block=(64,), grid=(4,), args=[out])
    launch.finish()
    line = progress.line(launch._execution, 3.2)
    assert line.startswith("k [########################] 4 of 4 CTAs, ") and line.endswith(" steps, 3 s")

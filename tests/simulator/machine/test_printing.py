"""vprintf: what a kernel prints, held against Python's own formatting and C's rules of promotion."""

from __future__ import annotations

import pytest

from nvbackend.simulator import Simulator

TEXT = """.version 9.0
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 format[{length}] = {{{bytes}}};
.global .align 1 .b8 word[4] = {{111, 110, 101, 0}};
.visible .entry k() {{
.local .align 8 .b8 box[64];
.reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .f64 %fd<2>;
mov.u64 %rd0, box; cvta.local.u64 %rd1, %rd0;
mov.u32 %r0, %tid.x;
{stores}
mov.u64 %rd2, format; cvta.global.u64 %rd3, %rd2;
{{
.param .b64 p0; st.param.b64 [p0], %rd3;
.param .b64 p1; st.param.b64 [p1], %rd1;
.param .b32 back;
call.uni (back), vprintf, (p0, p1);
}}
ret;
}}
"""


def printed(capsys: pytest.CaptureFixture[str], pattern: str, stores: str, threads: int = 1) -> str:
    data = (*pattern.encode(), 0)
    text = TEXT.format(length=len(data), bytes=", ".join(map(str, data)), stores=stores)
    Simulator().load(text).launch("k", block=(threads,))
    return capsys.readouterr().out


def test_each_thread_prints_in_its_turn(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "thread %2d of %u%%\n", "st.local.u32 [%rd0], %r0; st.local.u32 [%rd0+4], 3;", threads=3)
    assert found == "".join(f"thread {thread:2d} of 3%\n" for thread in range(3))


def test_arguments_are_at_multiples_of_their_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    stores = """st.local.u32 [%rd0], -7; mov.f64 %fd0, 0d3FF8000000000000; st.local.f64 [%rd0+8], %fd0;
mov.u64 %rd4, word; cvta.global.u64 %rd5, %rd4; st.local.u64 [%rd0+16], %rd5; st.local.u32 [%rd0+24], 65;
st.local.u64 [%rd0+32], -1;"""
    found = printed(capsys, "%d|%8.3f|%-5s|%c|%llx|", stores)
    assert found == f"-7|{1.5:8.3f}|one  |A|{2**64 - 1:x}|"


def test_widths_are_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    stores = (
        "st.local.u32 [%rd0], 6; st.local.u32 [%rd0+4], 42; st.local.u32 [%rd0+8], -1; st.local.u32 [%rd0+12], 255;"
    )
    assert printed(capsys, "%*d,%u,%#x\n", stores) == f"{42:6d},{2**32 - 1},{255:#x}\n"


def test_text_without_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "hello\n", "") == "hello\n"


def test_text_is_unicode(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "größer als π\n", "") == "größer als π\n"

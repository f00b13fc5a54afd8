"""What diagnostics call an instruction of the machine form."""

from __future__ import annotations

from nvbackend.isel.machine.function import MachineInstr

MOST_NOTES = 3
"""Places of one kind that a diagnostic lists: more fill the screen and say nothing new."""


def with_line(instr: MachineInstr) -> str:
    """Its opcode, and its line in the program where that is known."""
    return f"the {instr.opcode}" + (f" of line {instr.location.line}" if instr.location else "")


def named_threads(threads: int, everyone: int) -> str:
    """Threads, a bit each: "all threads", "thread 3", "threads 0 to 31", "some of threads 0 to 63"."""
    if threads == everyone:
        return "all threads"
    first, last = (threads ^ threads - 1).bit_length() - 1, threads.bit_length() - 1
    if threads.bit_count() == 1:
        return f"thread {first}"
    some = "" if threads.bit_count() == last - first + 1 else "some of "
    return f"{some}threads {first} to {last}"

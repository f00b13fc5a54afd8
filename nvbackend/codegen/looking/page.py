"""A compiled kernel as one page of HTML: Python, machine form, PTX and SASS side by side, and what it takes of an SM.

The page asks for nothing from anywhere: its style and its script are in it. A click on a line marks what belongs to the
same line of Python in every form, and brings it into view.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from html import escape
from pathlib import Path

from nvbackend.codegen.looking.built import BuiltKernel
from nvbackend.codegen.looking.ir_places import Place
from nvbackend.codegen.looking.listings import FORMS, ListedLine
from nvbackend.codegen.looking.occupancy import MULTIPROCESSORS, occupancy, register_limit
from nvbackend.diagnostics import DiagnosticError

_SHOWN = ("machine", "ptx", "sass")
_TITLES = {"machine": "Machine form", "ptx": "PTX", "sass": "SASS"}
_AROUND = 2
"""Lines of Python before the first and after the last that something comes from."""
_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 0; height: 100vh; display: flex; flex-direction: column; }
header { padding: 8px 12px; border-bottom: 1px solid #bbb; }
h1 { font-size: 18px; margin: 0 0 6px; }
h2 { font-size: 14px; margin: 0; padding: 4px 8px; background: #eee; position: sticky; top: 0; }
table { border-collapse: collapse; }
td { padding: 1px 12px 1px 0; }
.bar { width: 200px; height: 10px; background: #e4e4e4; }
.bar div { height: 10px; background: #76a832; }
main { flex: 1; display: flex; min-height: 0; }
section { flex: 1; overflow: auto; border-right: 1px solid #bbb; font: 12px ui-monospace, monospace; }
.l { white-space: pre; padding: 0 8px; min-height: 15px; }
.l[data-p] { cursor: pointer; }
.l[data-p]:hover { background: #f2f2f2; }
.n { color: #888; display: inline-block; min-width: 3em; text-align: right; padding-right: 1em; }
.on, .on:hover { background: #fff0b3 !important; }
.warnings { color: #a33; white-space: pre-wrap; }
"""
_SCRIPT = """
document.addEventListener("click", function (event) {
  var line = event.target.closest(".l[data-p]");
  document.querySelectorAll(".on").forEach(function (each) { each.classList.remove("on"); });
  if (!line) return;
  var place = line.dataset.p;
  document.querySelectorAll("section").forEach(function (column) {
    var first = null;
    column.querySelectorAll(".l[data-p]").forEach(function (each) {
      if (each.dataset.p !== place) return;
      each.classList.add("on");
      if (!first) first = each;
    });
    if (first && !column.contains(line)) column.scrollTop = first.offsetTop - column.offsetTop - 60;
  });
});
"""


def page(kernel: BuiltKernel) -> str:
    """The whole text. SASS is there where ptxas and a disassembler are found."""
    forms = {form: _listed(kernel, form) for form in _SHOWN}
    places = sorted({line.place for lines in forms.values() for line in lines if line.place is not None})
    keys = {place: str(number) for number, place in enumerate(places)}
    title = escape(f"{kernel.signature.name} for {kernel.target.name}")
    columns = [_column("Python", _python(places, keys))]
    columns += [_column(_TITLES[form], _lines(lines, keys)) for form, lines in forms.items()]
    return "".join(
        (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n',
            f"<style>{_STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n{summary(kernel)}</header>\n<main>\n",
            *columns,
            f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        )
    )


def summary(kernel: BuiltKernel) -> str:
    """What the kernel takes, as a table with bars."""
    rows = [_row(name, text, part) for name, text, part in _resources(kernel)]
    warnings = "".join(f'<div class="warnings">{escape(str(each))}</div>\n' for each in kernel.diagnostics)
    return f"<table>\n{''.join(rows)}</table>\n{warnings}"


def _listed(kernel: BuiltKernel, form: str) -> list[ListedLine]:
    try:
        return list(FORMS[form](kernel))
    except DiagnosticError as error:  # no ptxas, or no disassembler
        return [ListedLine(line) for line in str(error).splitlines()]


def _resources(kernel: BuiltKernel) -> Iterator[tuple[str, str, float | None]]:
    """The name of a resource, what is taken in words, and which part of all that there is."""
    bounds = kernel.signature.bounds
    yield "threads", f"{bounds.threads} a CTA" + (f", {bounds.cluster} CTAs a cluster" * (bounds.cluster > 1)), None
    if kernel.cubin is None:
        return
    used, limit = kernel.cubin.kernel(kernel.signature.name), register_limit(bounds)
    yield "registers", f"{used.registers} a thread, of {limit}", used.registers / limit
    shared = used.shared_bytes + bounds.dynamic_shared_bytes
    room = MULTIPROCESSORS.get(kernel.target.number)
    if room is not None:
        yield "shared memory", f"{shared} bytes a CTA, of {room.shared_bytes} an SM", shared / room.shared_bytes
    counted = occupancy(kernel.target, bounds, used)
    if counted is not None:
        yield "occupancy", str(counted), counted.threads / counted.most_threads
    spilled = used.spill_stores_bytes + used.spill_loads_bytes
    yield "spills", f"{spilled} bytes" if spilled else "none", None


def _row(name: str, text: str, part: float | None) -> str:
    bar = "" if part is None else f'<div class="bar"><div style="width: {min(part, 1):.0%}"></div></div>'
    return f"<tr><td>{escape(name)}</td><td>{bar}</td><td>{escape(text)}</td></tr>\n"


def _column(title: str, lines: Iterator[str]) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{''.join(lines)}</section>\n"


def _python(places: list[Place], keys: dict[Place, str]) -> Iterator[str]:
    """The lines of each file from the first to the last that something comes from."""
    for file in dict.fromkeys(file for file, _ in places):
        numbers = [line for each, line in places if each == file]
        text = linecache.getlines(file)
        yield f'<div class="l">{escape(Path(file).name)}</div>\n'
        for number in range(max(numbers[0] - _AROUND, 1), numbers[-1] + _AROUND + 1):
            if number <= len(text) or number in numbers:
                line = text[number - 1].rstrip() if number <= len(text) else ""
                yield _line(line, number, keys.get((file, number)))


def _lines(lines: list[ListedLine], keys: dict[Place, str]) -> Iterator[str]:
    for line in lines:
        place = line.place
        yield _line(line.text.expandtabs(4), place[1] if place else None, keys[place] if place else None)


def _line(text: str, number: int | None, key: str | None) -> str:
    data = "" if key is None else f' data-p="{key}"'
    shown = "" if number is None else str(number)
    return f'<div class="l"{data}><span class="n">{shown}</span>{escape(text)}</div>\n'

"""A compiled kernel as one page of HTML: Python, machine form, PTX and SASS side by side, and what it takes of an SM.

Above them, folded away: its packed words decoded, its fragments and swizzles drawn, and the timeline of a launch. The
page asks for nothing from anywhere: its style and its script are in it. A click on a line marks what belongs to the
same line of Python in every form, and brings it into view.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from nvbackend.codegen.looking.built import BuiltKernel
from nvbackend.codegen.looking.drawn import Drawing, Word, pictures, words
from nvbackend.codegen.looking.ir_places import Place
from nvbackend.codegen.looking.listings import FORMS, ListedLine
from nvbackend.codegen.looking.occupancy import MULTIPROCESSORS, occupancy, register_limit
from nvbackend.codegen.ptxas import declared
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.location import source_lines

_SHOWN = ("machine", "ptx", "sass")
_TITLES = {"machine": "Machine form", "ptx": "PTX", "sass": "SASS"}
_AROUND = 2
"""Lines of Python before the first and after the last that something comes from."""
_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 0; height: 100vh; display: flex; flex-direction: column; }
header { padding: 8px 12px; border-bottom: 1px solid #bbb; flex: none; box-sizing: border-box; }
header { max-height: 65vh; overflow: auto; }
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
details { margin: 4px 0; }
summary { cursor: pointer; }
.drawn { overflow: auto; border: 1px solid #ddd; padding: 4px 8px; }
.drawn h3 { font-size: 13px; margin: 10px 0 4px; }
.drawn td { font: 12px ui-monospace, monospace; }
.drawn td:last-child { white-space: normal; }
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


def page(kernel: BuiltKernel, timeline: Drawing | None = None) -> str:
    """The whole text, with this picture of a launch. SASS is there where ptxas and a disassembler are found."""
    forms = {form: _listed(kernel, form) for form in _SHOWN}
    places = sorted({place for lines in forms.values() for line in lines for place in _named(line)})
    keys = {place: str(number) for number, place in enumerate(places)}
    title = escape(f"{kernel.signature.name} for {kernel.target.name}")
    columns = [_column("Python", _python(places, keys))]
    columns += [_column(_TITLES[form], _lines(lines, keys)) for form, lines in forms.items()]
    return "".join(
        (
            f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n',
            f"<style>{_STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n{summary(kernel)}",
            *_folded(kernel, keys, timeline),
            "</header>\n<main>\n",
            *columns,
            f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        )
    )


def _named(line: ListedLine) -> tuple[Place, ...]:
    """The places that a line is of: its own and those that called it."""
    return () if line.place is None else (line.place, *line.callers)


def _folded(kernel: BuiltKernel, keys: dict[Place, str], timeline: Drawing | None) -> Iterator[str]:
    """What is shown when it is asked for."""
    decoded = words(kernel.machine)
    if decoded:
        rows = "".join(_word(word, keys) for word in decoded)
        yield _details(f"Packed words ({len(decoded)})", f"<table>\n{rows}</table>\n")
    drawn = [f"<h3>{escape(title)}</h3>\n{picture.svg}" for title, picture in pictures(kernel.machine)]
    if drawn:
        yield _details(f"Layouts ({len(drawn)})", "".join(drawn))
    if timeline is not None:
        yield _details("Timeline of a launch in the simulator", timeline.svg)


def _details(title: str, text: str) -> str:
    return f'<details>\n<summary>{escape(title)}</summary>\n<div class="drawn">\n{text}</div>\n</details>\n'


def _word(word: Word, keys: dict[Place, str]) -> str:
    place = "" if word.place is None else str(word.place[1])
    data = f' data-p="{keys[word.place]}"' if word.place in keys else ""
    cells = (place, word.instruction, word.name, f"{word.value:#018x}", word.fields)
    return f'<tr class="l"{data}>' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>\n"


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
    name = kernel.signature.name
    used, limit = kernel.cubin.kernel(name), register_limit(bounds, declared(kernel.ptx, name, "maxnreg"))
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
        text = source_lines(file)
        yield f'<div class="l">{escape(Path(file).name)}</div>\n'
        for number in range(max(numbers[0] - _AROUND, 1), numbers[-1] + _AROUND + 1):
            if number <= len(text) or number in numbers:
                line = text[number - 1].rstrip() if number <= len(text) else ""
                yield _line(line, number, keys.get((file, number)))


def _lines(lines: list[ListedLine], keys: dict[Place, str]) -> Iterator[str]:
    for line in lines:
        place = line.place
        called = ", ".join(f"{Path(file).name}:{number}" for file, number in line.callers)
        hint = f"called at {called}" if called else ""
        yield _line(line.text.expandtabs(4), place[1] if place else None, keys[place] if place else None, hint)


def _line(text: str, number: int | None, key: str | None, hint: str = "") -> str:
    data = ("" if key is None else f' data-p="{key}"') + (f' title="{escape(hint)}"' if hint else "")
    shown = "" if number is None else str(number)
    return f'<div class="l"{data}><span class="n">{shown}</span>{escape(text)}</div>\n'

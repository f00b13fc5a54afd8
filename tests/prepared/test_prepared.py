"""What is compiled with the package is what the texts of its dataclasses say, and all that they say."""

from __future__ import annotations

from pathlib import Path

from nvbackend.diagnostics.classes import prepared, texts
from tests.prepared.document import asked_for, document
from tests.support.process import python_output

COMPILE = """
import sys
compiled = []
as_text = lambda source: source.decode() if isinstance(source, bytes) else str(source)
sys.addaudithook(lambda event, args: event == "compile" and compiled.append(as_text(args[0])))
import nvbackend as nvb
from samples import hopper_gemm
hopper_gemm.gemm.compile(cache=nvb.Cache.disabled(), assemble=False)
compile("def make(): 'the witness sees a text'", "<string>", "exec")
print([text for text in compiled if text.startswith("def make")])
"""


def test_the_module_is_up_to_date() -> None:
    assert Path(prepared.__file__).read_text() == document(), (
        "python -m tests.prepared > nvbackend/diagnostics/classes/prepared.py"
    )


def test_each_text_has_a_name_of_its_own() -> None:
    asked = asked_for()
    assert len(asked) > 100
    assert len({texts.prepared_name(text) for text in asked}) == len(asked)


def test_a_fresh_process_compiles_no_text() -> None:
    assert python_output(COMPILE).strip() == """["def make(): 'the witness sees a text'"]"""


def test_an_unknown_text_is_compiled() -> None:
    code = texts.method_code("(made):\n def __init__(self): self.value = made\n")
    assert code.co_name == "__init__"
    assert code.co_freevars == ("made",)

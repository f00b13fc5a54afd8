"""`python -m tests.pages`: write the pictures, and the list of rooms."""

from __future__ import annotations

from tests.pages.made import made

for path, text in made().items():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")

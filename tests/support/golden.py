"""Golden files: what people read, kept in the repository beside the tests that print it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.process import ROOT


@dataclass(frozen=True)
class Golden:
    """The folder `goldens` beside a test file. `update` writes instead of comparing (pytest --update-golden)."""

    folder: Path
    update: bool

    def check(self, name: str, text: str) -> None:
        """Fail unless `text` is what the file `name` of the folder holds.

        Files of the checkout, as PTX names those that its lines are of, are there without the checkout's own place.
        """
        path = self.folder / name
        text = text.replace(f"{ROOT}/", "").rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"no golden {path}: look at the text, then bless it with pytest --update-golden\n{text}"
        assert text == path.read_text(encoding="utf-8"), f"differs from {path}; pytest --update-golden blesses it"

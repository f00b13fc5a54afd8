"""`python -m tests.site FOLDER`: write the site as HTML. A warning of Sphinx, such as a broken link, is an error."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.site.pages import pages
from tests.support.process import ROOT

PICTURES = ROOT / "docs" / "pictures"


def main(folder: str) -> int:
    """Write the sources to a temporary folder, and let Sphinx make the site of them; its exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch)
        for name, text in pages().items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text, encoding="utf-8")
        (source / "pictures").symlink_to(PICTURES)
        settings = str(Path(__file__).parent)
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-j",
            "auto",
            "-b",
            "html",
            "-c",
            settings,
        ]
        return subprocess.run([*command, str(source), folder], check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.site FOLDER")
    sys.exit(main(sys.argv[1]))

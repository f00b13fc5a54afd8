"""`python -m tests.api > docs/api.md`."""

from __future__ import annotations

import sys

from tests.api.document import document

sys.stdout.write(document())

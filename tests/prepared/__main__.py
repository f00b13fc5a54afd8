"""`python -m tests.prepared > nvbackend/diagnostics/classes/prepared.py`."""

from __future__ import annotations

import sys

from tests.prepared.document import document

sys.stdout.write(document())

"""`python -m tests.rules > docs/rules.md`."""

from __future__ import annotations

import sys

from tests.rules.document import main

sys.exit(main())

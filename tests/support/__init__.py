"""What tests of several parts share: outside witnesses, subprocesses, goldens."""

import pytest

pytest.register_assert_rewrite("tests.support.golden")

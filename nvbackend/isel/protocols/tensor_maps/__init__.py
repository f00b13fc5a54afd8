"""tensor maps that a kernel changes: what publishes a map, and what acquires it before a copy uses it."""

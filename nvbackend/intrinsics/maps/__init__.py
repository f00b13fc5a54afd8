"""Which thread holds what, for every row that has fragments."""

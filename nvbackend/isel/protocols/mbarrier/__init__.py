"""mbarriers from their initialisation on: which threads arrive, how often, with which bytes, and wait for which parity."""

"""mbarriers from their initialisation on: which threads arrive, how often, with which bytes, and which wait."""

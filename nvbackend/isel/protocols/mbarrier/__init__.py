"""mbarriers: from their initialisation on, who arrives, how often, with which bytes, and who waits for which parity."""

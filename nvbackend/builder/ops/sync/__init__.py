"""Barriers, mbarriers, clusters, fences, register budgets: the nouns of synchronisation."""

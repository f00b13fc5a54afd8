"""Bank conflicts of shared-memory accesses."""

"""What comes before what: events, the accesses of shared memory, and which of them nothing orders."""

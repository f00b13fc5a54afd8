"""One call for each machine operation, a file for each kind."""

"""Random requests, legal and not."""

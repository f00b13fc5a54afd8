"""The order of events in a dry run: which bytes are accessed, and what is known to come first."""

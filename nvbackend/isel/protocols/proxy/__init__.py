"""The generic and the async proxy: how shared memory was written, and what is between the writes and their readers."""

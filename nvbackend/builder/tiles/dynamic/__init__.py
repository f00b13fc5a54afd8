"""Dynamic tiles: drawn from a counter in memory by the producer, and mailed to the consumers."""

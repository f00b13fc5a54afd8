"""TMA, bulk copies, cp.async, asynchronous stores, caches: the nouns of data movement."""

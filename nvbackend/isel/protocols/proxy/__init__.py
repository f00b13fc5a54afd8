"""The generic and the async proxy: who wrote shared memory how, and what stands between that and its readers."""

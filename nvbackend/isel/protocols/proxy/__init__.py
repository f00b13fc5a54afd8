"""The generic and the async proxy: who wrote shared memory how, and what comes between that and its readers."""

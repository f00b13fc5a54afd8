"""What threads wait for: mbarriers, barriers of threads, and groups of asynchronous operations."""

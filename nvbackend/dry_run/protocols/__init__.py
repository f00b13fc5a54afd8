"""What the steps of a dry run do to barriers, groups, proxies and memory, and which of them nothing orders."""

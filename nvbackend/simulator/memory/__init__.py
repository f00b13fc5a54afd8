"""Memory as byte arrays: spaces, allocations with their extents, generic addresses."""

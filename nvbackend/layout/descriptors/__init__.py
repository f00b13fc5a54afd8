"""Matrix descriptors from layouts and back, and the canonical layouts that they can describe."""

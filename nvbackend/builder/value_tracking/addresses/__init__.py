"""Points-to analysis of addresses: the allocation, the offset in it, and the CTA that owns it."""

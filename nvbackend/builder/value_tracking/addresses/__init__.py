"""Where addresses lead: the allocation, the distance in it, the CTA that has it."""

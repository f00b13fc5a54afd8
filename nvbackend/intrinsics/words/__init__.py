"""Packed words: descriptors of operands and instructions, field by field, and the layouts that they describe."""

"""Points-to analysis of addresses: their allocation, offset and CTA, and what it shows of an instruction's operands."""

"""The builder's core: where code goes, control flow, variables, parameters."""

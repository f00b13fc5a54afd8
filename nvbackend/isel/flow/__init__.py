"""The flow of a finished function: graph, loops, dominators, dataflow, who takes which path and accesses what."""

"""The flow of a finished function: graph, loops, dominators, dataflow, which threads take which path and access what."""

"""The flow of a finished function: graph, loops, dominators, dataflow, each thread's path and accesses."""

"""The control flow of a finished function: graph, loops, dominators, the solver of dataflow, who takes which path."""

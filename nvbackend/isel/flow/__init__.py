"""The control flow of a finished function: its graph, loops, dominators, the solver of dataflow, who takes which path."""

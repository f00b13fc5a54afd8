"""The instructions of tensor cores on the machine: what `simulator.tensor` computes, with registers and memory."""

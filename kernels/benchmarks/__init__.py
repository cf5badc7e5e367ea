"""What the kernels cost: on paper, compiled ahead of time, on a GPU, and of the twins on a CPU."""

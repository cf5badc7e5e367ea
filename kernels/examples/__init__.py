"""Uses of the kernels outside of this repository's own engine."""

"""Compiled kernels: numba's decorators and cache, intrinsics numba lacks, and a pool of native threads."""

"""How training is computed: eagerly, compiled, or as CUDA graphs."""

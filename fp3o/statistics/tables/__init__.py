"""A table from its cells to its files. Imports nothing: Snakemake needs `columns` without SciPy."""

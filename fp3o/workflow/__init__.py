"""What the Snakefile and its commands call: jobs, manifest, store, status, cost measurement. Imports no torch."""

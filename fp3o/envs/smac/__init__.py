"""SMAC: battles on arrays."""

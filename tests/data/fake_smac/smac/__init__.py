"""A stand-in for the smac package: replays recorded battles."""

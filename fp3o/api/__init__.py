"""The public API behind the names of `fp3o`: runs as objects, teams that act anywhere, training as a call."""

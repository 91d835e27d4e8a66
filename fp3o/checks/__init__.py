"""Checks that train or play: `fp3o check-algorithm` and `fp3o check-smac`."""

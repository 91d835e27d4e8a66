"""Records, replays and compares battles, for `fp3o check-smac` and for fitting the embedded engine."""

"""Battles recorded, replayed and compared: for `fp3o check-smac` and the fit of the embedded engine."""

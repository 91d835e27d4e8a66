"""Algorithms and environments of users, in files of their own: declared, loaded, checked (docs/plugins.md)."""

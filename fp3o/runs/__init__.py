"""A run on disk: the layout of its folder, its file formats, checkpoints, atomic writing, locks."""

"""Learning: tensors in, tensors out; no files, no compiler."""

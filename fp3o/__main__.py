"""`python -m fp3o`: the `fp3o` command of this interpreter."""

import os
import sys

# `-m` puts the current folder before everything installed: a torch.py lying there would be taken for torch.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from fp3o.cli import main

main()

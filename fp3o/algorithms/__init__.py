"""The algorithms, by the name cells use. A new one is a generator of turns (`turns.py`) and a line here."""

from __future__ import annotations

from fp3o.algorithms.full_pipeline import fp3o
from fp3o.algorithms.sequential import a2po, happo
from fp3o.algorithms.simultaneous import coppo, ppo
from fp3o.algorithms.turns import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    "fp3o": Algorithm(fp3o),
    "mappo": Algorithm(ppo),
    "ippo": Algorithm(ppo, critic_input="observation"),
    "happo": Algorithm(happo),
    "a2po": Algorithm(a2po),
    "coppo": Algorithm(coppo),
}

"""Which cells a table shows; apart from the statistics, so that planning does not import SciPy."""

from __future__ import annotations

from fp3o.config import Artefact, Cell, Suite

# Shown beside the paper's columns wherever the suite has it, marked as ours: the paper gives FP3O twice the updates.
CONTROL = "mappo-10-epochs"


def cells_of(suite: Suite, artefact: Artefact) -> tuple[Cell, ...]:
    """The artefact's cells and, for a table of the paper with MAPPO in it, the equal-budget control of each row."""
    if artefact.kind != "table" or not artefact.paper:
        return artefact.cells
    planned = {cell for other in suite.artefacts if other.kind != "cost" for cell in other.cells}
    algorithm, _, variant = CONTROL.partition("-")
    controls = (
        Cell(cell.domain, cell.task, cell.sharing, algorithm, variant)
        for cell in artefact.cells
        if cell.label == algorithm
    )
    return tuple(dict.fromkeys((*artefact.cells, *(cell for cell in controls if cell in planned))))

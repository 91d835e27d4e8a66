"""Which cells a table shows. A file of its own, so that Snakemake can build its job graph without importing SciPy."""

from __future__ import annotations

from fp3o.config import Artefact, Cell, Suite

# The equal-budget control, which the paper lacks. FP3O trains twice per iteration (independent and dependent step), so
# MAPPO with twice the epochs is shown beside the paper's columns wherever the suite has it.
CONTROL = "mappo-10-epochs"


def cells_of(suite: Suite, artefact: Artefact) -> tuple[Cell, ...]:
    """The artefact's cells and, for a table of the paper, the equal-budget control beside every MAPPO cell."""
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

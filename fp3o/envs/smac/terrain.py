"""Where units can walk: grids of half cells, the pathing grid that smac reads, and shortest ways around corners.

The game's pathing grids can only be read from a running game. Cliff levels and cell flags in the map files determine
them up to about one cell; the width of the corridor's choke, where this matters most, is an option.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from fp3o.envs.native.compiled import compiled
from fp3o.envs.smac.layouts import MAP_SIZE, Array
from fp3o.envs.smac.scenarios import TerrainName
from fp3o.errors import UserError

HALF_CELLS = 2 * MAP_SIZE
CLEARANCE = 0.2  # cells between a way and walls, so that units do not get stuck at corners; assumed
CHOKE_CENTRE = 13.0  # corridor: the two chambers' edges overlap in 10 ≤ x < 16
CHOKES = range(1, 7)  # possible widths in cells; wider ones than the overlap make no difference

# Corridor, from the cliff levels in the map file: first and last column (inclusive) of each row y.
_CORRIDOR_ROWS: dict[int, tuple[int, int]] = (
    {y: (y - 11, 30) for y in range(23, 31)}  # the left edge moves one west per row, 19 … 12
    | dict.fromkeys(range(17, 23), (11, 30))
    | {16: (12, 29), 15: (12, 28), 14: (11, 27), 13: (10, 26), 12: (1, 15), 11: (1, 14), 10: (1, 13)}
    | dict.fromkeys(range(4, 10), (1, 12))
    | {3: (1, 13), 2: (1, 14), 1: (1, 14)}
)


class Ground(NamedTuple):
    """The terrain as arrays, for the kernels."""

    walkable: Array
    """[2, 64, 64] half cells by (layer, x, y); layer 0: for ground units, 1: for units that walk over cliffs."""
    pathing: Array
    """[32, 32] cells by (x, y): whether a move there is legal, for every unit."""
    convex: bool
    """Whether any two walkable points are connected by a straight line, so that the tables below are not needed."""
    node: Array
    """[32, 32] index of the cell in the tables below; for blocked cells, of the nearest walkable one."""
    node_x: Array
    """[K] centre of the cell."""
    node_y: Array
    way: Array
    """[K, K] the first node on the shortest way from a node to another."""


@functools.cache
def ground(name: TerrainName, choke_width: float) -> Ground:
    """The terrain of a map; computed once per process."""
    plane = _half_cells(name, choke_width)
    halves = (MAP_SIZE, 2, MAP_SIZE, 2)
    quarters = plane.reshape(halves).sum(axis=(1, 3))
    pathing = (quarters >= 2).astype(np.uint8)
    columns, rows = np.nonzero(pathing)
    middles = (np.arange(HALF_CELLS) + 0.5) / 2  # of half cells
    sums = [(plane * along).reshape(halves).sum(axis=(1, 3)) for along in (middles[:, None], middles)]
    node_x, node_y = (total[columns, rows] / quarters[columns, rows] for total in sums)
    grid = np.arange(MAP_SIZE) + 0.5
    gaps = (grid[:, None, None] - node_x) ** 2 + (grid[None, :, None] - node_y) ** 2
    node = gaps.argmin(axis=2).astype(np.int16)
    node[columns, rows] = np.arange(len(columns))
    cliffs = np.zeros_like(plane)
    inside = np.argwhere(plane)
    (left, low), (right, high) = inside.min(axis=0), inside.max(axis=0)
    cliffs[left : right + 1, low : high + 1] = True
    convex = name not in ("corridor", "plateau")
    way = np.zeros((1, 1), np.int16)
    if not convex:
        way = np.empty((len(columns), len(columns)), np.int16)
        _find_ways(plane, node_x, node_y, way)
    return Ground(
        np.stack([plane, cliffs]), pathing, convex, node, node_x.astype(np.float32), node_y.astype(np.float32), way
    )


def _half_cells(name: TerrainName, choke_width: float) -> Array:
    """[64, 64] by (x, y): whether the centre of a ground unit may be in this half cell."""
    if choke_width not in CHOKES:
        raise UserError(f"choke width {choke_width:g} cannot be built; allowed: {', '.join(map(str, CHOKES))} cells")
    x = ((np.arange(HALF_CELLS) + 0.5) / 2)[:, None]
    y = ((np.arange(HALF_CELLS) + 0.5) / 2)[None, :]
    if name == "band":
        return (x > 0) & (y >= 8) & (y < 24)
    if name == "arena":
        return _octagon(x, y, (7, 23), (7, 21), 2)
    if name == "octagon":
        return _octagon(x, y, (5, 27), (5, 27), 4)
    if name == "corridor":
        plane = np.zeros((HALF_CELLS, HALF_CELLS), bool)
        for row, (first, last) in _CORRIDOR_ROWS.items():
            plane |= (np.floor(y) == row) & (x >= first) & (x < last + 1)
        at_choke = (y > 12.5) & (y < 13.5)
        return plane & (~at_choke | (abs(x - CHOKE_CENTRE) < choke_width / 2))
    # Plateau with a cliff face, low ground in front of it and a ramp at either end. The ramps rise toward larger y;
    # that they meet the plateau in their upper half is assumed, as is the cliff face's thickness of half a cell.
    plateau = (x >= 7) & (x < 25) & (y >= 13) & (y < 21)
    low = (x >= 4) & (x < 28) & (y >= 5) & (y < 13)
    ramps = (((x >= 4) & (x < 7)) | ((x >= 25) & (x < 28))) & (y >= 13) & (y < 19)
    face = (x >= 7) & (x < 25) & (y >= 12.5) & (y < 13)
    flank = (((x >= 6.5) & (x < 7)) | ((x >= 25) & (x < 25.5))) & (y >= 12.5) & (y < 16)
    return (plateau | low | ramps) & ~face & ~flank


def _octagon(x: Array, y: Array, columns: tuple[int, int], rows: tuple[int, int], cut: int) -> Array:
    """A rectangle with its four corners cut off."""
    across = np.minimum(x - columns[0], columns[1] - x)
    along = np.minimum(y - rows[0], rows[1] - y)
    inside: Array = (across > 0) & (along > 0) & (across + along > cut)
    return inside


@compiled
def _clear(plane: Array, x: float, y: float, to_x: float, to_y: float) -> bool:
    """Whether a straight walk stays on walkable ground, with some clearance to both sides."""
    dx, dy = to_x - x, to_y - y
    length = math.sqrt(dx * dx + dy * dy)
    if length == 0.0:
        return True
    steps = int(length / 0.1) + 1
    for side in (0.0, CLEARANCE, -CLEARANCE):
        for i in range(steps + 1):
            px = x + dx * i / steps - side * dy / length
            py = y + dy * i / steps + side * dx / length
            if px < 0.0 or py < 0.0 or px >= MAP_SIZE or py >= MAP_SIZE or not plane[int(2 * px), int(2 * py)]:
                return False
    return True


@compiled
def _find_ways(plane: Array, node_x: Array, node_y: Array, way: Array) -> None:
    """Fill `way` by the Floyd–Warshall algorithm over pairs of nodes with a clear straight line between them."""
    count = node_x.shape[0]
    length = np.full((count, count), np.inf)
    for i in range(count):
        for j in range(count):
            way[i, j] = j
            if _clear(plane, node_x[i], node_y[i], node_x[j], node_y[j]):
                length[i, j] = math.sqrt((node_x[i] - node_x[j]) ** 2 + (node_y[i] - node_y[j]) ** 2)
    for k in range(count):
        for i in range(count):
            for j in range(count):
                through = length[i, k] + length[k, j]
                # With a small tolerance, so that of equally long ways the one with fewer corners is kept.
                if through < length[i, j] - 1e-9:
                    length[i, j] = through
                    way[i, j] = way[i, k]

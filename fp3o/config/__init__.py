"""What to run: cells, their settings and resolved plans, seeds, suites. Imports neither torch nor Snakemake.

    cell = Cell.parse("mamujoco/ant-2x4/partial/fp3o-double-clip")
    plan = resolve(cell, {"epochs": "3"})

The data is in benchmarks/tasks.yaml (hyper-parameters) and benchmarks/suites/ (which cells, which seeds).
"""

from fp3o.config.catalogue import (
    algorithms,
    catalogue,
    checkout,
    data_root,
    domains,
    repository,
    tasks,
    variant_settings,
    variants,
)
from fp3o.config.cells import Cell, Row, algorithm_colour, algorithm_title, measured, step_seconds
from fp3o.config.differences import Change, changes
from fp3o.config.resolve import (
    PROTOCOL,
    Origin,
    Plan,
    canonical_json,
    check_agents,
    option_names,
    origins,
    resolve,
    setting_names,
)
from fp3o.config.seeds import LARGEST_SEED, SEED_BLOCK, parse_seeds, seed_blocks, seeds_text
from fp3o.config.settings import Settings
from fp3o.config.sharings import SHARINGS
from fp3o.config.suites import Artefact, Suite, load_suite, suite_names
from fp3o.fields import Scalar

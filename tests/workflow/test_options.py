"""`snakemake --config …`: a mistake is one line."""

from __future__ import annotations

from typing import Any

import pytest

from fp3o.errors import UserError
from fp3o.workflow.options import checked_options


def test_defaults_are_filled_in() -> None:
    assert checked_options({"suite": "quick"}) == {
        "suite": "quick",
        "retrain": False,
        "gpus": "auto",
        "jobs_per_gpu": "auto",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"suit": "quick"}, "unknown key 'suit' in --config; allowed: suite, retrain, gpus, jobs_per_gpu"),
        (
            {"jobs_per_gpu": 0},
            "--config jobs_per_gpu: 0 is less than the minimum of 1; allowed: Training jobs that share",
        ),
        ({"retrain": "perhaps"}, "--config retrain: 'perhaps' is not of type 'boolean'"),
    ],
)
def test_mistakes_are_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        checked_options(given)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)

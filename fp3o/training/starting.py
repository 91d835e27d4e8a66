"""Training that starts from the networks of a finished run (`--start-from`) instead of random ones."""

from __future__ import annotations

from pathlib import Path

import torch

from fp3o.config import Plan
from fp3o.errors import UserError, first_of
from fp3o.learner.update import Learner
from fp3o.networks.stacked import ParameterLayout
from fp3o.rollout.evaluation import trained
from fp3o.runs import checkpoint, records
from fp3o.runs.layout import RunId
from fp3o.runs.verify import foreign_code, read_verified


def start(plan: Plan, learner: Learner, folder: Path) -> str:
    """Give every seed actor, critic and value normaliser of the run in `folder`; a note for run.json. Optimisers start
    anew. UserError, and nothing changed, if it is not the run that the plan names or its networks do not fit."""
    named = f"start_from = {plan.settings.start_from}"
    if not (folder / records.RUN).is_file():
        raise UserError(f"{named}: there is no such run in {folder}; allowed: --start-from with the folder of a run")
    document = read_verified(folder, files=(records.CHECKPOINT,))
    if RunId.of(document).path != plan.settings.start_from:
        raise UserError(f"{named}: {folder} is another run, {RunId.of(document).path}")
    code = foreign_code(document)
    if code and code != getattr(plan.options, "env", ""):
        raise UserError(f"{named}: it wants to run {code}; allowed: runs of the environment that is trained in")
    run, parameters = trained(folder), learner.stepper.parameters
    parts: list[tuple[str, ParameterLayout, ParameterLayout, torch.Tensor, torch.Tensor]] = [
        ("trunk", run.actor.trunk_layout, learner.actor.trunk_layout, run.trunks, parameters.trunk),
        ("head", run.actor.head_layout, learner.actor.head_layout, run.heads, parameters.head),
        ("critic", run.critic.layout, learner.critic.layout, run.critics, parameters.critic),
    ]
    if problems := [problem for part in parts for problem in _differences(*part)]:
        raise UserError(f"{named}: its networks do not fit here: {first_of(problems)}")
    tensors, _ = checkpoint.load(folder / records.CHECKPOINT)
    with torch.no_grad():
        for *_, theirs, ours in parts:
            ours.copy_(theirs.expand_as(ours))
        for name, running in learner.stepper.normaliser._asdict().items():
            running.copy_(torch.as_tensor(tensors[f"normaliser.{name}"]))
    return f"started from {plan.settings.start_from}, checkpoint {document['sha256'][records.CHECKPOINT]}"


def _differences(
    part: str, there: ParameterLayout, here: ParameterLayout, theirs: torch.Tensor, ours: torch.Tensor
) -> list[str]:
    """In words, names and shapes of parameters and the number of owners, where they differ."""
    shapes = [{name: "×".join(map(str, shape)) for name, (_, shape) in x.entries.items()} for x in (there, here)]
    names = [name for name in (shapes[0] | shapes[1]) if shapes[0].get(name) != shapes[1].get(name)]
    found = [f"{part} {n} {shapes[0].get(n, 'absent')} there, {shapes[1].get(n, 'absent')} here" for n in names]
    if theirs.shape[1] != ours.shape[1]:
        found.append(f"{theirs.shape[1]} {part}s there, {ours.shape[1]} here")
    return found

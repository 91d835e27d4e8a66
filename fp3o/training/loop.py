"""The training loop of a seed block: collect, update, evaluate, save.

Everything else, records included, is a callback. A resumed run equals an uninterrupted one bit for bit, given the same
execution (fp3o/execution/choice.py) and type of processor.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial

import torch

from fp3o.learner.randomness import Draws
from fp3o.rollout.evaluation import evaluation_rows, final_rows
from fp3o.runs import verify
from fp3o.runs.interrupt import Interrupt, Stopped
from fp3o.training.block import Block, Pending
from fp3o.training.callbacks import Callbacks
from fp3o.training.run_files import RunFiles

SECONDS_BETWEEN_SAVES = 90.0  # kill -9 loses at most this much work, or one iteration


def train(block: Block, files: RunFiles, callbacks: Callbacks, interrupt: Interrupt) -> None:
    """Train to the end of the budget, then publish every seed's run."""
    plan, stats, learner = block.plan, files.stats, block.learner
    saved_at = time.monotonic()
    stats.begin()
    callbacks.begin(block.env_steps)
    resumed = f"; goes on after iteration {block.iteration}" if block.iteration else ""
    callbacks.say(f"updates {block.execution}{resumed}")
    while block.goes_on:
        stats.begin_iteration()
        with stats.timed("rollout"), block.background.paused():
            collected = block.collector.collect(block.seeds, block.iteration)
        with stats.timed("update"):
            draws = Draws(block.seeds, block.iteration, learner.device)
            numbers = {name: x.tolist() for name, x in learner.update(collected.rollout, draws).items()}
        for seed, row in block.rows(collected, numbers):
            callbacks.iteration(seed, row)
        if plan.evaluates_after(block.iteration):
            with stats.timed("evaluation"):
                start_evaluation(block, callbacks)
        if block.pending is not None and block.pending.played.done():
            finish_evaluation(block, callbacks)
        name_failures(block, callbacks)
        callbacks.timed(block.iteration, stats.spent)
        block.iteration += 1
        for place, seed in block.learning:
            callbacks.updated_policy(seed, block.iteration, block.env_steps, partial(block.policy, place))
        interrupt.hold()  # From now on there is something to save.
        callbacks.advance(block.env_steps)
        stop = callbacks.stop and block.iteration < plan.iterations
        if callbacks.ended and block.iteration < plan.iterations:
            block.stop(callbacks.ended)
        stats.count()
        if interrupt or stop or time.monotonic() - saved_at > SECONDS_BETWEEN_SAVES:
            save(block, files, callbacks)
            saved_at = time.monotonic()
            where = f"stopped after iteration {block.iteration} of {plan.iterations}"
            interrupt.raise_if_set(f"{where}; the same command resumes it")
            if stop:
                raise Stopped(f"{where} by a callback; the same call resumes it")
    with stats.timed("evaluation"):
        finish_evaluation(block, callbacks)
        play_final_episodes(block, callbacks)
    name_failures(block, callbacks)
    save(block, files, callbacks)
    callbacks.finished(block.seeds, files.folder.resume_path)
    files.publish(block.env, learner.stepper.state, block.diverged, block.stopped)


def start_evaluation(block: Block, callbacks: Callbacks) -> None:
    """Evaluate the policies as they are now, perhaps while training goes on; `finish_evaluation` reports the result."""
    finish_evaluation(block, callbacks)
    policies = [block.policy(place) for place in range(len(block.seeds))]
    trunks, heads = (torch.stack([policy[name] for policy in policies]) for name in ("actor.trunk", "actor.head"))
    play = partial(block.evaluator.run, trunks, heads, block.seeds, "evaluation", block.iteration)
    rehearse = partial(block.evaluator.rehearse, trunks, heads, block.seeds)
    evaluated = {seed: policies[place] for place, seed in block.learning}
    env_steps = block.env_steps + block.steps_per_iteration
    block.pending = Pending(block.iteration, env_steps, evaluated, block.background.start(play, rehearse))
    callbacks.evaluating()


def finish_evaluation(block: Block, callbacks: Callbacks) -> None:
    """Report the evaluation that was started last; waits for it."""
    if block.pending is None:
        return
    (iteration, env_steps, policies, played), block.pending = block.pending, None
    rows = {
        seed: evaluation_rows(env_steps, iteration, episodes)
        for seed, episodes in zip(block.seeds, played.result(), strict=True)
        if seed in policies and block.finite(seed, episodes, iteration)
    }
    for seed in rows:
        callbacks.evaluated_policy(seed, rows[seed], partial(policies.__getitem__, seed))
    callbacks.evaluated(rows)


def play_final_episodes(block: Block, callbacks: Callbacks) -> None:
    """Play the episodes of final.csv with the final policies, where the settings ask for it."""
    settings, parameters = block.plan.settings, block.learner.stepper.parameters
    if not verify.has_final(asdict(settings)) or not block.sound:
        return
    evaluator = block.new_evaluator(settings.final_episodes, block.execution.threads, block.execution.policy_class)
    played = evaluator.run(parameters.trunk, parameters.head, block.seeds, "final", 0)
    block.lost_in_final = evaluator.env.lost_episodes
    evaluator.close()
    for place, seed in block.sound:
        if block.finite(seed, played[place], block.plan.iterations - 1):
            callbacks.final(seed, final_rows(played[place]))


def name_failures(block: Block, callbacks: Callbacks) -> None:
    """One line for every kind of failure of the environments, the first time."""
    for failure in block.new_failures():
        callbacks.say(failure)


def save(block: Block, files: RunFiles, callbacks: Callbacks) -> None:
    """Save the state, and all rows up to it."""
    finish_evaluation(block, callbacks)
    files.stats.measure(block.env, block.lost_episodes, block.execution.device)
    files.save(block.state())

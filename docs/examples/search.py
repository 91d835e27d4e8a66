"""A search with Optuna that stops hopeless trials early and can be interrupted: `python search.py`, again to go on."""

import fp3o

CELL, SEEDS = "matrix/climbing/full/mappo", range(3)  # every trial is repeated with these seeds, side by side


class Prune(fp3o.Callback):
    """Reports every evaluation's mean over seeds to a trial, and finishes the runs where the trial is pruned."""

    may_stop = finishes = True

    def __init__(self, trial):
        self.trial, self.means, self.pruned = trial, {}, False

    def evaluation(self, seed, records):
        returns = [record["return"] for record in records]
        self.means[seed] = sum(returns) / len(returns)

    def advance(self, env_steps):
        if len(self.means) == len(SEEDS):  # an evaluation of all seeds has come in
            self.trial.report(sum(self.means.values()) / len(SEEDS), env_steps)
            self.means, self.pruned = {}, self.trial.should_prune()
        return self.pruned


def objective(trial):
    import optuna

    settings = {
        "actor_lr": trial.suggest_float("actor_lr", 1e-4, 1e-1, log=True),
        "clip": trial.suggest_float("clip", 0.05, 0.4, step=0.05),
        "total_steps": 5_120,
        "evaluation_interval": 1,
    }
    # Runs that are finished are not trained again, and one that was interrupted goes on: settings are its name.
    runs = fp3o.train(CELL, SEEDS, settings, "search", [Prune(trial)], quiet=True)
    if any(run.status == "stopped" for run in runs):
        raise optuna.TrialPruned
    return sum(run.score["return"] for run in runs) / len(runs)


def search(trials, storage="sqlite:///search.db"):
    """The study, with this many finished or pruned trials."""
    import optuna

    study = optuna.create_study(
        study_name="climbing",
        storage=storage,
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
    )
    done = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    for trial in study.get_trials(deepcopy=False):
        if trial.state not in done and trial.params:  # It was interrupted: the same settings once more.
            study.enqueue_trial(trial.params, skip_if_exists=True)
    missing = trials - sum(trial.state in done for trial in study.get_trials(deepcopy=False))
    study.optimize(objective, n_trials=max(0, missing))
    return study


if __name__ == "__main__":
    found = search(20)
    print(found.best_value, found.best_params)

"""Draw one figure of a suite: the paper's label decides which script; learning curves where it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fp3o.statistics.suites import as_command
from paper_figures import ablation, kl_by_turn, learning_curves, matching_degree, seed_curves, stability
from paper_figures.drawing import Request, arguments, request

SCRIPTS: dict[str, Callable[[Request], None]] = {
    "fig_matching_degree": matching_degree.draw,
    "fig_happo_kl": kl_by_turn.draw,
    "fig_appendix_convergence_monitoring": seed_curves.draw,
    "fig_appendix_random_average": ablation.draw,
    "fig_appendix_ablation": ablation.draw,
    "fig_appendix_stability_test": stability.draw,
}


def main(argv: Sequence[str] | None = None) -> None:
    asked = request(arguments(__doc__ or "").parse_args(argv))
    SCRIPTS.get(asked.artefact.paper, learning_curves.draw)(asked)


if __name__ == "__main__":
    as_command(main)

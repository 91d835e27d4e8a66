"""Every hyper-parameter of a cell, with its meaning; the values per task stand in benchmarks/tasks.yaml.

Imports neither torch nor an environment, so that planning a thousand runs takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """The resolved hyper-parameters of one cell. Defaults are the paper's MAMuJoCo column (appendix, Tables 4–5)."""

    total_steps: int = 10_000_000
    """Environment steps per seed (paper: per task and sharing)."""
    rollout_length: int = 1000
    """Steps per environment and iteration, T (paper: episode length)."""
    rollout_threads: int = 4
    """Parallel environments per seed, N (paper: rollout threads)."""
    epochs: int = 5
    """Passes over the rollout per turn (paper: ppo epochs); FP3O: of the independent step."""
    epochs_dependent: int = 5
    """FP3O: passes of the dependent step. Release: as many as the first; 0 = independent step alone."""
    minibatches: int = 32
    """Minibatches per epoch (paper: num mini-batch)."""
    clip: float = 0.2
    """PPO clip ε, of the ratio and of the value (paper: ppo-clip)."""
    clip_others: float = 0.1
    """Clip of the product of the other agents' ratios: CoPPO's and double clip's ε₂, A2PO's ε_o (both repos: ε/2)."""
    gamma: float = 0.99
    """Discount γ."""
    gae_lambda: float = 0.95
    """λ of generalised advantage estimation."""
    actor_lr: float = 1e-5
    """Adam step size of the actor."""
    critic_lr: float = 3e-4
    """Adam step size of the critic."""
    head_lr_scale: Literal["agents", "one"] = "agents"
    """Partial sharing: heads learn at n·lr (release, undisclosed in the paper) or lr. HAPPO and A2PO default to one."""
    adam_eps: float = 1e-5
    """Adam's ε (paper: optim eps)."""
    entropy_coef: float = 0.001
    """Weight of the entropy bonus."""
    gradient_clip: float = 10.0
    """Largest gradient norm, per trunk owner, trunk and its heads together (paper: max grad norm)."""
    huber_delta: float = 10.0
    """Where the value loss turns linear (paper: huber delta)."""
    value_normalisation: bool = True
    """Running standardisation of value targets (release: on, called PopArt; paper: silent)."""
    advantage_standardisation: Literal["agent", "joint", "none"] = "agent"
    """Over each agent's samples (release), over all agents' (on-policy), or not at all (CoPPO's code)."""
    advantage_split: Literal["average", "random"] = "average"
    """FP3O: Aⁱ = A for all (release; the paper's 1/n falls out of Adam) or n·Dirichlet(1) weights per sample."""
    time_limit_is_terminal: bool = True
    """True: no bootstrap at the time limit (release). False: bootstrap from the last state."""
    hidden_size: int = 64
    """Width of every hidden layer and of the GRU."""
    recurrent: bool = False
    """GRU after the two linear layers, actor and critic (paper: network mlp or rnn)."""
    chunk_length: int = 10
    """Recurrent training: steps per chunk from a stored hidden state (data chunk length)."""
    gaussian_std: Literal["sigmoid", "exp"] = "sigmoid"
    """σ = 0.5·sigmoid(ψ) (release, std x coef 1, y coef 0.5) or exp(ψ) (on-policy)."""
    critic_in_dependent: bool = True
    """FP3O: train the critic in the dependent step too (release) or only in the independent one."""
    double_clip: bool = False
    """FP3O: also clip the product of the others' ratios at 1 ± clip_others (paper: FP3O w/ Double)."""
    intermediate: bool = True
    """FP3O: weights from the intermediate policies π_{k+0.5}, frozen (paper). False: clipping only, live ratios."""
    matching_degree: bool = False
    """FP3O: run the dependent step on a copy in any case; log if condition and constraint agree (matching degree)."""
    agent_order: Literal["random", "greedy", "semi-greedy", "fixed"] = "random"
    """Sequential algorithms: who learns first. HAPPO random; A2PO semi-greedy."""
    blocks: int = 0
    """A2PO: number of blocks the order is cut into; 0 = one agent per block."""
    cumulative_blocks: bool = False
    """A2PO under shared parameters: stage s trains on the union of blocks 1…s, epochs divided by blocks (its code)."""
    adaptive_clip: Literal["constant", "linear", "product"] = "constant"
    """A2PO: ε per turn: constant, near-linear in the order (MAMuJoCo, MPE), or from the others' ratios ("rp", SMAC)."""
    two_stage: bool = False
    """A2PO: an extra critic-only pass before each pass of actor and critic."""
    corrected_targets: bool = True
    """A2PO: critic targets from the corrected advantages too (the released option has no effect by mistake)."""
    trace: bool = True
    """A2PO: preceding-agent off-policy correction of the advantage."""
    joint_gradient: bool = False
    """CoPPO: gradient through all agents' ratios (authors' code) instead of detached others (default)."""
    happo_before: Literal["turn", "rollout"] = "turn"
    """HAPPO's factor under sharing: against the policy just before the turn (code) or the rollout policy."""
    evaluation_interval: int = 25
    """Iterations between evaluations (release; the paper's text says every iteration)."""
    evaluation_episodes: int = 32
    """Deterministic episodes per evaluation."""
    final_episodes: int = 32
    """Episodes on which the final policy is scored, in final.csv when more than evaluation_episodes (MPE: 1000)."""
    slice_rows: int = 0
    """Rows of a minibatch processed at once, gradients summed; 0 = all. Fixed by the cell, never by free memory."""


# Settings that only some algorithms read. They are refused elsewhere and left out of other algorithms' digests.
READERS: dict[str, tuple[str, ...]] = {
    "epochs_dependent": ("fp3o",),
    "advantage_split": ("fp3o",),
    "critic_in_dependent": ("fp3o",),
    "double_clip": ("fp3o",),
    "intermediate": ("fp3o",),
    "matching_degree": ("fp3o",),
    "clip_others": ("fp3o", "coppo", "a2po"),
    "agent_order": ("happo", "a2po"),
    "blocks": ("a2po",),
    "cumulative_blocks": ("a2po",),
    "adaptive_clip": ("a2po",),
    "two_stage": ("a2po",),
    "corrected_targets": ("a2po",),
    "trace": ("a2po",),
    "joint_gradient": ("coppo",),
    "happo_before": ("happo",),
}

# Numbers outside these bounds (least, greatest) are mistakes; None = unbounded.
BOUNDS: dict[str, tuple[float, float | None]] = {
    "total_steps": (1, None),
    "rollout_length": (1, None),
    "rollout_threads": (1, None),
    "epochs": (1, None),
    "epochs_dependent": (0, None),
    "minibatches": (1, None),
    "clip": (1e-6, 1),
    "clip_others": (1e-6, 1),
    "gamma": (0, 1),
    "gae_lambda": (0, 1),
    "actor_lr": (0, None),
    "critic_lr": (0, None),
    "adam_eps": (1e-12, None),
    "entropy_coef": (0, None),
    "gradient_clip": (1e-6, None),
    "huber_delta": (1e-6, None),
    "hidden_size": (1, None),
    "chunk_length": (1, None),
    "blocks": (0, None),
    "evaluation_interval": (1, None),
    "evaluation_episodes": (1, None),
    "final_episodes": (1, None),
    "slice_rows": (0, None),
}

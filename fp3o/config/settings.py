"""Every hyper-parameter of a cell, declared once (see fp3o/fields.py); values per task are in benchmarks/tasks.yaml.

Imports neither torch nor an environment, so that resolving a thousand cells takes milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fp3o.fields import Bounds, Follows, read_by
from fp3o.plugins.registry import ADDED

FLOAT32 = 1e38  # Greatest magnitude: the networks compute in 32 bits.


@dataclass(frozen=True)
class Settings:
    """The resolved hyper-parameters of one cell. Defaults are the paper's MAMuJoCo column (appendix, Tables 4–5)."""

    total_steps: Annotated[int, Bounds(1, 10**12)] = 10_000_000
    """Environment steps per seed (paper: per task and sharing)."""
    rollout_length: Annotated[int, Bounds(1, 1_000_000)] = 1000
    """Steps per environment and iteration, T (paper: episode length)."""
    rollout_threads: Annotated[int, Bounds(1, 100_000)] = 4
    """Parallel environments per seed, N (paper: rollout threads)."""
    epochs: Annotated[int, Bounds(1, 10_000)] = 5
    """Passes over the rollout per turn (paper: ppo epochs); FP3O: of the independent step."""
    epochs_dependent: Annotated[int, Bounds(0, 10_000), read_by("fp3o"), Follows("epochs", 1)] = 5
    """FP3O: passes of the dependent step. Release: as many as the first; 0 = independent step alone."""
    minibatches: Annotated[int, Bounds(1, 1_000_000)] = 32
    """Minibatches per epoch (paper: num mini-batch)."""
    clip: Annotated[float, Bounds(1e-06, 1)] = 0.2
    """PPO clip ε, of the ratio and of the value (paper: ppo-clip)."""
    clip_others: Annotated[float, Bounds(1e-06, 1), read_by("fp3o", "coppo", "a2po"), Follows("clip", 0.5)] = 0.1
    """Clip of the product of the other agents' ratios: CoPPO's and double clip's ε₂, A2PO's ε_o (both repos: ε/2)."""
    gamma: Annotated[float, Bounds(0, 1)] = 0.99
    """Discount γ."""
    gae_lambda: Annotated[float, Bounds(0, 1)] = 0.95
    """λ of generalised advantage estimation."""
    actor_lr: Annotated[float, Bounds(0, FLOAT32)] = 1e-5
    """Adam step size of the actor."""
    critic_lr: Annotated[float, Bounds(0, FLOAT32)] = 3e-4
    """Adam step size of the critic."""
    head_lr_scale: Literal["agents", "one"] = "agents"
    """Partial sharing: heads learn at n·lr (release, undisclosed in the paper) or lr. HAPPO and A2PO default to one."""
    adam_eps: Annotated[float, Bounds(1e-12, 1)] = 1e-5
    """Adam's ε (paper: optim eps)."""
    entropy_coef: Annotated[float, Bounds(0, FLOAT32)] = 0.001
    """Weight of the entropy bonus."""
    gradient_clip: Annotated[float, Bounds(1e-06, FLOAT32)] = 10.0
    """Largest gradient norm, per trunk owner, trunk and its heads together (paper: max grad norm)."""
    huber_delta: Annotated[float, Bounds(1e-06, FLOAT32)] = 10.0
    """Where the value loss turns linear (paper: huber delta)."""
    value_normalisation: bool = True
    """Running standardisation of value targets (release: on, called PopArt; paper: silent)."""
    advantage_standardisation: Literal["agent", "joint", "none"] = "agent"
    """Over each agent's samples (release), over all agents' (on-policy), or not at all (CoPPO's code)."""
    advantage_split: Annotated[Literal["average", "random"], read_by("fp3o")] = "average"
    """FP3O: Aⁱ = A for all (release; the paper's 1/n falls out of Adam) or n·Dirichlet(1) weights per sample."""
    time_limit_is_terminal: bool = True
    """True: no bootstrap at the time limit (release). False: bootstrap from the last state."""
    hidden_size: Annotated[int, Bounds(2, 4096)] = 64
    """Width of every hidden layer and of the GRU."""
    recurrent: bool = False
    """GRU after the two linear layers, actor and critic (paper: network mlp or rnn)."""
    chunk_length: Annotated[int, Bounds(1, 1_000_000)] = 10
    """Recurrent training: steps per chunk from a stored hidden state (data chunk length)."""
    gaussian_std: Literal["sigmoid", "exp"] = "sigmoid"
    """σ = 0.5·sigmoid(ψ) (release, std x coef 1, y coef 0.5) or exp(ψ) (on-policy)."""
    critic_in_dependent: Annotated[bool, read_by("fp3o")] = True
    """FP3O: train the critic in the dependent step too (release) or only in the independent one."""
    double_clip: Annotated[bool, read_by("fp3o")] = False
    """FP3O: also clip the product of the others' ratios at 1 ± clip_others (paper: FP3O w/ Double)."""
    intermediate: Annotated[bool, read_by("fp3o")] = True
    """FP3O: weights from the intermediate policies π_{k+0.5}, frozen (paper). False: clipping only, live ratios."""
    matching_degree: Annotated[bool, read_by("fp3o")] = False
    """FP3O: run the dependent step on a copy in any case; log if condition and constraint agree (matching degree)."""
    agent_order: Annotated[Literal["random", "greedy", "semi-greedy", "fixed"], read_by("happo", "a2po")] = "random"
    """Sequential algorithms: who learns first. HAPPO random; A2PO semi-greedy."""
    blocks: Annotated[int, Bounds(0, 1000), read_by("a2po")] = 0
    """A2PO: number of blocks the order is cut into; 0 = one agent per block."""
    cumulative_blocks: Annotated[bool, read_by("a2po")] = False
    """A2PO under shared parameters: stage s trains on the union of blocks 1…s, epochs divided by blocks (its code)."""
    adaptive_clip: Annotated[Literal["constant", "linear", "product"], read_by("a2po")] = "constant"
    """A2PO: ε per turn: constant, near-linear in the order (MAMuJoCo, MPE), or from the others' ratios ("rp", SMAC)."""
    two_stage: Annotated[bool, read_by("a2po")] = False
    """A2PO: an extra critic-only pass before each pass of actor and critic."""
    corrected_targets: Annotated[bool, read_by("a2po")] = True
    """A2PO: critic targets from the corrected advantages too (the released option has no effect by mistake)."""
    trace: Annotated[bool, read_by("a2po")] = True
    """A2PO: preceding-agent off-policy correction of the advantage."""
    joint_gradient: Annotated[bool, read_by("coppo")] = False
    """CoPPO: gradient through all agents' ratios (authors' code) instead of detached others (default)."""
    happo_before: Annotated[Literal["turn", "rollout"], read_by("happo")] = "turn"
    """HAPPO's factor under sharing: against the policy just before the turn (code) or the rollout policy."""
    evaluation_interval: Annotated[int, Bounds(1, 10**12)] = 25
    """Iterations between evaluations (release; the paper's text says every iteration)."""
    evaluation_episodes: Annotated[int, Bounds(1, 100_000)] = 32
    """Deterministic episodes per evaluation."""
    final_episodes: Annotated[int, Bounds(1, 1_000_000)] = 32
    """Episodes on which the final policy is scored, in final.csv when more than evaluation_episodes (MPE: 1000)."""
    slice_rows: Annotated[int, Bounds(0, 10**12)] = 0
    """Rows of a minibatch processed at once, gradients summed; 0 = all. Fixed by the cell, never by free memory."""


def settings_of(algorithm: str) -> type[Settings]:
    """The class of an algorithm's settings: that of a plug-in may have more."""
    return ADDED.algorithms[algorithm].settings if algorithm in ADDED.algorithms else Settings

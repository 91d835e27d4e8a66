"""Generalised advantage estimation, A2PO's trace and standardisation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fp3o.algorithms.advantage import gae, standardise

GAMMA, LAMBDA = 0.9, 0.8


def test_by_hand() -> None:
    """Three steps, the episode ends after the second, γ = 0.5, λ = 0.5, worked out on paper."""
    reward = torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1)
    value = torch.tensor([4.0, 8.0, 2.0]).view(1, 3, 1, 1)
    continues = torch.tensor([1.0, 0.0, 1.0]).view(1, 3, 1)
    next_value = torch.tensor(10.0).view(1, 1, 1)
    # δ: 1 + 4 − 4 = 1; 2 − 8 = −6 (nothing follows); 3 + 5 − 2 = 6.  A: 1 + ¼·(−6) = −0.5; −6; 6.
    advantage = gae(reward, value, next_value, continues, 0.5, 0.5)
    assert advantage.flatten().tolist() == [-0.5, -6.0, 6.0]


def made_up(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    source = torch.Generator().manual_seed(seed)
    shape = (2, 9, 3, 4)
    reward, value = torch.randn(shape, generator=source), torch.randn(shape, generator=source)
    continues = (torch.rand(shape[:3], generator=source) > 0.2).float()
    return reward, value, torch.randn(2, 3, 4, generator=source), continues, torch.rand(shape, generator=source) * 2


def brute_force(
    reward: Tensor, value: Tensor, next_value: Tensor, continues: Tensor, trace: Tensor | None = None
) -> Tensor:
    """A_t = Σ_k (γλ)^k Π_{j=1…k} c_{t+j} δ_{t+k}, to the end of the episode or of the rollout, term by term."""
    replicas, times, slots, agents = reward.shape
    out = torch.zeros_like(reward)
    for r in range(replicas):
        for n in range(slots):
            for a in range(agents):
                for t in range(times):
                    factor = 1.0
                    for s in range(t, times):
                        if s > t:
                            c = 1.0 if trace is None else LAMBDA * min(1.0, trace[r, s, n, a].item())
                            factor *= GAMMA * LAMBDA * c
                        following = next_value[r, n, a] if s == times - 1 else value[r, s + 1, n, a]
                        delta = reward[r, s, n, a] + GAMMA * following * continues[r, s, n] - value[r, s, n, a]
                        out[r, t, n, a] += factor * delta
                        if continues[r, s, n] == 0:
                            break
    return out


@pytest.mark.parametrize("seed", [0, 1])
def test_brute_force(seed: int) -> None:
    reward, value, next_value, continues, _ = made_up(seed)
    ours = gae(reward, value, next_value, continues, GAMMA, LAMBDA)
    torch.testing.assert_close(ours, brute_force(reward, value, next_value, continues), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_trace_of_preceding_agents(seed: int) -> None:
    reward, value, next_value, continues, ratio = made_up(seed)
    ours = gae(reward, value, next_value, continues, GAMMA, LAMBDA, ratio)
    expected = brute_force(reward, value, next_value, continues, ratio)
    torch.testing.assert_close(ours, expected, atol=2e-6, rtol=1e-5)
    # Ratios at or above 1 leave only the second λ.
    above = gae(reward, value, next_value, continues, GAMMA, LAMBDA, torch.full_like(ratio, 1.7))
    torch.testing.assert_close(above, gae(reward, value, next_value, continues, GAMMA, LAMBDA**2))


def test_lambda_one_is_the_return() -> None:
    reward, value, next_value, _, _ = made_up(3)
    goes_on = torch.ones(2, 9, 3)
    ours = gae(reward, value, next_value, goes_on, GAMMA, 1.0)
    running = next_value
    for t in reversed(range(9)):
        running = reward[:, t] + GAMMA * running
        torch.testing.assert_close(ours[:, t], running - value[:, t], atol=3e-6, rtol=1e-5)


@pytest.mark.parametrize("over", ["agent", "joint"])
def test_standardisation_counts_the_living(over: str) -> None:
    source = torch.Generator().manual_seed(0)
    advantage = 5 + 3 * torch.randn(2, 7, 3, 4, generator=source)
    alive = (torch.rand(2, 7, 3, 4, generator=source) > 0.4).float()
    ours = standardise(advantage, alive, over)  # type: ignore[arg-type]
    # What the dead have makes no difference to the living.
    disturbed = standardise(torch.where(alive > 0, advantage, 1e3), alive, over)  # type: ignore[arg-type]
    assert ours[alive > 0].equal(disturbed[alive > 0])
    for replica in range(2):
        for agents in [[a] for a in range(4)] if over == "agent" else [[0, 1, 2, 3]]:
            living = advantage[replica, ..., agents][alive[replica, ..., agents] > 0].double()
            expected = (advantage[replica, ..., agents].double() - living.mean()) / (living.std(correction=0) + 1e-5)
            torch.testing.assert_close(ours[replica, ..., agents].double(), expected, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("over", ["agent", "joint", "none"])
def test_an_agent_dead_throughout_gives_numbers(over: str) -> None:
    advantage = torch.randn(1, 6, 2, 3, generator=torch.Generator().manual_seed(1))
    alive = torch.ones_like(advantage)
    alive[..., 1] = 0
    ours = standardise(advantage, alive, over)  # type: ignore[arg-type]
    assert ours.isfinite().all()
    assert ours[..., [0, 2]].isfinite().all()
    nobody = standardise(advantage, torch.zeros_like(alive), over)  # type: ignore[arg-type]
    assert nobody.isfinite().all()


def test_equal_advantages_become_zero() -> None:
    assert standardise(torch.full((1, 4, 2, 2), 3.0), torch.ones(1, 4, 2, 2), "agent").abs().max() == 0

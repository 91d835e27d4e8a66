"""How evenly the agents of an episode did: the least of their returns, over the greatest."""

import fp3o


@fp3o.metric("fairness")
def fairness(rewards, infos):
    returns = [sum(steps) for steps in rewards.values()]
    return min(returns) / max(returns) if min(returns) >= 0 < max(returns) else None

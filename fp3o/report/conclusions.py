"""What a scorecard comes to, in five sentences: what speaks against the paper or against us first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fp3o.grouping import grouped

ORDER = ("contradicted", "equivalent", "undecided", "supported", "floor", "not comparable", "not run")
"""Of verdicts on claims, as readers meet them."""
Card = Mapping[str, Any]


def listed(items: Sequence[str]) -> str:
    """a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def counted(number: int, thing: str) -> str:
    """1 claim, 2 claims."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def by_verdict(card: Card) -> dict[str, list[dict[str, Any]]]:
    """Claims by verdict, in the order of `ORDER`; verdicts that no claim has are left out."""
    found = {verdict: [claim for claim in card["claims"] if claim["verdict"] == verdict] for verdict in ORDER}
    return {verdict: claims for verdict, claims in found.items() if claims}


def conclusions(card: Card, against_baseline: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """Five sentences of a suite with claims of the paper, fewer of another one.

    against_baseline: by verdict, the cells of the suite's tables that have it against the baseline of their table.
    """
    sentences = [] if not card["claims"] else list(_on_claims(by_verdict(card), len(card["claims"])))
    return [*sentences, *_on_baseline(against_baseline or {}), _on_numbers(card)]


def _on_baseline(found: Mapping[str, Sequence[str]]) -> Iterator[str]:
    total = counted(sum(map(len, found.values())), "comparison")
    for verdict, words in (("better", "Better than"), ("worse", "Worse than")):
        if found:
            cells = found.get(verdict, ())
            yield f"{words} the baseline of their table, {len(cells)} of {total}: {'; '.join(cells) or 'none'}."
    rest = [f"{len(cells)} {verdict}" for verdict, cells in sorted(found.items()) if verdict not in ("better", "worse")]
    if rest:
        yield f"The others against it: {listed(rest)}."


def named(claims: Sequence[Mapping[str, Any]]) -> str:
    """FP3O is best of four on MPE (C18), …"""
    return "; ".join(f"{claim['claim']} ({claim['name']}{_part(claim)})" for claim in claims)


def _part(claim: Mapping[str, Any]) -> str:
    return f", {claim['found']} of {claim['needed']}" if claim["found"] < claim["needed"] else ""


def _on_claims(found: Mapping[str, Sequence[Mapping[str, Any]]], total: int) -> Iterator[str]:
    against, alike, borne_out = (found.get(verdict, ()) for verdict in ("contradicted", "equivalent", "supported"))
    yield f"Not reproduced, {len(against)} of {total} claims contradicted: {named(against) or 'none'}."
    yield f"No difference beyond the margin, {len(alike)} equivalent: {named(alike) or 'none'}."
    yield f"Reproduced, {len(borne_out)} supported: {named(borne_out) or 'none'}."
    open_ones = found.get("undecided", ())
    missing = [claim["name"] for claim in open_ones if claim["found"] < claim["needed"]]
    decidable = [claim for claim in open_ones if claim["found"] >= claim["needed"]]
    few = [
        claim["name"] + (f" ({seeds} seeds would)" if (seeds := claim["seeds_that_would_decide"]) else "")
        for claim in decidable
    ]
    rest = Counter({verdict: len(found.get(verdict, ())) for verdict in ("floor", "not comparable", "not run")})
    others = "".join(f"; {verdict}: {number}" for verdict, number in rest.items() if number)
    yield (
        f"Open, {len(open_ones)} undecided: for want of runs {listed(missing)}; with all runs, but too few seeds: "
        f"{listed(few)}{others}."
    )


def _on_numbers(card: Card) -> str:
    run = card["coverage"]
    text = f"{run['cells_started']} of {counted(run['cells_planned'], 'cell')} were trained ({run['seeds_run']} of "
    text += f"{run['seeds_planned']} runs, {run['seeds_diverged']} diverged)"
    if not card["compared_cells"]:
        return f"{text}; none of these is compared with a published number."
    counts: Counter[str] = Counter(card["verdicts"])
    differ = sum(number for verdict, number in counts.items() if verdict.startswith("differs"))
    smac = sum(number for verdict, number in card["verdicts_by_domain"].get("smac", {}).items() if verdict != "not run")
    embedded = any("embedded engine" in name for name in card["engines"].get("smac", ()))
    other = f" ({smac} of them of the real StarCraft II beside our battle engine)" if smac and embedded else ""
    cells = ((cell.rpartition("/"), one) for cell, one in card.get("differing", {}).items())
    rows = grouped((row, f"{label} {one['ours']:g} beside {one['published']:g}") for (row, _, label), one in cells)
    named_rows = "; ".join(f"{row}: {', '.join(texts)}" for row, texts in rows.items())
    which = f" ({named_rows})" if rows else ""
    easy = card.get("consistent_and_nearly_all_won")
    ceiling = (
        easy and f" ({easy['cells']} of these win at least {easy['at_least']:.0f} % in both, where little can differ)"
    )
    return (
        f"{text}; of {card['compared_cells']} published numbers compared{other}, {differ} differ{which}, "
        f"{counts['undecided']} are undecided and {counts['consistent']} consistent{ceiling or ''}, and "
        f"{card['published_inside_our_prediction_interval']} lie where a repetition of ours would fall."
    )

"""Blocks of the results page of any study, in Markdown, from its committed tables."""

import pandas as pd

from bench.core import study
from bench.report import words
from bench.report.claims import DECIDABLE, VERDICTS, overall


def answer(name: str) -> str:
    """The claims by verdict, in words."""
    claims = words.committed(f"{name}-claims")
    first = claims.drop_duplicates("claim").set_index("claim")
    verdicts = overall(claims).droplevel("study")
    lines = []
    for verdict in VERDICTS:
        found = first.loc[verdicts.index[verdicts == verdict]]
        statements = "; ".join(found["statement"] + " (" + found["where"] + ")")
        lines.append(f"- **{verdict.capitalize()}** ({len(found)}): {statements or 'none'}.")
    return "\n".join(lines)


def headline(name: str, key: dict[str, str], controls: dict[str, tuple[str, tuple[str, ...]]] | None = None) -> str:
    """A study's claims counted, and the key ones by verdict, with their numbers.

    `key` names claims and the setting that speaks for each; `controls` what else must hold with a claim, and the reason
    why it holds if they do not.
    """
    claims, lines = words.committed(f"{name}-claims"), {}
    for claim, setting in key.items():
        why, more = (controls or {}).get(claim, ("", ()))
        first, *others = [_row(claims, each, setting) for each in (claim, *more)]
        if first is None:
            continue
        many = (claims["claim"] == claim).sum() > 1  # then one setting speaks for several: name it
        where = f"; {first.setting.removeprefix('thesis-')}" if many else ""
        said, verdict = f"{first.statement} ({words.measured(first)}{where})", first.verdict
        failed = [row for row in others if row is not None and row.verdict == "not supported"]
        if verdict == "supported" and failed:
            verdict = f"supported only {why}"
            but = " and ".join(f"{row.statement}, {words.measured(row)}" for row in failed)
            said += f"; the controls fail ({but})"
        lines.setdefault(verdict, []).append(said)
    verdicts = overall(claims)
    counted = ", ".join(f"{(verdicts == word).sum()} {word}" for word in DECIDABLE)
    title = study.load(name).__doc__.partition("\n")[0].rstrip(".")
    order = sorted(lines, key=lambda verdict: [verdict.startswith(word) for word in DECIDABLE], reverse=True)
    listed = [f"  - **{verdict[0].upper() + verdict[1:]}**: {'; '.join(lines[verdict])}." for verdict in order]
    return "\n".join([f"{title}. Of its statements: {counted}.", *listed])


def _row(claims: pd.DataFrame, claim: str, setting: str):
    rows = claims[(claims["claim"] == claim) & claims["setting"].str.startswith(setting) & (claims["n"] > 0)]
    return next(rows.itertuples(), None)


def claims_table(name: str) -> str:
    """Every claim that was measured, a row a setting: what was published, the interval, the verdict."""
    claims = words.committed(f"{name}-claims")
    measured = claims[claims["verdict"] != "not measured"]
    rows = []
    for row in measured.itertuples():
        many = (claims["claim"] == row.claim).sum() > 1
        where = f", {row.setting.removeprefix('thesis-')}" if many else ""
        about = ", ".join(filter(None, [words.text(row.arms) + where, words.text(row.note)])).removeprefix(", ")
        rows.append(
            (
                row.where,
                f"{row.statement} ({about})" if about else row.statement,
                row.published,
                words.measured(row),
                f"**{row.verdict}**",
                row.seeds_needed,
            )
        )
    head = ("figure", "claim", "published", "measured", "verdict", "seeds needed")
    verdicts = overall(claims).droplevel("study")
    note = f"Not measured at this scale: {', '.join(verdicts.index[verdicts == 'not measured']) or 'none'}."
    return "\n".join([words.table(head, rows), "", note])


def departures(name: str) -> str:
    """How the panels of scale cpu depart from the paper's; what several share is said once."""
    frame = words.committed(f"{name}-departures")
    panels = frame["panel"].nunique()
    rows = []
    for (what, here, paper), group in frame.groupby(["what", "here", "paper"], sort=False):
        where = "all" if len(group) == panels else ", ".join(name.removeprefix("thesis-") for name in group["panel"])
        rows.append((what, here, paper, where))
    return words.table(("what", "here", "paper", "panels"), sorted(rows, key=lambda row: (row[3] != "all", row[3])))

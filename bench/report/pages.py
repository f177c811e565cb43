"""Blocks of the results page of any study, in Markdown, from its committed tables."""

from bench.report import words
from bench.report.claims import VERDICTS, overall


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


def claims_table(name: str) -> str:
    """Every claim that was measured, a row a setting: what was published, the interval, the verdict."""
    claims = words.committed(f"{name}-claims")
    measured = claims[claims["verdict"] != "not measured"]
    rows = []
    for row in measured.itertuples():
        many = (claims["claim"] == row.claim).sum() > 1
        where = f", {row.setting.removeprefix('thesis-')}" if many else ""
        note = f", {words.text(row.note)}" if words.text(row.note) else ""
        rows.append(
            (
                row.where,
                f"{row.statement} ({row.arms}{where}{note})",
                row.published,
                words.measured(row),
                f"**{row.verdict}**",
                row.seeds_needed,
            )
        )
    head = ("figure", "claim of the thesis", "published", "measured", "verdict", "seeds needed")
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

"""What docs/results-pntk.md and README say of the committed runs: blocks of Markdown from the tables of scale cpu."""

import pandas as pd

from bench.core import config, paths, study
from bench.report import pages, words

SHOWN = ("frobenius_per_pair", "lambda_max_per_point", "gap_without_prior", "off_on")
# What a reader wants to know first: a claim, and the setting that speaks for it
KEY = {
    "P03-rate": "thesis-A.10, fcn, d = 3072",
    "P24-last": "layers, fcn+widen=last",
    "P11-vanish": "thesis-3.2-fcn",
    "P12-frobenius": "thesis-3.2-fcn",
    "P13-accuracy": "thesis-3.2-fcn",
    "P16-trained": "thesis-3.9-fcn-10000",
    "P25-outputs": "outputs, fcn, width 1024",
}
# A claim that holds for another reason, if these do not
CONTROLS = {"P11-vanish": ("because the network fits its labels", ("P11-additions", "P11-without-prior"))}


def headline() -> str:
    """The key claims by verdict, with their numbers, and what the whole of CIFAR-10 took."""
    return "\n".join([pages.headline("pntk", KEY, CONTROLS), *_largest()])


def _largest() -> list[str]:
    """The largest kernel that was solved, at initialisation: its time, memory and accuracy."""
    table = words.committed("pntk-full").query("epoch == 0")
    if table.empty:
        return []
    row = table.sort_values(["train_points", "width"]).iloc[-1]
    seconds = sum(row[f"{phase}_seconds"] for phase in ("kernel", "factor", "spectrum", "solve", "cross"))
    return [
        f"  - **On {row['threads']:.0f} cores**: pNTK regression with {row['train_points']:,} training and "
        f"{row['test_points']:,} test images, `{row['net']}` of width {row['width']:,}, takes {seconds / 60:.0f} "
        f"minutes and {row['peak_memory_mb'] / 1024:.0f} GiB."
    ]


def rates() -> str:
    """Fitted exponents beside the theorems'."""
    table = words.committed("pntk-exponents")
    table = table[table["panel"].isin(["thesis-A.10", "layers", "outputs"]) & table["quantity"].isin(SHOWN)]
    table = table[(table["along"] == "width") | (table["panel"] == "outputs")]
    rows = []
    table = table.rename(columns={"from": "first"})
    for row in table.sort_values(["panel", "quantity", "net", "inputs", "fixed"]).itertuples():
        fixed = f"d = {row.inputs:,}" if row.along == "width" else f"width {row.fixed:,}"
        stated = f"{row.stated:g} ({row.where})" if pd.notna(row.stated) else ""
        span = f"{row.along} {row.first:,} to {row.to:,}"
        bound = f"{row.bound:.2f}" if row.along == "width" else ""
        fitted = words.plain(row.exponent, row.low, row.high)
        rows.append((f"`{row.quantity}`", f"`{row.net}`, {fixed}", span, fitted, stated, bound, row.n))
    head = ("quantity", "network", "fitted over", "exponent", "stated", "of log(n)/sqrt(n) there", "seeds")
    return words.table(head, rows)


def whole() -> str:
    """Regression with the kernel of a whole dataset: accuracies, time and memory."""
    table = words.committed("pntk-full")
    if table.empty:
        return "No finished runs yet."
    rows = []
    for row in table.sort_values(["net", "train_points", "width", "epoch", "seed"]).itertuples():
        seconds = [row.kernel_seconds, row.factor_seconds, row.solve_seconds, row.cross_seconds]
        times = " + ".join("?" if pd.isna(each) else f"{each:.0f}" for each in seconds)
        found = (100 * row.pseudo_accuracy, 100 * row.pseudo_accuracy_without_prior, 100 * row.accuracy)
        rows.append(
            (
                *(f"`{row.net}` {row.width:,}", f"{row.train_points:,} / {row.test_points:,}", row.epoch, row.seed),
                *(f"{each:.1f}" for each in found),
                *(f"{row.relative_jitter:.0e}", f"{row.residual:.0e}", times, f"{row.peak_memory_mb / 1024:.1f}"),
            )
        )
    head = ("network", "N / test", "epoch", "seed", "pNTK regression (%)", "without prior (%)", "network (%)", "jitter")
    return words.table((*head, "residual", "seconds: kernel, factor, solve, test block", "GiB"), rows)


# Panel and batch-norm statistics -> the width shown, which the choices share, and what was chosen
CHOICES = {
    ("thesis-3.2-fcn", "none"): (1024, "He's law, rate from the spectrum, squared loss"),
    ("choices-init", "none"): (1024, "PyTorch's law, the thesis' rate, squared loss"),
    ("choices-loss", "none"): (1024, "PyTorch's law, the thesis' rate, cross-entropy"),
    ("thesis-3.2-convnet", "none"): (1, "the read-out flattens"),
    ("choices-readout", "none"): (1, "the read-out is the mean over positions"),
    ("thesis-3.2-wrn-16", "initial"): (2, "batch norm begins with 0 and 1"),
    ("thesis-3.2-wrn-16", "one-pass"): (2, "batch norm has seen the points once"),
    ("thesis-3.2-resnet18", "initial"): (2, "batch norm begins with 0 and 1"),
    ("thesis-3.2-resnet18", "one-pass"): (2, "batch norm has seen the points once"),
}
CHOSEN = ("off_on", "frobenius", "gap", "gap_of_additions", "gap_without_prior")


def choices() -> str:
    """What the thesis leaves open, side by side, before training and after."""
    table = words.committed("pntk-summary")
    rows = []
    for (panel, statistics), (width, said) in CHOICES.items():
        mine = table[(table["panel"] == panel) & table["statistics"].isin([statistics, "trained"])]
        for epoch in sorted({0, mine["epoch"].max()} if len(mine) else ()):
            at = mine[(mine["width"] == width) & (mine["epoch"] == epoch)].set_index("quantity")
            if at.empty or (epoch and statistics == "one-pass"):
                continue
            found = [_shown(at, name) for name in CHOSEN]
            fits = f"{100 * at['train_accuracy'].iloc[0]:.0f}"
            rows.append((f"`{at['net'].iloc[0]}` {width:,}", said, epoch, fits, *found))
    head = ("network", "choice", "epoch", "labels fitted (%)", *(f"`{name}`" for name in CHOSEN))
    return words.table(head, rows) if rows else "No finished runs yet."


def _shown(at: pd.DataFrame, name: str) -> str:
    """A quantity of a setting; kernels that are singular to rounding have no predictions."""
    return words.plain(*at.loc[name, ["mean", "low", "high"]]) if name in at.index else "singular"


def scoreboard() -> str:
    table = words.committed("pntk-surrogates")
    table = table[table["panel"] == "surrogates"]
    if table.empty:
        return "No finished runs yet."
    rows = [
        (
            *(row.kernel, f"`{row.net}`", row.epoch, _number(row.frobenius), _number(row.frobenius_scaled)),
            *(
                words.plain(row.tau, row.tau_low, row.tau_high),
                words.points(row.accuracy, row.accuracy_low, row.accuracy_high),
            ),
            *(f"{row.seconds:.2g}", row.n),
        )
        for row in table.sort_values(["net", "epoch", "frobenius_scaled"]).itertuples()
    ]
    head = (
        "kernel",
        "network",
        "epoch",
        "Frobenius error",
        "at best scale",
        "Kendall's tau",
        "accuracy (%)",
        "seconds",
    )
    return words.table((*head, "seeds"), rows)


def memory() -> str:
    table = words.committed("pntk-memory").dropna(subset=["peak_bytes"])
    table = table[table["kernel"].isin(["entk", "pntk"]) & (table["width"] == table["width"].min())]
    if table.empty:
        return "No finished runs yet."
    rows = []
    for row in table.sort_values(["kernel", "train_points"]).itertuples():
        whole = 8 * row.numbers * (50_000 / row.train_points) ** 2
        rows.append(
            (
                *(row.kernel, f"{row.train_points:,}", f"{row.bytes / 1e6:,.1f} MB", f"{row.peak_bytes / 1e6:,.1f} MB"),
                *(f"{whole / 1e9:,.0f} GB", f"{row.seconds:.2g}"),
            )
        )
    return words.table(("kernel", "N", "kernel itself", "peak", "50,000 points, in doubles", "seconds"), rows)


def pairs() -> str:
    table = words.committed("pntk-pairs")
    if table.empty:
        return "No finished runs yet."
    wide = table.pivot_table(index=["net", "outputs"], columns="kernel", values=["seconds", "ratio"], aggfunc="median")
    order = sorted(wide.index, key=lambda key: (int(key[0].removeprefix("resnet")), key[1]))
    rows = [
        (
            *(net, f"{outputs:,}", f"{wide.loc[(net, outputs), ('seconds', 'entk')]:.3g}"),
            *(
                f"{wide.loc[(net, outputs), ('seconds', 'pntk')]:.3g}",
                f"{wide.loc[(net, outputs), ('ratio', 'entk')]:.3g}",
            ),
        )
        for net, outputs in order
    ]
    return words.table(("network", "O", "eNTK (s)", "pNTK (s)", "ratio"), rows)


def figures() -> str:
    """Links to the figures that were drawn."""
    lines = [
        f"- [{name}](../{paths.figure_stem('cpu', name)}.png): {figure.constants['TITLE']}"
        for name, figure in study.figures("pntk").items()
        if (config.ROOT / f"{paths.figure_stem('cpu', name)}.png").is_file()
    ]
    return "\n".join(lines) or "None yet."


def _number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2g}"


BLOCKS = {
    "pntk-answer": lambda: pages.answer("pntk"),
    "pntk-claims": lambda: pages.claims_table("pntk"),
    "pntk-rates": rates,
    "pntk-choices": choices,
    "pntk-full": whole,
    "pntk-scoreboard": scoreboard,
    "pntk-memory": memory,
    "pntk-pairs": pairs,
    "pntk-departures": lambda: pages.departures("pntk"),
    "pntk-figures": figures,
}

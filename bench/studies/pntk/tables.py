"""Tables of the pseudo-NTK study (thesis ch. 3): pure functions from records to frames.

Every function takes whatever cells are finished. Intervals are 95% t-intervals over seeds. Quantities that are ratios
or spread over decades are averaged as logarithms, so their mean is a geometric one; `QUANTITIES` says which.
"""

from dataclasses import asdict

import numpy as np
import pandas as pd

from bench.core import registry
from bench.core.study import texts
from bench.report import claims, stats
from bench.studies import pntk
from bench.studies.pntk.rates import exponents, rates

SETTING = ["measure", "dataset", "net", "width", "recipe"]
CELL = [*SETTING, "seed"]
POINTS = ["train_points", "test_points", "inputs", "outputs"]

# Quantity -> whether it is averaged as a logarithm. Names are those of `quantities.py` and of `measures/kernels.py`.
QUANTITIES = {
    "on_diagonal": True,
    "off_diagonal": True,
    "off_on": True,  # fig. 3.2: the ratio of the two
    "off_on_sum": True,  # its other reading
    "theta_norm": True,
    "error_norm": True,  # |P kron I - T|_F, lemma A.7.9
    "frobenius": True,  # fig. 3.3
    "frobenius_of_norms": True,
    "frobenius_per_pair": True,
    "frobenius_per_point": True,
    "lambda_max": True,  # fig. 3.4
    "lambda_max_per_point": True,
    "lambda_min": True,  # fig. 3.5
    "condition": True,  # fig. 3.6
    "theta_lambda_min": True,
    "pseudo_lambda_min": True,
    "gap": True,  # fig. 3.7
    "gap_without_prior": True,
    "gap_of_additions": True,
    "accuracy_difference": False,  # fig. 3.8
    "accuracy_difference_without_prior": False,
    "theta_accuracy": False,
    "pseudo_accuracy": False,
    "theta_accuracy_without_prior": False,
    "pseudo_accuracy_without_prior": False,
    "test_accuracy": False,
    "train_accuracy": False,
    "train_loss": True,
}
# What a kernel too near to singular cannot tell: its smallest eigenvalue, or the solution of its system
OF_LEAST = {
    "theta": ("lambda_min", "condition", "theta_lambda_min"),
    "pseudo": ("lambda_min", "condition", "pseudo_lambda_min"),
}
OF_SOLUTION = (
    "gap",
    "gap_without_prior",
    "gap_of_additions",
    "accuracy_difference",
    "accuracy_difference_without_prior",
)
RESIDUAL = 1e-3  # relative, above which a system is not solved
MOMENTS = [
    *("scale", *CELL, *POINTS, "average_pool", "partial", "device", "learning_rate", "diverged", "trained"),
    *("parameters", "epoch", "statistics", *QUANTITIES, "theta_lambda_max", "pseudo_lambda_max", "theta_condition"),
    *("pseudo_condition", "theta_resolved", "pseudo_resolved", "theta_jitter", "pseudo_jitter", "theta_residual"),
    *("pseudo_residual", "identity", "singular"),
]
SUMMARY = [
    *("scale", "panel", *SETTING, *POINTS, "epoch", "statistics", "quantity", "n", "mean", "low", "high"),
    *("seeds", "unresolved", "diverged", "train_accuracy"),
]
FULL = [
    *("scale", "panel", *CELL, "train_points", "test_points", "epoch", "statistics", "train_accuracy", "accuracy"),
    *("pseudo_accuracy", "pseudo_accuracy_without_prior", "minus_current", "minus_final", "lambda_max", "lambda_min"),
    *("resolved", "relative_jitter", "residual", "parameters", "kernel_seconds", "factor_seconds"),
    *("spectrum_seconds", "solve_seconds", "cross_seconds", "peak_memory_mb", "threads", "device_name"),
]
LEARNING = ["scale", "panel", *CELL, "epoch", "statistics", "size", "accuracy", "accuracy_without_prior"]
PAIRS = [
    *("scale", "net", "outputs", "seed", "device_name", "threads", "parameters", "kernel", "n", "seconds", "low"),
    *("high", "ratio"),
]
SURROGATES = [
    *("scale", "panel", *SETTING, "train_points", "epoch", "kernel", "n", "frobenius", "frobenius_scaled", "tau"),
    *("tau_low", "tau_high", "gap", "accuracy", "accuracy_low", "accuracy_high", "seconds", "peak_bytes"),
]
MEMORY = ["scale", "net", "width", "train_points", "outputs", "kernel", "numbers", "bytes", "peak_bytes", "seconds"]
DEPARTURES = ["scale", "panel", "what", "here", "paper"]


def tables(records: list[dict], metas: list[dict], config: dict) -> dict[str, pd.DataFrame]:
    """Every table of the study, from its records and their accounts in the same order."""
    panels, departing = config["pntk"]["panels"], pntk.departures(config)
    pairs = list(zip(records, metas, strict=True))
    moments = moments_of(records)
    seeds = config["pntk"]["seeds"]
    sound = by_panel(trusted(moments), panels, seeds)
    fitted = rates(sound)
    scored = scores([pair for pair in pairs if pair[0]["cell"]["measure"] == "surrogates"])
    whole = [pair for pair in pairs if pair[0]["cell"]["measure"] == "full"]
    frames = {
        "pntk-moments": moments,
        "pntk-summary": summary(sound),
        "pntk-rates": fitted,
        "pntk-exponents": exponents(fitted),
        "pntk-full": by_panel(full(whole), panels, seeds).reindex(columns=FULL),
        "pntk-learning": by_panel(learning(whole), panels, seeds).reindex(columns=LEARNING),
        "pntk-pairs": pair_times([pair for pair in pairs if pair[0]["cell"]["measure"] == "pair"]),
        "pntk-surrogates": surrogates(by_panel(scored, panels, seeds)),
        "pntk-memory": scored[scored["epoch"] == 0].reindex(columns=MEMORY).drop_duplicates(ignore_index=True),
        "pntk-departures": pd.DataFrame([asdict(each) for each in departing], columns=DEPARTURES).assign(
            scale=config["scale"]
        ),
    }
    judged = frames | {"sound": sound, "departures": texts(departing)}
    frames["pntk-claims"] = claims.ledger("pntk", judged, config)
    return frames


def about(record: dict) -> dict:
    """What every row of a record says of its setting."""
    protocol, data = record["settings"]["protocol"], record["data"] or {}
    facts = registry.components("datasets").get(record["cell"]["dataset"])
    pool = data.get("average_pool", 1)
    channels, height, width = facts.constants["SHAPE"] if facts else (3, 32, 32)
    classes = facts.constants["CLASSES"] if facts else 10
    return {
        **record["cell"],
        "scale": record["scale"],
        "train_points": protocol["train"],
        "test_points": protocol["test"],
        "inputs": channels * (height // pool) * (width // pool),  # d
        "outputs": protocol["outputs"] or classes,
        "average_pool": pool,
        "partial": data.get("partial", False),
        "device": record["device"],
        "learning_rate": record.get("learning_rate"),
        "diverged": len(record.get("diverged", [])),
        "trained": record.get("trained", False),
        "parameters": record["parameters"],
    }


def moments_of(records: list[dict]) -> pd.DataFrame:
    """One row per cell and moment of the measure `kernels`."""
    rows = [
        about(record) | moment
        for record in records
        if record["cell"]["measure"] == "kernels"
        for moment in record["moments"]
    ]
    frame = pd.DataFrame(rows).reindex(columns=list(dict.fromkeys([*MOMENTS, "on_diagonal_sum", "off_diagonal_sum"])))
    frame["off_on"] = frame["off_diagonal"] / frame["on_diagonal"]
    frame["off_on_sum"] = frame["off_diagonal_sum"] / frame["on_diagonal_sum"]
    frame["error_norm"] = frame["frobenius"] * frame["theta_norm"]
    for suffix in ("", "_without_prior"):
        frame[f"accuracy_difference{suffix}"] = frame[f"pseudo_accuracy{suffix}"] - frame[f"theta_accuracy{suffix}"]
    return frame.reindex(columns=MOMENTS).sort_values([*CELL, "epoch", "statistics"], ignore_index=True)


def trusted(moments: pd.DataFrame) -> pd.DataFrame:
    """Without what rounding or jitter has decided: eigenvalues below noise, and solutions that leave a residual.

    The table of moments keeps them, with what tells them apart.
    """
    moments = moments.copy()
    for kernel, columns in OF_LEAST.items():
        moments.loc[moments[f"{kernel}_resolved"] == False, list(columns)] = np.nan  # noqa: E712, missing is not False
    unsolved = (moments[["theta_residual", "pseudo_residual"]] > RESIDUAL).any(axis=1)
    moments.loc[unsolved, list(OF_SOLUTION)] = np.nan
    return moments


def by_panel(frame: pd.DataFrame, panels: dict, seeds: list[int]) -> pd.DataFrame:
    """The rows of each panel, with its name; a row that several panels share stands once for each."""
    parts = [frame.iloc[:0].assign(panel="")]
    for name, panel in panels.items():
        chosen = (frame["measure"] == panel["measure"]) & (frame["dataset"] == panel["dataset"])
        for axis in ("net", "width", "recipe"):
            chosen &= frame[axis].isin(panel[f"{axis}s"])
        chosen &= frame["seed"].isin(panel.get("seeds", seeds))
        parts.append(frame[chosen].assign(panel=name))
    return pd.concat(parts, ignore_index=True)


def summary(moments: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval over seeds of every quantity at every moment of every panel, one row each."""
    keys, rows = ["scale", "panel", *SETTING, *POINTS, "epoch", "statistics"], []
    for values, group in moments.groupby(keys, sort=False):
        shared = dict(zip(keys, values, strict=True)) | {
            "seeds": len(group),
            "unresolved": int((group["theta_resolved"] == False).sum()),  # noqa: E712, missing is not False
            "diverged": int((group["diverged"] > 0).sum()),
            "train_accuracy": group["train_accuracy"].mean(),
        }
        for quantity, as_log in QUANTITIES.items():
            found = averaged(group[quantity], as_log)
            if found["n"]:
                rows.append(shared | {"quantity": quantity} | found)
    return pd.DataFrame(rows, columns=SUMMARY)


def averaged(values: pd.Series, as_log: bool) -> dict[str, float]:
    """n, mean, low and high; of logarithms if so wished, and then of what has one."""
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float)
    numbers = numbers[np.isfinite(numbers) & ((numbers > 0) | (not as_log))]
    found = stats.describe(np.log(numbers) if as_log else numbers)
    back = np.exp if as_log else float
    return {"n": len(numbers)} | {key: float(back(found[key])) for key in ("mean", "low", "high")}


def full(pairs: list[tuple[dict, dict]]) -> pd.DataFrame:
    """Regression with the kernel of all points: one row per cell and moment."""
    rows = []
    for record, meta in pairs:
        final = record["moments"][-1]["test_accuracy"] if record["trained"] else None
        for moment in record["moments"]:
            ours = moment["accuracies"][-1] if "accuracies" in moment else None
            phases = ("kernel", "factor", "spectrum", "solve", "cross")
            laps = {f"{name}_seconds": _lap(record, meta, name, moment) for name in phases}
            rows.append(
                about(record)
                | {key: moment.get(key) for key in FULL if key in moment}
                | {
                    "accuracy": moment["test_accuracy"],
                    "pseudo_accuracy": ours,
                    "pseudo_accuracy_without_prior": moment.get("accuracies_without_prior", [None])[-1],
                    "minus_current": ours - moment["test_accuracy"] if ours is not None else None,
                    "minus_final": ours - final if ours is not None and final is not None else None,
                    "peak_memory_mb": meta["peak_memory_mb"],
                    "threads": meta["threads"],
                    "device_name": meta["device"]["name"],
                }
                | laps
            )
    return pd.DataFrame(rows, columns=[column for column in FULL if column != "panel"])


def _lap(record: dict, meta: dict, name: str, moment: dict) -> float | None:
    """Seconds of a kind of work at a moment: laps are listed in the order of epochs."""
    laps, epochs = meta["seconds_per_step"].get(name, []), sorted({each["epoch"] for each in record["moments"]})
    place = epochs.index(moment["epoch"])
    return laps[place] if place < len(laps) else None


def learning(pairs: list[tuple[dict, dict]]) -> pd.DataFrame:
    """Accuracy against the size of the training set, of the same kernel's leading blocks."""
    rows = [
        about(record)
        | {"epoch": moment["epoch"], "statistics": moment["statistics"], "size": size}
        | {"accuracy": with_prior, "accuracy_without_prior": without}
        for record, _ in pairs
        for moment in record["moments"]
        if "sizes" in moment
        for size, with_prior, without in zip(
            moment["sizes"], moment["accuracies"], moment["accuracies_without_prior"], strict=True
        )
    ]
    return pd.DataFrame(rows, columns=[column for column in LEARNING if column != "panel"])


def pair_times(pairs: list[tuple[dict, dict]]) -> pd.DataFrame:
    """Median and quartiles of seconds for one pair of inputs, and the eNTK's over the pNTK's."""
    rows = []
    for record, meta in pairs:
        laps = {kernel: np.array(meta["seconds_per_step"][kernel]) for kernel in ("entk", "pntk")}
        for kernel, seconds in laps.items():
            low, median, high = np.quantile(seconds, [0.25, 0.5, 0.75])
            rows.append(
                about(record)
                | {"device_name": meta["device"]["name"], "threads": meta["threads"], "kernel": kernel}
                | {"outputs": record["moments"][0]["outputs"], "n": len(seconds), "seconds": median, "low": low}
                | {"high": high, "ratio": median / np.median(laps["pntk"])}
            )
    return pd.DataFrame(rows, columns=PAIRS)


def scores(pairs: list[tuple[dict, dict]]) -> pd.DataFrame:
    """One row per cell, moment and kernel of the measure `surrogates`."""
    rows = []
    for record, meta in pairs:
        size = {"float32": 4, "float64": 8}[record["settings"]["protocol"]["precision"]]
        for moment in record["moments"]:
            for score in moment["surrogates"]:
                peaks = dict(meta["peak_bytes"].get(score["kernel"], []))
                rows.append(
                    about(record)
                    | {"epoch": moment["epoch"], "bytes": size * score["numbers"]}
                    | {"seconds": _lap(record, meta, score["kernel"], moment), "peak_bytes": peaks.get(moment["epoch"])}
                    | score
                )
    columns = [*CELL, *POINTS, *SURROGATES, *MEMORY]
    return pd.DataFrame(rows).reindex(columns=list(dict.fromkeys(each for each in columns if each != "panel")))


def surrogates(scored: pd.DataFrame) -> pd.DataFrame:
    """The scoreboard: means over seeds, with intervals where ranks are read from them."""
    keys, rows = ["scale", "panel", *SETTING, "train_points", "epoch", "kernel"], []
    for values, group in scored.groupby(keys, sort=False):
        row = dict(zip(keys, values, strict=True)) | {"n": len(group), "peak_bytes": group["peak_bytes"].max()}
        for key in ("frobenius", "frobenius_scaled", "gap", "seconds"):
            row[key] = group[key].astype(float).mean()
        for key in ("tau", "accuracy"):
            found = stats.describe(group[key].astype(float))
            row |= {key: found["mean"], f"{key}_low": found["low"], f"{key}_high": found["high"]}
        rows.append(row)
    return pd.DataFrame(rows, columns=SURROGATES)

"""What the runs say of the thesis' claims about the pNTK (claims.csv). `of` names a column; quantities:

    exponent    fitted exponent of it against the width (of panel `outputs`, against O), at initialisation
    widening    its value at the widest network over that at the narrowest, at initialisation
    training    its value after training over that before, at the widest network
    first, last its value before or after training, at the widest network
    always      its mean over all widths and moments
    wider, longer   accuracy at the widest minus the narrowest, after minus before training, of the whole dataset
    later       accuracy at the end minus that at the first moment within training, of the whole dataset
    before      its value before training, of the whole dataset, at the widest network
    pair-ratio, pair-growth   seconds of the eNTK over the pNTK; the exponent of that ratio against O
    memory      numbers of the eNTK over those of the pNTK; a note has the measured memory at the largest N
    ablation    its value over that of ReLU with He's initialisation, at the widest network, at initialisation

One value per seed; of `pair-...`, one per network. Where the network does not fit its labels (training accuracy below
FITS), what is said of trained kernels is marked, and not comparable. Moments whose kernel is too near to singular to be
solved, or whose smallest eigenvalue is below rounding, are left out where that matters.

Kernels at initialisation are cheap, training is not: where a scale has a panel `initial-<net>`, with more widths and
seeds, it speaks for `thesis-3.2-<net>` of them. A panel of one width says nothing of widening, an untrained one nothing
of training, and the whole dataset with a single seed decides nothing: it stands in its table and in no claim.
"""

from fnmatch import fnmatch

import numpy as np
import pandas as pd

from bench.report.claims import Measured
from bench.studies.pntk import FITS, of_setting

AT_START = ("widening", "first")
OF_WIDTHS, OF_TRAINING = ("widening", "wider"), ("training", "last", "longer", "later")
OF_WHOLE = ("wider", "longer", "later", "before")
TRAINED, INITIAL = "thesis-3.2-", "initial-"
SATURATING = ("activation=tanh", "activation=erf")


def measure(claim: dict, frames: dict, config: dict) -> list[Measured]:
    kind = claim["quantity"]
    if kind.startswith("pair-"):
        return _pairs(claim, frames["pntk-pairs"])
    if kind == "memory":
        return _memory(frames["pntk-memory"])
    found = []
    for name, panel in _panels(claim, config).items():
        stand_in = panel["dataset"] not in ("cifar10", "noise")
        for each in _of_panel(claim, name, frames):
            each.departures = frames["departures"].get(name, "")
            each.comparable = each.comparable and not stand_in
            found.append(each)
        if not any(name in each.setting for each in found):
            found.append(Measured([], setting=name))
    return found


def _panels(claim: dict, config: dict) -> dict[str, dict]:
    """Those that can say something of a claim."""
    panels, kind = config["pntk"]["panels"], claim["quantity"]
    names = [name for name in panels if fnmatch(name, claim["panel"])]
    if kind in AT_START:
        others = [name.replace(TRAINED, INITIAL) for name in names]
        names = [other if other in panels else name for name, other in zip(names, others, strict=True)]
    chosen = {name: panels[name] for name in names}
    if kind in OF_WIDTHS:
        chosen = {name: panel for name, panel in chosen.items() if len(panel["widths"]) > 1}
    if kind in OF_TRAINING:
        chosen = {name: panel for name, panel in chosen.items() if _trains(panel, config)}
    if kind in OF_WHOLE:
        seeds = config["pntk"]["seeds"]
        chosen = {name: panel for name, panel in chosen.items() if len(panel.get("seeds", seeds)) > 1}
    return chosen


def _trains(panel: dict, config: dict) -> bool:
    settings = (of_setting(config, panel["measure"], panel["dataset"], recipe) for recipe in panel["recipes"])
    return any(each["protocol"]["trained"] for each in settings)


def _of_panel(claim: dict, panel: str, frames: dict) -> list[Measured]:
    kind, of = claim["quantity"], claim["of"]
    if kind == "exponent":
        return _exponents(claim, panel, frames["pntk-rates"])
    if kind in OF_WHOLE:
        return _whole(kind, of, panel, frames["pntk-full"])
    if panel not in set(frames["sound"]["panel"]):
        return []
    moments = frames["sound"][frames["sound"]["panel"] == panel]
    if kind == "ablation":
        return _ablation(of, panel, moments)
    wanted = claim["statistics"] or ("initial" if "initial" in set(moments["statistics"]) else "none")
    start = moments[(moments["epoch"] == 0) & (moments["statistics"] == wanted)]
    last = moments["epoch"].max()
    end = moments[moments["epoch"] == last]
    if kind == "always":
        every = pd.concat([start, moments[moments["epoch"] > 0]])
        without = every[of].isna().sum()
        arms = f"mean of {moments['width'].nunique()} widths and all moments"
        note = f"{without} of {len(every)} moments without a solution left out" if without else ""
        return [Measured(every.groupby("seed")[of].mean().dropna(), panel, arms, note=note)]
    wide = start["width"].max()
    if kind == "widening":
        narrow = start["width"].min()
        if wide == narrow:  # others have not run yet
            return []
        ratio = _log_ratio(_at(start, wide, of), _at(start, narrow, of))
        return [Measured(ratio, panel, f"width {wide} over {narrow}", "times", note=_statistics(wanted))]
    if kind == "first":
        return [Measured(_at(start, wide, of), panel, f"width {wide}", "")]
    if not last:
        return []
    values = _at(end, wide, of)
    fits = _at(end, wide, "train_accuracy").min() >= FITS
    note = f"epoch {last}" + ("" if fits else ", where the network does not fit its labels")
    if kind == "training":
        values = _log_ratio(values, _at(start, wide, of))
        note += f" over epoch 0{', ' + _statistics(wanted) if _statistics(wanted) else ''}"
        return [Measured(values, panel, f"width {wide}", "times", fits, note=note)]
    unit = "points" if of.startswith("accuracy") else ""
    return [Measured(values.dropna(), panel, f"width {wide}", unit, fits, note=note)]


def _at(rows: pd.DataFrame, width: int, column: str) -> pd.Series:
    return rows[rows["width"] == width].set_index("seed")[column].astype(float)


def _log_ratio(a: pd.Series, b: pd.Series) -> pd.Series:
    both = pd.concat([a, b], axis=1).dropna()
    both = both[(both > 0).all(axis=1)]
    return np.log(both.iloc[:, 0]) - np.log(both.iloc[:, 1])


def _statistics(wanted: str) -> str:
    return "" if wanted == "none" else f"batch norm: {'0 and 1' if wanted == 'initial' else 'after one pass'}"


def _exponents(claim: dict, panel: str, fitted: pd.DataFrame) -> list[Measured]:
    along = "outputs" if panel == "outputs" else "width"
    mine = fitted[(fitted["panel"] == panel) & (fitted["quantity"] == claim["of"]) & (fitted["along"] == along)]
    if claim["net"]:
        mine = mine[mine["net"] == claim["net"]]
    found = []
    for (net, inputs, fixed), group in mine.groupby(["net", "inputs", "fixed"]):
        about = f"d = {inputs}" if along == "width" else f"width {fixed}"
        arms = f"{along} {group['from'].min()} to {group['to'].max()}"
        found.append(Measured(group.set_index("seed")["exponent"], f"{panel}, {net}, {about}", arms, ""))
    return found


def _whole(kind: str, of: str, panel: str, rows: pd.DataFrame) -> list[Measured]:
    mine = rows[rows["panel"] == panel]
    found = []
    for (net, points), group in mine.groupby(["net", "train_points"]):
        last, wide, narrow = group["epoch"].max(), group["width"].max(), group["width"].min()
        setting = f"{panel}, {net}, N = {points:,}"
        fits = bool(_at(group[group["epoch"] == last], wide, "train_accuracy").min() >= FITS)
        unfit = "" if fits else "the network does not fit its labels"
        if kind == "wider" and wide > narrow:
            epoch = 0 if of.startswith("pseudo") else last
            at = group[group["epoch"] == epoch]
            difference = _at(at, wide, of) - _at(at, narrow, of)
            found.append(Measured(difference.dropna(), setting, f"width {wide} minus {narrow}", note=f"epoch {epoch}"))
        elif kind == "longer" and last:
            difference = _at(group[group["epoch"] == last], wide, of) - _at(group[group["epoch"] == 0], wide, of)
            arms = f"width {wide}, epoch {last} minus 0"
            found.append(Measured(difference.dropna(), setting, arms, comparable=fits, note=unfit))
        elif kind == "later":
            early = group.loc[group["epoch"] > 0, "epoch"].min()
            if early < last:
                difference = _at(group[group["epoch"] == last], wide, of) - _at(
                    group[group["epoch"] == early], wide, of
                )
                arms = f"width {wide}, epoch {last} minus {early}"
                found.append(Measured(difference.dropna(), setting, arms, comparable=fits, note=unfit))
        elif kind == "before":
            values = _at(group[group["epoch"] == 0], wide, of).dropna()
            found.append(Measured(values, setting, f"width {wide}", comparable=fits, note=unfit))
    return found


def _ablation(of: str, panel: str, moments: pd.DataFrame) -> list[Measured]:
    start = moments[moments["epoch"] == 0]
    wide = start["width"].max()
    plain = _at(start[start["net"] == "fcn"], wide, of)
    found = []
    for net, rows in start.groupby("net"):
        if net != "fcn":
            ratio, arms = _log_ratio(_at(rows, wide, of), plain), f"{net} over fcn, width {wide}"
            outside = net.endswith(SATURATING)
            note = "outside Setting B: this nonlinearity saturates" if outside else ""
            found.append(Measured(ratio, f"{panel}, {net}", arms, "times", not outside, note=note))
    return found


def _pairs(claim: dict, times: pd.DataFrame) -> list[Measured]:
    entk = times[times["kernel"] == "entk"]
    if claim["quantity"] == "pair-ratio":
        return [
            Measured(
                np.log(rows["ratio"]), f"thesis-3.1, O = {o}", f"eNTK over pNTK, O = {o}", "times", note="over networks"
            )
            for o, rows in entk.groupby("outputs")
        ]
    slopes = [
        np.polyfit(np.log(rows["outputs"]), np.log(rows["ratio"]), 1)[0]
        for _, rows in entk.groupby("net")
        if len(rows) > 1
    ]
    return [Measured(slopes, "thesis-3.1", "eNTK over pNTK", "", note="over networks")] if slopes else []


def _memory(memory: pd.DataFrame) -> list[Measured]:
    """The kernel itself, over numbers of points; a note has the memory of the process with all scratch."""
    kernels = memory.dropna(subset=["peak_bytes"])
    kernels = kernels[kernels["width"] == kernels["width"].min()]  # the kernel, not the network, is what takes memory
    wide = kernels.pivot_table(index="train_points", columns="kernel", values=["bytes", "peak_bytes"])
    if wide.empty or not {"entk", "pntk"} <= set(kernels["kernel"]):
        return []
    ratio = np.log(wide["bytes", "entk"] / wide["bytes", "pntk"]).dropna()
    points, last = wide.index[-1], wide["peak_bytes"].iloc[-1]
    note = "over N"
    if last["pntk"]:  # of tiny kernels, no more than noise
        note += f"; with all scratch {last['entk'] / last['pntk']:.0f} times at N = {points:,}"
    return [Measured(ratio, "memory", "eNTK over pNTK", "times", note=note)]

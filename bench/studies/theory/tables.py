"""Tables of the theory study: one of rows for each experiment, the rates fitted, and the verdicts."""

import pandas as pd

from bench.core import registry
from bench.report import claims
from bench.studies.theory import EXPERIMENTS, departures
from bench.studies.theory.rates import rates

ABOUT = ["scale", "setting", "seed"]


def tables(records: list[dict], metas: list[dict], config: dict) -> dict[str, pd.DataFrame]:
    frames = {f"theory-{name}": rows(name, records) for name in registry.components(EXPERIMENTS)}
    departing = pd.DataFrame([vars(each) for each in departures(config)], columns=["panel", "what", "here", "paper"])
    frames |= {"theory-rates": rates(frames), "theory-departures": departing.assign(scale=config["scale"])}
    return frames | {"theory-claims": claims.ledger("theory", frames, config)}


def rows(name: str, records: list[dict]) -> pd.DataFrame:
    """Everything that the cells of an experiment found."""
    columns = registry.components(EXPERIMENTS)[name].constants["COLUMNS"]
    found = [
        {"scale": record["scale"], "setting": record["cell"]["setting"], "seed": record["cell"]["seed"]} | row
        for record in records
        if record["cell"]["experiment"] == name
        for row in record["rows"]
    ]
    return pd.DataFrame(found, columns=[*ABOUT, *columns])

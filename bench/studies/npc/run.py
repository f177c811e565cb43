"""NPC section 5: active semi-supervised learning. One cell is one trial of one strategy.

    initial labels, as many of every class -> the median of five trainings is the initial model of all (section 5.1)
    query with the model -> train a new network on all labels bought -> evaluate -> query ...

Unlabelled images are all of the pool, candidates those without a label. Queries are made with the running average of
the weights, in evaluation mode, on clean images (the paper does not say), and so is the accuracy measured. Networks are
trained from scratch; strategies of one trial share weights and order, so that they differ in labels alone.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from bench import nets, strategies
from bench.core import paths, records, registry
from bench.core.errors import UserError
from bench.core.progress import say
from bench.core.seeds import stream, torch_stream
from bench.learn.data import Data
from bench.learn.fixmatch import Settings, fit
from bench.learn.randaugment import OPERATIONS, Views
from bench.learn.train import Diverged, evaluate, predict
from bench.learn.weights import as_text, load_text
from bench.strategies._bought import bought
from bench.strategies._memory import Remembering
from bench.studies.npc import INITIAL, RECORD, Cell, needed
from bench.studies.npc.batches import measure

FIRST = 1000  # number of the first initial training, so that its streams are no later training's
NOTHING = {"queried": [], "bought": {}, "notes": {}, "criteria": {}}  # of a label set that was bought elsewhere


def run(cell: Cell, settings: dict, data: Data, device: torch.device, journal) -> dict:
    others = {other.mode: _read(cell, other, settings, journal.path) for other in needed(cell, settings)}
    strategy, _ = registry.load("strategies", cell.strategy)
    if hasattr(strategy, "network") or hasattr(strategy, "fit"):
        raise UserError(f"{cell}: {cell.strategy} brings a network or a training of its own; choose another strategy")
    work = Work(cell, settings, data, device, journal)
    state = journal.state or {"cycles": [], "net": None, "training": None}
    if settings["recipe"]["labels_of"]:
        found = work.again(state, others[cell.mode])
    elif cell.mode == INITIAL:
        found = work.initial(state)
    else:
        found = work.steps(state, others.get(INITIAL))
    return found | {"parameters": sum(p.numel() for p in work.network("count").parameters()), "pool": len(work.pool)}


class Work:
    """What the trainings and queries of a cell share."""

    def __init__(self, cell: Cell, settings: dict, data: Data, device: torch.device, journal):
        self.cell, self.settings, self.data, self.device, self.journal = cell, settings, data, device, journal
        protocol, recipe = settings["protocol"], dict(settings["recipe"])
        recipe.pop("labels_of")
        self.evaluations = recipe.pop("evaluations")
        self.training = Settings(**recipe)
        self.views = Views(
            flip=protocol["flip"], operations=OPERATIONS[protocol["operations"]], cutout=protocol["cutout"]
        )
        # The same for every trial: streams of no seed in particular
        self.pool, tested = (
            np.sort(stream(0, "data", split).permutation(data.size(split))[: protocol[key]])
            for split, key in (("train", "pool"), ("test", "test"))
        )
        self.x, self.y = data.images("train", self.pool), data.labels("train", self.pool)  # (N, C, H, W), (N,)
        self.x_test, self.y_test = data.images("test", tested), data.labels("test", tested)

    def initial(self, state: dict) -> dict:
        """Several trainings on one set of balanced labels; the weights of the one of median accuracy are kept."""
        labelled, trials = self._balanced(), self.settings["protocol"]["trials"]
        weights = state.get("weights", [])
        for trial in range(len(state["cycles"]), trials):
            say(f"initial training {trial + 1}/{trials}: {len(labelled)} labels")
            net, found = self._train(labelled, FIRST + trial, state)
            weights = [*weights, as_text(net)]
            state = {"cycles": [*state["cycles"], found | NOTHING], "net": None, "training": None, "weights": weights}
            self.journal.save(state)
        accuracies = [found["test_accuracy"] for found in state["cycles"]]
        median = int(np.argsort(accuracies, kind="stable")[(trials - 1) // 2])
        return {
            "initial": self._names(labelled),
            "cycles": state["cycles"],
            "median": median,
            "weights": weights[median],
        }

    def steps(self, state: dict, initial: dict | None) -> dict:
        """Query, train, evaluate, as often as the settings say; from the initial model, or from a random network."""
        net, first = self.network("zero").eval(), []
        if initial:
            load_text(net, initial["weights"])
            first = initial["initial"]
        if state["net"]:
            net.load_state_dict(state["net"])
        sizes = self.settings["queries"]
        for step in range(len(state["cycles"]), len(sizes)):
            labelled = self._places(first, *(done["queried"] for done in state["cycles"]))
            if "asked" not in state:
                say(f"query {step + 1}/{len(sizes)}: {sizes[step]} labels more than {len(labelled)}")
                notes = [done["notes"] for done in state["cycles"]]
                state = {**state, "asked": self._query(net, labelled, step, sizes[step], notes)}
                self.journal.save(state)
            labelled = self._places(self._names(labelled), state["asked"]["queried"])
            net, found = self._train(labelled, step, state)
            done = [*state["cycles"], found | state["asked"]]
            state = {"cycles": done, "net": net.state_dict(), "training": None}
            self.journal.save(state)
        return {"initial": first, "cycles": state["cycles"]}

    def again(self, state: dict, theirs: dict) -> dict:
        """Train on the label sets of another cell, its initial one included."""
        then = [done["queried"] for done in theirs["cycles"]]
        sets = [(step, self._places(theirs["initial"], *then[: step + 1])) for step in range(len(then))]
        if theirs["initial"]:
            sets = [(FIRST, self._places(theirs["initial"])), *sets]
        for number, labelled in sets[len(state["cycles"]) :]:
            say(f"{len(labelled)} labels")
            _, found = self._train(labelled, number, state)
            state = {"cycles": [*state["cycles"], found | NOTHING], "net": None, "training": None}
            self.journal.save(state)
        return {"initial": theirs["initial"], "cycles": state["cycles"]}

    def network(self, *name: str | int) -> nn.Module:
        generator = torch_stream(self.cell.seed, "init", *name)
        net = nets.build(self.cell.net, self.data.shape, self.data.classes, self.cell.width, generator)
        return net.to(self.device, memory_format=torch.channels_last)

    def _balanced(self) -> np.ndarray:
        """Positions of the initial labels: as many of every class, drawn uniformly."""
        each, order = (
            self.settings["protocol"]["initial"],
            stream(self.cell.seed, "data", "initial").permutation(len(self.y)),
        )
        y = self.y.cpu().numpy()
        found = [order[y[order] == label][:each] for label in range(self.data.classes)]
        if short := [label for label, places in enumerate(found) if len(places) < each]:
            raise UserError(
                f"{self.cell}: a pool of {len(y)} images has fewer than {each} of class {short[0]}; set "
                f"npc.protocol.{self.cell.dataset}.pool higher"
            )
        return np.concatenate(found)

    def _train(self, labelled: np.ndarray, number: int, state: dict) -> tuple[nn.Module, dict]:
        """A network from scratch on these labels; its running average, and what is to be said of it."""
        net, training = self.network(number), self.training
        looks = list(state["training"]["looks"]) if state["training"] else []

        def save(now: dict) -> None:
            self.journal.save(state | {"training": now | {"looks": list(looks)}})

        def look(average: nn.Module, epoch: int) -> None:
            with self.journal.clock("evaluate", number):
                looks.append(evaluate(average, self.x_test, self.y_test, "cross-entropy")[0])

        places = torch.from_numpy(labelled).to(self.device)
        with self.journal.clock("train", number):
            try:
                average = fit(
                    *(net, self._pixels(), places, self.y[places], training, self.views, self.cell.seed, number),
                    normalise=lambda x: (x - self.data.mean) / self.data.std,
                    resume=state["training"],
                    save=save,
                    save_every=self.journal.save_every,
                    at=range(training.epochs - self.evaluations + 1, training.epochs + 1),
                    look=look,
                )
            except Diverged as failure:
                key = f"npc.recipes.{self.cell.recipe.partition('+')[0]}.lr"
                raise UserError(f"{self.cell}: {failure}; lower {key}") from None
        with self.journal.clock("evaluate", number):
            found = {
                "labelled": len(labelled),
                "test_accuracy": float(np.mean(looks)),
                "last_accuracy": looks[-1],
                "train_accuracy": evaluate(average, self.x[places], self.y[places], "cross-entropy")[0],
            } | self._pseudo_labels(average)
        say(f"  test accuracy {found['test_accuracy']:.4f}, of the pool {found['pool_accuracy']:.4f}")
        return average, found

    def _pixels(self) -> Tensor:
        """The pool in [0, 1], as augmentation wants it."""
        return self.x * self.data.std + self.data.mean

    def _pseudo_labels(self, net: nn.Module) -> dict:
        """How good a network's pseudo-labels of the pool are: all, and those that FixMatch would use."""
        confidence, pseudo = predict(net, self.x).double().softmax(1).max(1)  # (N,) each
        right, sure = (pseudo == self.y).double(), confidence >= self.training.threshold
        return {
            "pool_accuracy": right.mean().item(),
            "sure": sure.double().mean().item(),
            "sure_accuracy": right[sure].mean().item() if sure.any() else None,
            "predicted": torch.bincount(pseudo, minlength=self.data.classes).tolist(),
        }

    def _query(self, net: nn.Module, labelled: np.ndarray, step: int, size: int, earlier: list[dict]) -> dict:
        """What the strategy buys, and what that is."""
        rest = np.setdiff1d(np.arange(len(self.pool)), labelled)  # candidates: positions in the pool
        known, notes, criteria = torch.from_numpy(labelled).to(self.device), {}, {}
        net.requires_grad_(True)  # a running average has none, and kernels read gradients
        query = Remembering(net, self.x[known], self.y[known], self.x[rest], notes=notes, earlier=earlier)
        with self.journal.clock("query", step):
            chosen = strategies.select(self.cell.strategy, query, size, stream(self.cell.seed, "query", step))
        with self.journal.clock("evaluate", step):
            about = bought(query, chosen, self.y[rest])
            if self.cell.strategy == "random" and len(labelled):
                count, draws = self.settings["protocol"]["batches"], stream(self.cell.seed, "criteria", step)
                criteria = measure(query, size, count, self.y[rest], draws)
        return {"queried": self._names(rest[chosen]), "bought": about, "notes": notes, "criteria": criteria}

    def _names(self, places: np.ndarray) -> list[int]:
        """Numbers of training images, of positions in the pool."""
        return self.pool[places].tolist()

    def _places(self, *names: list[int]) -> np.ndarray:
        """Positions in the pool, of numbers of training images, in their order."""
        numbers = np.concatenate([np.array(each, dtype=int) for each in names])
        places = np.searchsorted(self.pool, numbers)
        if not np.array_equal(self.pool[places.clip(max=len(self.pool) - 1)], numbers):
            raise UserError(f"{self.cell}: some labels were bought in another pool; give both recipes the same")
        return places


def _read(cell: Cell, other: Cell, settings: dict, resume: Path) -> dict:
    """The record of a cell that this one needs."""
    path = paths.other_record(resume, cell, other)
    if path is None:
        raise UserError(f"{cell} reads the record of {other} from below results/; leave --out away")
    if not path.is_file():
        raise UserError(f"{path} is missing; first type: python -m bench run npc {other} --scale {path.parts[1]}")
    record = records.read(path, RECORD)
    expected = settings.get("bought_with", settings | {"queries": []})
    if record["settings_hash"] != records.fingerprint(expected):
        raise UserError(f"{path} is of other settings; remove it and run it again")
    return record

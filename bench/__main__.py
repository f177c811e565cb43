"""The command line: python -m bench {run,data,collect,figure,status,plan,perf,doctor,docs}; --help says more."""

import argparse
import json
import os
import sys
from pathlib import Path

from bench import config as configuration
from bench import grid, registry
from bench.cells import Cell
from bench.errors import UserError


def main(words: list[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        arguments.do(arguments)
    except UserError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("bench: interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, do, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(do=do)
        return sub

    def scale(sub: argparse.ArgumentParser) -> None:
        text = "the name of a file config/<name>.yaml, or the path of your own YAML file; default quick"
        sub.add_argument("--scale", default="quick", help=text)

    sub = command("run", _run, "Run one cell; killed and started again, it continues.")
    sub.add_argument("study", choices=grid.STUDIES)
    for axis in ("dataset", "net", "recipe", "strategy"):
        sub.add_argument(f"--{axis}", required=True)
    sub.add_argument("--width", type=int, required=True, help="in the unit the network states")
    sub.add_argument("--seed", type=int, required=True)
    sub.add_argument("--out", type=Path, required=True, help="the record to write (.json)")
    scale(sub)
    sub.add_argument("--settings", help="recipe, protocol and data settings as JSON, instead of the scale's")
    sub.add_argument("--root", help="folder of the canonical arrays, instead of the scale's")
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    sub.add_argument("--threads", type=int, default=1, help="CPU threads; records are repeatable for a fixed number")
    sub.add_argument("--save-every", type=int, default=10, metavar="EPOCHS", help="how often to save for resuming")

    sub = command("data", _data, "Prepare data/<name>.npz by download, or from a canonical file you have.")
    sub.add_argument("name", choices=sorted(registry.components("datasets")))
    sub.add_argument("--root", default="data", help="folder to put it in; default data")
    sub.add_argument("--from", dest="source", metavar="FILE", help="a canonical .npz already on disk")

    sub = command("collect", _collect, "Make the tables of the look-ahead study from its records.")
    scale(sub)
    sub.add_argument("--settings", help="scale, seeds, panels and deviations as JSON, instead of the scale's file")
    sub.add_argument("--out", type=Path, help="folder of the tables; default results/<scale>/tables")
    sub.add_argument("--partial", action="store_true", help="use the records that exist and say which do not")

    sub = command("figure", _figure, "Draw one figure from tables alone (no torch, no runs).")
    sub.add_argument("name", choices=sorted(registry.components("figures")))
    scale(sub)
    sub.add_argument("--tables", type=Path, help="folder of the tables; default results/<scale>/tables")
    sub.add_argument("--out", type=Path, help="path without suffix; default figures/<scale>/<name>")

    scale(command("status", _status, "What is done, running, failed and missing."))
    sub = command("plan", _plan, "Jobs of a scale and the hours they would take on this machine, from measured costs.")
    scale(sub)
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    sub.add_argument("--out", type=Path, help="also write the prices as CSV")
    sub = command("perf", _perf, "Speed of the suite's own machinery beside its peers, as ratios in one run.")
    sub.add_argument("what", choices=("kernels", "lookahead"))
    sub.add_argument("--peers", action="store_true", help="kernels: also neural-tangents, in an environment of its own")
    sub.add_argument("--profile", action="store_true", help="kernels: only profile again the cases of an earlier run")
    sub.add_argument("--out", type=Path, default=Path("results/perf"), help="folder; default results/perf")
    sub.add_argument("--only", help="measure only cases whose description contains this, e.g. \"net='fcn'\"")
    scale(command("doctor", _doctor, "What this machine has, what is missing, and what to type."))
    command("docs", _docs, "Rewrite what config/README.md and README.md repeat from the code (for maintainers).")
    return parser


def _run(a: argparse.Namespace) -> None:
    for flag, value, least in (
        ("width", a.width, 1),
        ("threads", a.threads, 1),
        ("save-every", a.save_every, 1),
        ("seed", a.seed, 0),
    ):
        if value < least:
            raise UserError(f"--{flag}: found {value}; allowed: a whole number, at least {least}")
    if a.out.suffix != ".json" or a.out.is_dir():
        raise UserError(f"--out: found {str(a.out)!r}; allowed: the path of a file that ends in .json")
    net, strategy = registry.canonical("nets", a.net), registry.canonical("strategies", a.strategy)
    if a.dataset not in registry.components("datasets"):
        raise UserError(registry.unknown("dataset", a.dataset, registry.components("datasets")))
    settings, root, scale = _json("--settings", a.settings), a.root, a.scale
    if settings is None:
        config = configuration.load(a.scale)
        if a.dataset not in (protocols := config["lookahead"]["protocol"]):
            raise UserError(f"{a.scale}: {registry.unknown('dataset of lookahead.protocol', a.dataset, protocols)}")
        try:
            settings, scale = grid.settings(config, a.dataset, a.recipe), config["scale"]
        except UserError as error:
            raise UserError(f"{a.scale}: {error}") from None
        root = root or config["data"]["root"]
    elif wrong := {"average_pool", "statistics", "recipe", "protocol"} ^ set(settings):
        raise UserError(f"--settings: the keys {sorted(wrong)} are missing or unknown")
    from bench.run import run

    cell = Cell(a.dataset, net, a.width, a.recipe, strategy, a.seed)
    where = {"where": a.device, "threads": a.threads, "save_every": a.save_every}
    run(a.study, scale, cell, settings, root or "data", a.out, **where)


def _data(a: argparse.Namespace) -> None:
    from bench.data import load, prepare

    path = prepare(a.name, a.root, a.source)
    facts = load(a.name, a.root).describe()
    size = f"{facts['train']:,} train and {facts['test']:,} test images" + (", PARTIAL" if facts["partial"] else "")
    print(f"{path}: {size}, sha256 {facts['checksum'][:16]}")


def _collect(a: argparse.Namespace) -> None:
    from bench.collect import collect

    settings = _json("--settings", a.settings) or grid.collection(configuration.load(a.scale))
    collect(settings, a.out or Path(f"results/{settings['scale']}/tables"), a.partial)


def _figure(a: argparse.Namespace) -> None:
    from bench.collect import draw

    name = configuration.load(a.scale)["scale"] if a.scale.endswith((".yaml", ".yml")) else a.scale
    draw(a.name, a.tables or Path(f"results/{name}/tables"), a.out or Path(f"figures/{name}/{a.name}"))


def _status(a: argparse.Namespace) -> None:
    from bench.status import report

    print(report(configuration.load(a.scale)))


def _plan(a: argparse.Namespace) -> None:
    from bench import plan, tables

    table = plan.prices(configuration.load(a.scale), a.device)
    if a.out:
        tables.write(table, a.out)
    print(plan.report(table))


def _perf(a: argparse.Namespace) -> None:
    from bench import figures, tables
    from bench.perf import figure, kernels, lookahead, lookahead_figure
    from bench.perf.bars import bars

    if a.what == "kernels":
        path = a.out / "kernels.csv"
        table = kernels.profile_again(path) if a.profile else kernels.run(a.peers, path, a.only)
        reached, drawn = bars(table), figure.draw(table)
        print(table[kernels.PRINTED].to_string(index=False, float_format="%.3g", na_rep=""), end="\n\n")
    else:
        table = lookahead.run(a.out / "lookahead.csv", only=a.only)
        reached, drawn = lookahead.bars(table), lookahead_figure.draw(table)
    tables.write(reached, a.out / f"{a.what}-bars.csv")
    figures.save(drawn, a.out / a.what)
    print(reached.to_string(index=False, float_format="%.2f", na_rep=""))


def _doctor(a: argparse.Namespace) -> None:
    from bench.doctor import report

    print(report(configuration.load(a.scale)))


def _docs(a: argparse.Namespace) -> None:
    from bench import docs

    docs.write()


def _json(flag: str, text: str | None) -> dict | None:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise UserError(f"{flag}: not valid JSON ({error})") from None


if __name__ == "__main__":
    sys.exit(main())

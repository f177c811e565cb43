"""The command line: python -m bench {run,data,collect,claims,figure,reproduce,status,plan,archive,restore,...}."""

import argparse
import json
import os
import re
import sys
from pathlib import Path

from bench.core import config as configuration
from bench.core import paths, registry, study
from bench.core.cell import WORD
from bench.core.errors import UserError


def main(words: list[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    try:
        return arguments.do(arguments) or 0
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
    sub.add_argument("study", choices=study.names())
    sub.add_argument("cell", help="as `status --cells` prints it: digits/wrn/width-32/l2/margin/seed-0")
    sub.add_argument("--out", type=Path, help="record to write (.json); default results/<scale>/runs/<study>/<cell>")
    scale(sub)
    sub.add_argument("--settings", help="the cell's settings as JSON, instead of the scale's")
    sub.add_argument("--root", help="folder of the canonical arrays, instead of the scale's")
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    sub.add_argument("--threads", type=int, default=1, help="CPU threads; records are repeatable for a fixed number")
    sub.add_argument("--stage", help="do only this stage of a large cell, one of several jobs that share its work")
    sub.add_argument("--save-every", type=int, default=10, metavar="EPOCHS", help="how often to save for resuming")

    sub = command("data", _data, "Prepare data/<name>.npz by download, or from a canonical file you have.")
    sub.add_argument("name", choices=sorted(registry.components("datasets")))
    sub.add_argument("--root", default="data", help="folder to put it in; default data")
    sub.add_argument("--from", dest="source", metavar="FILE", help="a canonical .npz already on disk")

    sub = command("collect", _collect, "Make the tables of a study, or of all, from records.")
    sub.add_argument("study", nargs="?", choices=study.names(), help="default: all")
    scale(sub)
    sub.add_argument("--settings", help="scale and the study's section as JSON, instead of the scale's file")
    sub.add_argument("--out", type=Path, help="folder of the tables; default results/<scale>/tables")
    sub.add_argument("--partial", action="store_true", help="use the records that exist and say which do not")

    sub = command("claims", _claims, "Put the claims of all studies into claims.csv.")
    scale(sub)
    sub.add_argument("--out", type=Path, help="folder of the tables; default results/<scale>/tables")

    sub = command("figure", _figure, "Draw one figure from tables alone (no torch, no runs).")
    sub.add_argument("name", choices=sorted(study.all_figures()))
    scale(sub)
    sub.add_argument("--tables", type=Path, help="folder of the tables; default results/<scale>/tables")
    sub.add_argument("--out", type=Path, help="path without suffix; default figures/<scale>/<name>")

    sub = command("reproduce", _reproduce, "Run the workflow of a scale and watch it: one line, then the verdicts.")
    scale(sub)
    sub.add_argument("--cores", default="all", help="how many; default all")
    sub.add_argument("--verbose", action="store_true", help="show all that Snakemake says")
    sub.add_argument("targets", nargs="*", help="figures, tables or studies; default everything, with the report")

    sub = command("status", _status, "What is done, running, failed and missing.")
    scale(sub)
    sub.add_argument("--cells", action="store_true", help="list every cell")
    sub = command("plan", _plan, "Jobs of a scale and the hours they would take on this machine, from measured costs.")
    scale(sub)
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    sub.add_argument("--out", type=Path, help="also write the prices as CSV")
    scale(command("archive", _archive, "Pack the finished records of a scale, one small file per study, to commit."))
    scale(command("restore", _restore, "Put archived records back in their places; they count as done."))
    sub = command("perf", _perf, "Speed of the suite's own machinery beside its peers, as ratios in one run.")
    sub.add_argument("what", choices=("kernels", "lookahead", "pntk", "ssl"))
    sub.add_argument("--peers", action="store_true", help="kernels: also neural-tangents, in an environment of its own")
    sub.add_argument("--out", type=Path, default=Path("results/perf"), help="folder; default results/perf")
    sub.add_argument("--only", help="measure only cases whose description contains this, e.g. \"net='fcn'\"")
    scale(command("doctor", _doctor, "What this machine has, what is missing, and what to type."))
    command("docs", _docs, "Rewrite what the documents repeat from code and tables (for maintainers).")
    return parser


def _run(a: argparse.Namespace) -> None:
    for flag, value in (("threads", a.threads), ("save-every", a.save_every)):
        if value < 1:
            raise UserError(f"--{flag}: found {value}; allowed: a whole number, at least 1")
    room = study.load(a.study)
    cell = room.Cell.parse(a.cell)
    for package, specs in room.uses(cell).items():
        for problem in filter(None, (registry.problem(package, spec) for spec in specs)):
            raise UserError(f"{a.cell}: {problem}")
    settings, root = _json("--settings", a.settings), a.root
    if settings is not None:
        scale = _name(a.scale)
    else:
        config = configuration.load(a.scale)
        scale, root = config["scale"], root or config["data"]["root"]
        try:
            settings = room.settings(config, cell)
        except UserError as error:
            raise UserError(f"{a.scale}: {error}") from None
    out = a.out or paths.record_path(scale, a.study, cell)
    if out.suffix != ".json" or out.is_dir():
        raise UserError(f"--out: found {str(out)!r}; allowed: the path of a file that ends in .json")
    from bench.core.run import run, run_stage
    from bench.learn.data import source

    load = source(room.uses(cell).get("datasets", []), settings, root or "data")
    where = {"where": a.device, "threads": a.threads, "save_every": a.save_every}
    if a.stage:
        run_stage(a.study, a.stage, cell, settings, load, out, **where)
    else:
        run(a.study, scale, cell, settings, load, out, **where)


def _data(a: argparse.Namespace) -> None:
    from bench.learn.data import load, prepare

    path = prepare(a.name, a.root, a.source)
    facts = load(a.name, a.root).describe()
    size = f"{facts['train']:,} train and {facts['test']:,} test images" + (", PARTIAL" if facts["partial"] else "")
    print(f"{path}: {size}, sha256 {facts['checksum'][:16]}")


def _collect(a: argparse.Namespace) -> None:
    from bench.tools.collect import collect, merge_claims

    config = _json("--settings", a.settings) or configuration.load(a.scale)
    out = a.out or paths.tables_folder(config["scale"])
    written = collect([a.study] if a.study else config["studies"], config, out, a.partial)
    print(*written, *([] if a.study else [merge_claims(out)]), sep="\n")


def _claims(a: argparse.Namespace) -> None:
    from bench.tools.collect import merge_claims

    print(merge_claims(a.out or paths.tables_folder(_name(a.scale))))


def _figure(a: argparse.Namespace) -> None:
    from bench.tools.draw import draw

    scale = _name(a.scale)
    print(*draw(a.name, a.tables or paths.tables_folder(scale), a.out or paths.figure_stem(scale, a.name)), sep="\n")


def _reproduce(a: argparse.Namespace) -> int:
    from bench.tools.reproduce import reproduce

    return reproduce(configuration.load(a.scale), a.scale, a.targets, a.cores, a.verbose)


def _status(a: argparse.Namespace) -> None:
    from bench.tools.status import report

    print(report(configuration.load(a.scale), a.cells))


def _plan(a: argparse.Namespace) -> None:
    from bench.core import csv
    from bench.tools import plan

    table = plan.prices(configuration.load(a.scale), a.device)
    if a.out:
        csv.write(table, a.out)
    print(plan.report(table))


def _archive(a: argparse.Namespace) -> None:
    from bench.tools.archive import pack

    for path, count in pack(configuration.load(a.scale)):
        print(f"{path}: {count} records, {path.stat().st_size / 1000:.0f} kB")


def _restore(a: argparse.Namespace) -> None:
    from bench.tools.archive import restore

    for path, new, old, other in restore(configuration.load(a.scale)):
        outdated = f", {other} of other settings left out" if other else ""
        print(f"{path}: {new} records restored, {old} were there already{outdated}")


def _perf(a: argparse.Namespace) -> None:
    from bench.tools import perf

    print(*perf.main(a.what, a.peers, a.out, a.only), sep="\n")


def _doctor(a: argparse.Namespace) -> None:
    from bench.tools.doctor import report

    print(report(configuration.load(a.scale)))


def _docs(a: argparse.Namespace) -> None:
    from bench.tools import docs

    print(*docs.write(), sep="\n")


def _name(scale: str) -> str:
    """The name of a scale given by name or by file; a name needs no file, as for committed tables."""
    if scale.endswith((".yaml", ".yml")):
        return configuration.load(scale)["scale"]
    if not re.fullmatch(WORD, scale):
        raise UserError(f"--scale: found {scale!r}; allowed: the name of a scale, or a path that ends in .yaml")
    return scale


def _json(flag: str, text: str | None) -> dict | None:
    try:
        value = None if text is None else json.loads(text)
    except ValueError as error:
        raise UserError(f"{flag}: not valid JSON ({error})") from None
    if value is not None and not isinstance(value, dict):
        raise UserError(f"{flag}: found {text!r}; allowed: keys with values")
    return value


if __name__ == "__main__":
    sys.exit(main())

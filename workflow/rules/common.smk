# Configuration, the grid and code digests, asked of bench; no science, no torch here.
import json
import sys
from fnmatch import fnmatch

sys.path.insert(0, workflow.basedir)

from bench import config as configuration
from bench import digest, grid, registry
from bench.cells import PATTERN
from bench.errors import UserError

try:
    config.update(configuration.choose(config, [str(path) for path in workflow.configfiles]))
except UserError as error:
    sys.exit(f"{error}")

config["deviations"] = grid.deviations(config)  # for captions
SCALE = config["scale"]
ROOT = config["data"]["root"]
CELLS = grid.cells(config["lookahead"]["panels"], config["seeds"])


wildcard_constraints:
    dataset="|".join(sorted(registry.components("datasets"))),
    net="[^/]+",
    width=r"\d+",
    recipe="[^/]+",
    strategy="[^/]+",
    seed=r"\d+",


def cell_settings(wildcards):
    """Everything but the cell's name that decides its record, as JSON: the exact params trigger."""
    return json.dumps(grid.settings(config, wildcards.dataset, wildcards.recipe), sort_keys=True)


def cell_code(wildcards):
    """Digest of the code a cell runs: editing a comment, a figure or another strategy leaves it unchanged."""
    return digest.of_cell("lookahead", wildcards.dataset, wildcards.net, wildcards.strategy)


def figure_files(figures):
    return [f"figures/{SCALE}/{figure.name}.{kind}" for figure in figures for kind in ("png", "pdf")]


def shown_panels(figure):
    """The panels of this scale that a figure shows, for its caption; all, where the figure names none."""
    shown = figure.constants.get("PANELS", config["lookahead"]["panels"])
    return [panel for panel in config["lookahead"]["panels"] if any(fnmatch(panel, name) for name in shown)]

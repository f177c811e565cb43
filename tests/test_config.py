"""The configuration: strict, complete, documented, and mistakes are one line."""

import copy

import pytest
import yaml
from conftest import REPO, TINY

from bench.core import config as configuration
from bench.core import paths, registry, study
from bench.core.cell import Cell as AnyCell
from bench.core.errors import UserError
from bench.learn.train import Recipe
from bench.studies import lookahead
from bench.studies.lookahead import Cell

PANEL = TINY["lookahead"]["panels"]["thesis-2.2a"]


def leaves(node=None, path=()):
    """(path, schema node) of every key of the configuration."""
    node = configuration.resolve(node or configuration.schema())
    for name, child in node.get("properties", {}).items():
        yield (*path, name), configuration.resolve(child)
        yield from leaves(child, (*path, name))
    others = node.get("additionalProperties")
    if isinstance(others, dict):
        yield from leaves(others, (*path, "<name>"))


@pytest.mark.parametrize("path", sorted((REPO / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_scales_are_valid(path):
    assert configuration.load(path.stem)["scale"] == path.stem


def test_every_key_has_a_description_and_a_default():
    for path, node in leaves():
        assert node.get("description"), path
        required = path in (("scale",), ("studies",)) or path[1:3] == ("panels", "<name>")  # or follows from other keys
        assert required or "default" in node, path


def test_recipe_and_schema_have_the_same_keys():
    assert set(Recipe.__dataclass_fields__) == set(configuration.schema()["$defs"]["recipe"]["properties"])


def test_defaults_are_the_papers_values():
    paper = configuration.load("paper")
    assert len(paper["lookahead"]["seeds"]) == 6
    assert paper["lookahead"]["protocol"]["mnist"] | {"cycles": 0} == {
        "initial": 100, "query": 20, "subset": 4000, "cycles": 0, "start": "warm", "view": "clean",
    }  # fmt: skip
    for dataset, initial in (("svhn", 1000), ("cifar10", 1000), ("cifar100", 10_000)):
        protocol = paper["lookahead"]["protocol"][dataset]
        assert (protocol["initial"], protocol["query"], protocol["subset"]) == (initial, 1000, 6000)
    assert paper["lookahead"]["recipes"]["l2-cifar100"]["lr"] == 1.0
    assert paper["lookahead"]["recipes"]["l2-cifar100"]["epochs"] == 200
    assert study.texts(lookahead.departures(paper)) == {"thesis-2.1b": lookahead.STAND_IN}


def test_a_partial_recipe_keeps_its_named_defaults():
    given = {"scale": "x", "lookahead": {"recipes": {"l2-cifar100": {"epochs": 3}, "mine": {}}}}
    recipes = configuration.check(given, "x")["lookahead"]["recipes"]
    paper = configuration.load("paper")["lookahead"]["recipes"]
    assert recipes["l2-cifar100"] | {"epochs": 200} == paper["l2-cifar100"]
    assert recipes["mine"] == recipes["l2"] | {"fallback_lr": None}


def test_given_panels_replace_the_papers():
    assert set(configuration.check(TINY, "x")["lookahead"]["panels"]) == {"thesis-2.2a"}


def broken(*path, value):
    config = copy.deepcopy(TINY)
    node = config
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return config


P = ("lookahead", "panels", "thesis-2.2a")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (broken("lookahead", "sedes", value=[1]), ["lookahead: unknown key 'sedes'", "did you mean 'seeds'?"]),
        (broken("lokahead", value={}), ["unknown key 'lokahead'", "did you mean 'lookahead'?"]),
        (broken("lookahead", "seeds", value=[]), ["seeds", "found []", "at least 1"]),
        (broken("lookahead", "seeds", value=[1, 1]), ["seeds", "no entry twice"]),
        (broken("lookahead", "seeds", value="0"), ["seeds", "found '0'", "a list"]),
        (broken(*P, "width", value=-3), ["thesis-2.2a.width", "found -3", ">= 1"]),
        (broken(*P, "width", value=2.5), ["thesis-2.2a.width", "found 2.5", "whole number"]),
        (broken(*P, "dataset", value="digit"), ["thesis-2.2a.dataset", "'digit'", "did you mean 'digits'?"]),
        (broken(*P, "net", value="wnr"), ["thesis-2.2a.net", "'wnr'", "did you mean 'wrn'?"]),
        (broken(*P, "strategies", value=["marign"]), ["strategies", "did you mean 'margin'?"]),
        (broken(*P, "strategies", value=["entropy+map=minmax"]), ["write 'entropy'"]),
        (broken(*P, "recipe", value="l1"), ["thesis-2.2a.recipe", "did you mean 'l2'?"]),
        (broken(*P, "recipe", value="l2+rl=0.3"), ["thesis-2.2a.recipe", "'rl'", "did you mean 'lr'?"]),
        (broken(*P, "recipe", value="l2+lr=fast"), ["thesis-2.2a.recipe", "lr", "found 'fast'", "a number"]),
        (broken(*P, "recipe", value="l2+lr=-1"), ["thesis-2.2a.recipe", "lr", "found -1", "> 0"]),
        (broken(*P, "recipe", value="l2+lr"), ["thesis-2.2a.recipe", "lr", "found ''", "a number"]),
        (broken(*P, "recipe", value="l2+lr=0.30"), ["write 'l2+lr=0.3'"]),
        *(
            (broken(*P, "recipe", value=f"l2+epochs={text}"), ["thesis-2.2a.recipe", "epochs"])
            for text in (
                "0x10",
                "1_0",
                " 5",
                "5 ",
                "5 #x",
                "05",
                "+5",
                "5.0",
                "５",
                "1e1",
                "[5]",
                "",
                "5\n",
                "#$(touch x)\r1",
            )
        ),
        (broken(*P, "recipe", value="l2+lr=1.0"), ["write 'l2+lr=1'"]),
        (broken(*P, "recipe", value="l2+lr=3e-1"), ["write 'l2+lr=0.3'"]),
        (broken(*P, "recipe", value="l2+lr=1000000.0"), ["write 'l2+lr=1e6'"]),
        (broken("data", value={"root": "a{b}"}), ["data.root", "no braces"]),
        (broken(*P, "recipe", value="l2+cycle_momentum=False"), ["cycle_momentum", "found 'False'"]),
        (broken(*P, "net", value="fcn+depth=03"), ["write 'fcn'"]),
        (broken(*P, "net", value="fcn+depth=４"), ["whole number"]),
        (broken(*P, "recipe", value="l2+lr=0.5"), ["write 'l2'"]),
        (broken(*P, "recipe", value="l2+subset=9+lr=0.3"), ["write 'l2+lr=0.3+subset=9'"]),
        (broken(*P, "recipe", value="l2+subset=3"), ["protocol.digits", "larger than subset (3)"]),
        (broken(*P, "recipe", value="l2+view=dark"), ["view", "unknown value 'dark'", "augmented"]),
        (broken("lookahead", "recipes", "l2", "loss", value="mae"), ["lookahead.recipes.l2.loss", "'mae'", "mse"]),
        (broken("lookahead", "recipes", "l2", "lr", value=0), ["lookahead.recipes.l2.lr", "> 0"]),
        (broken("lookahead", "recipes", "l2", "epoch", value=3), ["lookahead.recipes.l2", "did you mean 'epochs'?"]),
        (broken("lookahead", "protocol", "digits", "initial", value=1299), ["protocol.digits", "1300 training images"]),
        (broken("lookahead", "protocol", "digits", "query", value=41), ["protocol.digits", "larger than subset"]),
        (broken("lookahead", "protocol", "digit", value={}), ["lookahead.protocol", "did you mean 'digits'?"]),
        (
            broken("lookahead", "images", value={"average_pool": {"mnits": 2}}),
            ["average_pool", "did you mean 'mnist'?"],
        ),
        (broken(*P, "width", value=8.0), ["thesis-2.2a.width", "found 8.0", "whole number"]),
        (broken("lookahead", "seeds", value=[0.0]), ["lookahead.seeds.0", "whole number"]),
        (
            broken("lookahead", "recipes", "l2", "lr", value=float("nan")),
            ["lookahead.recipes.l2.lr", "found nan", "a number"],
        ),
        (broken("lookahead", "recipes", "a/b", value={}), ["recipes", "a/b"]),
        (broken("lookahead", "recipes", 3, value={}), ["recipes", "3"]),
        (broken("lookahead", "images", value={"average_pool": {"digits": 9}}), ["average_pool.digits", "found 9", "8"]),
        ({"lookahead": {}}, ["'scale' is missing"]),
        ([], ["found []", "keys with values"]),
        (None, ["found None", "keys with values"]),
    ],
)
def test_a_mistake_is_one_line_that_says_everything(config, words):
    with pytest.raises(UserError) as error:
        configuration.check(config, "my.yaml")
    message = str(error.value)
    assert message.startswith("my.yaml: ")
    assert "\n" not in message
    for word in words:
        assert word in message


def test_yaml_errors_name_the_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("scale: x\nseeds: [1,\nrecipes: {}\n")
    with pytest.raises(UserError, match=r"bad\.yaml, line \d+, column \d+: not valid YAML"):
        configuration.load(str(path))


def test_a_file_of_config_is_named_after_its_scale(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/mine.yaml").write_text("scale: cpu\n")
    monkeypatch.setattr(configuration, "ROOT", tmp_path)
    with pytest.raises(UserError, match="named after its scale"):
        configuration.load("mine")


def test_no_text_and_home_folders(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"scale: \xff\n")
    with pytest.raises(UserError, match="not a text file"):
        configuration.load(str(tmp_path / "x.yaml"))
    assert configuration.check({"scale": "x", "data": {"root": "~/d/"}}, "x")["data"]["root"].endswith("/d")
    assert "~" not in configuration.check({"scale": "x", "data": {"root": "~/d/"}}, "x")["data"]["root"]


def test_unknown_scale_names_the_nearest():
    with pytest.raises(UserError, match="did you mean 'quick'"):
        configuration.load("quik")


def test_choose_takes_a_name_or_a_whole_file(tmp_path):
    assert configuration.choose({}, []) == configuration.load("quick")
    assert configuration.choose({"scale": "paper"}, []) == configuration.load("paper")
    assert configuration.choose(TINY, ["tiny.yaml"]) == configuration.check(TINY, "x")
    assert configuration.choose({"scale": "alone"}, ["alone.yaml"])["scale"] == "alone"


def test_another_file_cannot_take_a_shipped_scale_s_name():
    with pytest.raises(UserError, match="give yours another"):
        configuration.choose(TINY | {"scale": "cpu"}, ["my.yaml"])
    assert configuration.choose({"scale": "paper"}, ["config/paper.yaml"]) == configuration.load("paper")


def test_deviations_name_what_differs_and_only_that(tiny):
    text = study.texts(lookahead.departures(tiny))["thesis-2.2a"]
    assert "width 8 (paper 640)" in text
    assert "dataset digits (paper svhn)" in text
    assert "seeds 2 (paper 6)" in text
    assert "momentum" not in text


def texts(tiny: dict, **panels: dict) -> dict[str, str]:
    return study.texts(lookahead.departures(tiny | {"lookahead": tiny["lookahead"] | {"panels": panels}}))


def test_deviations_name_the_strategies_that_are_not_there(tiny):
    found = texts(
        tiny,
        **{
            "thesis-2.2a": PANEL,
            "thesis-2.1a": PANEL | {"strategies": ["naive+timed=sample", "ntk"]},
            "thesis-2.1b": PANEL | {"strategies": ["random", "ntk", "one-step", "infinite+kernel=convnet"]},
        },
    )
    assert found["thesis-2.2a"].endswith(", without badge, without ll4al, without ntk")
    assert found["thesis-2.1a"].endswith(", naive only timed, without ntk+solve=resolve")
    assert found["thesis-2.1b"].endswith(", without infinite, without gp, without gp-random")
    assert lookahead.STAND_IN not in found["thesis-2.1b"]
    assert lookahead.STAND_IN in texts(tiny, mine=PANEL | {"strategies": ["gp"]})["mine"]


@pytest.mark.parametrize("path", sorted((REPO / "config").glob("*.yaml")), ids=lambda path: path.stem)
def test_panels_about_rates_name_their_rate(path):
    """Only so do their tables leave out runs that diverged; the rate that was chosen is the recipe's own."""
    given = configuration.load(path.stem)
    for name, panel in given["lookahead"]["panels"].items():
        _, swept, rate = name.partition("-lr-")
        if swept:
            assert lookahead.of_setting(given, panel["dataset"], panel["recipe"])["recipe"]["lr"] == float(rate), name
            assert name.startswith("setting-") or f"+lr={rate}" in panel["recipe"], name


def test_true_steps_have_few_candidates():
    """They predict all candidates for every candidate."""
    paper = configuration.load("paper")
    panels = [p for p in paper["lookahead"]["panels"].values() if "one-step+step=true" in p["strategies"]]
    assert panels
    for panel in panels:
        assert lookahead.of_setting(paper, panel["dataset"], panel["recipe"])["protocol"]["subset"] <= 400


def test_a_recipe_may_be_named_with_what_departs_from_it(tiny):
    plain = lookahead.of_setting(tiny, "digits", "l2")
    changed = lookahead.of_setting(tiny, "digits", "l2+lr=0.3+subset=9+view=augmented+statistics=released")
    assert changed["recipe"] == plain["recipe"] | {"lr": 0.3}
    assert changed["protocol"] == plain["protocol"] | {"subset": 9, "view": "augmented"}
    assert changed["statistics"] == "released"
    assert lookahead.of_setting(tiny, "digits", "l2") == plain  # what is given out is nobody else's


def test_panels_of_a_sweep_that_the_papers_do_not_have_are_compared_with_one_they_have(tiny):
    names = ["thesis-2.3-width-8", "thesis-A.3c-lr-0.5", "thesis-9", "mine", "choices-mine", "my-width-8"]
    found = texts(tiny, **dict.fromkeys(names, PANEL), **{"thesis-2.3-width-small": PANEL | {"width": 40}})
    assert "subset 40 (paper 4000)" in found["thesis-2.3-width-8"]
    assert "width 8 (paper 40/80/160/320/640)" in found["thesis-2.3-width-8"]
    assert "width" not in found["thesis-2.3-width-small"]
    assert "lr 0.5 (paper 0.1/0.3)" in found["thesis-A.3c-lr-0.5"]
    for own in names[2:]:
        assert found[own] == "a panel of this suite's own"


def test_cells_shared_by_panels_run_once(tiny):
    once = lookahead.cells(tiny)
    assert len(once) == 3 * 2
    shared = tiny["lookahead"] | {"panels": tiny["lookahead"]["panels"] | {"thesis-A.1a": PANEL}}
    assert lookahead.cells(tiny | {"lookahead": shared}) == once


def test_paths_keep_their_tail(tiny):
    cell = lookahead.cells(tiny)[0]
    record = paths.record_path("tiny", "lookahead", cell)
    assert str(record) == "results/tiny/runs/lookahead/digits/wrn/width-8/l2/entropy/seed-0.json"
    assert str(paths.log_path(record)) == "results/tiny/logs/lookahead/digits/wrn/width-8/l2/entropy/seed-0.log"
    assert str(paths.resume_path(record)) == "results/tiny/resume/lookahead/digits/wrn/width-8/l2/entropy/seed-0.pt"


def test_paper_grid_covers_the_thesis():
    paper = configuration.load("paper")["lookahead"]["panels"]
    settings = {(p["dataset"], p["net"], p["width"]) for p in paper.values()}
    thesis = {
        ("svhn", "wrn", 640),
        ("cifar10", "wrn+layers=2", 640),
        ("cifar100", "resnet18", 4),
        ("mnist", "wrn", 640),
    }
    thesis |= {("svhn", "wrn+layers=2", 640), ("svhn", "resnet18", 4), ("cifar10", "resnet18", 4)}
    assert settings >= thesis
    assert {name for name in paper if name.startswith(("thesis-2.2", "thesis-A.1"))} == {
        f"thesis-{name}" for name in ("2.2a", "2.2b", "2.2c", "A.1a", "A.1b", "A.1c", "A.1d")
    }


def test_scale_paper_states_nothing_but_its_name():
    assert yaml.safe_load((REPO / "config/paper.yaml").read_text()) == {"scale": "paper"}


def test_component_names_and_schema_agree():
    protocol = configuration.schema()["properties"]["lookahead"]["properties"]["protocol"]["properties"]
    assert set(protocol) == set(registry.components("datasets"))


def test_a_cell_is_its_path(tiny):
    for cell in lookahead.cells(tiny):
        assert Cell.parse(str(cell)) == cell
    assert sorted(reversed(lookahead.cells(tiny))) == lookahead.cells(tiny)


@pytest.mark.parametrize(
    "text",
    [
        *("", "digits", "digits/wrn/width-8/l2/entropy/seed-x", "digits/wrn/width-8/l2/entropy/seed-00"),
        *("digits/wrn/width-8/l2/entropy/seed-0/", "/digits/wrn/width-8/l2/entropy/seed-0"),
        *("digits/../width-8/l2/entropy/seed-0", "digits/$(id)/width-8/l2/entropy/seed-0"),
        *("digits/wrn/width-8/l2 #/entropy/seed-0", "digits/wrn/width-٣/l2/entropy/seed-0"),
        *("digits/wrn/width-8/l2/-rf/seed-0", "digits/wrn/width-8/{wildcards}/entropy/seed-0"),
    ],
)
def test_no_other_text_is_a_cell(text):
    with pytest.raises(UserError, match="allowed"):
        Cell.parse(text)


def test_a_cell_keeps_what_is_no_word_out_of_paths():
    assert issubclass(Cell, AnyCell)
    with pytest.raises(UserError, match="recipe: found"):
        Cell("digits", "wrn", 8, "l2+epochs=#$(touch pwned)\r1", "random", 0)


def test_a_value_in_a_spec_has_one_way_to_be_written():
    for value, text in (
        (0.1, "0.1"),
        (1e-05, "1e-5"),
        (1e6, "1e6"),
        (2.5e30, "2.5e30"),
        (0.123456789, "0.123456789"),
        (3, "3"),
        (True, "true"),
        (None, "null"),
    ):
        assert configuration._text(value) == text
        assert configuration._value({}, text) == value

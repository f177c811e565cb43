"""Components are found by file, named by specs, and never imported to be listed."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.core import registry
from bench.core.errors import UserError

PACKAGES = ("datasets", "nets", "strategies", "studies/lookahead/figures")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_component_has_a_name_and_a_summary(package):
    found = registry.components(package)
    assert found
    for name, component in found.items():
        assert name == component.name
        assert component.summary
        assert "+" not in name
        assert "/" not in name


def test_listing_imports_no_torch():
    code = """
import sys
from bench.core import config, digest, paths, registry, study
config.load("paper")
for name in study.names():
    study.load(name), study.figures(name)
sys.exit(bool({"torch", "pandas", "snakemake"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def specs(package):
    """Every component of a package with any choice of its options."""

    def one(component):
        offered = component.constants.get("OPTIONS", {})
        values = {k: st.integers(1, 99) if isinstance(v, int) else st.sampled_from(v) for k, v in offered.items()}
        chosen = st.fixed_dictionaries({}, optional=values)
        return chosen.map(lambda given: "+".join([component.name, *(f"{k}={v}" for k, v in given.items())]))

    return st.sampled_from(list(registry.components(package).values())).flatmap(one)


@given(st.sampled_from(PACKAGES[:3]).flatmap(lambda package: st.tuples(st.just(package), specs(package))))
def test_canonical_names_the_same_component_once(pair):
    package, spec = pair
    short = registry.canonical(package, spec)
    assert registry.parse(package, short) == registry.parse(package, spec)
    assert registry.canonical(package, short) == short
    assert len(short) <= len(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("entropi", "did you mean 'entropy'?"),
        ("entropy+mop=softmax", "unknown option of entropy 'mop'; did you mean 'map'?"),
        ("entropy+map=softmin", "did you mean 'softmax'?"),
        ("random+map=softmax", "allowed: none"),
    ],
)
def test_wrong_specs_say_what_is_allowed(spec, message):
    with pytest.raises(UserError, match="unknown") as error:
        registry.parse("strategies", spec)
    assert message in str(error.value)


def test_a_component_that_is_not_python_is_named(tmp_path, monkeypatch):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/x.py").write_text("a = (\n")
    monkeypatch.setattr(registry, "ROOT", tmp_path)
    with pytest.raises(UserError, match=r"bench/broken/x\.py, line 1"):
        registry.components("broken")


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_numbers_must_be_whole_and_positive(text):
    with pytest.raises(UserError, match="whole number >= 1"):
        registry.parse("nets", f"fcn+depth={text}")

"""Do the published neural-tangent-kernel results hold? The benchmark suite behind the Snakefile."""

__version__ = "0.1.0"

"""neural-tangents on a net written by bench/perf/program.py, in an environment of its own; a program for `turns`.

    python -m bench.tools.perf.neural_tangents_peer FOLDER {full,pseudo} IMPLEMENTATION

IMPLEMENTATION: 1 Jacobian contraction, 2 NTK-vector products, 3 structured derivatives. Compilation is timed apart.
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from jax import lax

from bench.tools.perf import turns


def forward(program, constants):
    """f(parameters, x) for a program; running statistics are constants, as in evaluation mode."""

    def apply(parameters, x):
        values = {}
        for line in program:
            result, how, name, *operands = line.split()
            kind, *details = how.split(":")
            inputs = [values[operand] for operand in operands if operand in values]
            weights = {
                key.removeprefix(f"{name}."): parameters[key] for key in parameters if key.startswith(f"{name}.")
            }
            if kind == "input":
                values[result] = x
            elif kind == "conv":
                stride, padding = map(int, details)
                out = lax.conv_general_dilated(inputs[0], weights["weight"], (stride, stride), [(padding, padding)] * 2)
                values[result] = out + weights["bias"][:, None, None] if "bias" in weights else out
            elif kind == "linear":
                values[result] = inputs[0] @ weights["weight"] + weights["bias"]
            elif kind == "batchnorm":
                mean, variance = constants[f"{name}.running_mean"], constants[f"{name}.running_var"]
                normal = (inputs[0] - mean[:, None, None]) / jnp.sqrt(variance + float(details[0]))[:, None, None]
                values[result] = normal * weights["weight"][:, None, None] + weights["bias"][:, None, None]
            elif kind == "leaky":
                values[result] = jnp.where(inputs[0] > 0, inputs[0], float(details[0]) * inputs[0])
            elif kind == "add":
                values[result] = inputs[0] + inputs[1]
            elif kind == "mean":
                values[result] = inputs[0].mean((2, 3))
            elif kind == "flatten":
                values[result] = inputs[0].reshape(len(inputs[0]), -1)
            elif kind in ("identity", "output"):
                values[result] = inputs[0]
        return values["output"]

    return apply


def main(folder, output, implementation):
    stored = np.load(Path(folder) / "net.npz")
    weights = {key.removeprefix("weight "): jnp.array(stored[key]) for key in stored.files if key.startswith("weight ")}
    constants = {key: value for key, value in weights.items() if "running" in key or "num_batches" in key}
    parameters = {key: value for key, value in weights.items() if key not in constants}
    program = [str(line) for line in stored["program"]]
    # Structured derivatives see through x @ w but not through x @ w.T; Theta does not mind how w is stored.
    for line in program:
        if line.split()[1] == "linear":
            name = f"{line.split()[2]}.weight"
            parameters[name] = parameters[name].T.copy()
    apply, x = forward(program, constants), jnp.array(stored["x"])
    if output == "pseudo":
        logits = apply

        def apply(parameters, x):
            values = logits(parameters, x)
            return values.sum(1, keepdims=True) / jnp.sqrt(values.shape[1])

    kernel = nt.empirical_ntk_fn(
        apply, trace_axes=(), vmap_axes=0, implementation=nt.NtkImplementation(int(implementation))
    )

    def kernel_and_trace(x, parameters):
        theta = kernel(x, None, parameters)  # (N, N, O, O)
        return theta, jnp.einsum("nnoo", theta)

    start = time.perf_counter()
    compiled = jax.jit(kernel_and_trace).lower(x, parameters).compile()
    compilation = time.perf_counter() - start
    last = []  # the kernel found last

    def work():
        last.clear()
        theta, trace = jax.block_until_ready(compiled(x, parameters))
        last.append(theta)
        return float(trace)

    def find():
        found = turns.timed(work)
        norm = float(np.linalg.norm(np.asarray(last[0], np.float64)))  # in float32, sums over so many entries are off
        return found | {"norm": norm, "compilation": compilation}

    turns.serve(time=find)


main(*sys.argv[1:])

"""neural-tangents on a net written by bench/perf/program.py. Runs in an environment of its own, without the suite.

    python neural_tangents_peer.py FOLDER {full,pseudo} IMPLEMENTATION REPEATS [OUT.npy]

IMPLEMENTATION: 1 Jacobian contraction, 2 NTK-vector products, 3 structured derivatives. Prints one JSON line: seconds
of the fastest repetition (the first, with compilation, apart) and peak memory.
"""

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import neural_tangents as nt
import numpy as np
from jax import lax

SPAN = 5.0  # seconds: short work is repeated for at least so long, as the engine's own is
BUDGET = 45.0  # seconds, after which a slow case is not repeated


def enough(seconds, repeats):
    """Whether to stop, given the times so far; the first includes compilation."""
    first, rest = seconds[:1], seconds[1:]
    slow = sum(first) > BUDGET or sum(rest) > BUDGET
    return slow or (len(rest) >= repeats and sum(rest) >= SPAN)


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


def main(folder, output, implementation, repeats, out=None):
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
    kernel = jax.jit(kernel, static_argnums=1)
    seconds = []
    while not enough(seconds, int(repeats)):
        start = time.perf_counter()
        result = kernel(x, None, parameters).block_until_ready()  # (N, N, O, O)
        seconds.append(time.perf_counter() - start)
    if out:
        np.save(out, np.asarray(result).transpose(0, 2, 1, 3).reshape(result.shape[0] * result.shape[2], -1))
    status = Path("/proc/self/status").read_text().split()
    peak = int(status[status.index("VmHWM:") + 1]) / 2**20  # kB -> GiB; ru_maxrss would count the parent's memory
    counted = seconds[1:] or seconds
    found = {"first": seconds[0], "seconds": min(counted), "repeats": len(counted), "peak_gib": peak}
    if len(seconds) == 1:
        found["note"] = "compilation included"
    print(json.dumps(found))


main(*sys.argv[1:])

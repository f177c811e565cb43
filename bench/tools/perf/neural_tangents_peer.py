"""neural-tangents on a net written by `exported`, in an environment of its own; a program for `turns`.

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


def conv(w, name, a, stride, padding):
    out = lax.conv_general_dilated(a, w[f"{name}.weight"], (stride, stride), [(padding, padding)] * 2)
    return out + w[f"{name}.bias"][:, None, None] if f"{name}.bias" in w else out


def linear(w, name, a):
    return a @ w[f"{name}.weight"] + w[f"{name}.bias"]


def batchnorm(w, name, a, eps):
    """In evaluation mode: running statistics are constants."""
    weight, bias, mean, variance = (w[f"{name}.{key}"] for key in ("weight", "bias", "running_mean", "running_var"))
    normal = (a - mean[:, None, None]) / jnp.sqrt(variance + eps)[:, None, None]
    return normal * weight[:, None, None] + bias[:, None, None]


def leaky(a, slope):
    return jnp.where(a > 0, a, slope * a)


def forward(program, constants, output):
    """f(parameters, x) for a program: its outputs, or their sum over sqrt(O)."""
    code, functions = compile(program, "net", "exec"), [conv, linear, batchnorm, leaky]

    def apply(parameters, x):
        names = {"x": x, "w": constants | parameters} | {function.__name__: function for function in functions}
        exec(code, names)
        values = names["output"]
        return values if output == "full" else values.sum(1, keepdims=True) / jnp.sqrt(values.shape[1])

    return apply


def main(folder, output, implementation):
    stored = np.load(Path(folder) / "net.npz")
    weights = {key.removeprefix("weight "): jnp.array(stored[key]) for key in stored.files if key.startswith("weight ")}
    constants = {key: value for key, value in weights.items() if "running" in key or "num_batches" in key}
    parameters = {key: value for key, value in weights.items() if key not in constants}
    # Structured derivatives see through x @ w but not through x @ w.T; Theta does not mind how w is stored.
    parameters |= {key: value.T.copy() for key, value in parameters.items() if value.ndim == 2}
    apply, x = forward(str(stored["program"]), constants, output), jnp.array(stored["x"])
    how = nt.NtkImplementation(int(implementation))
    kernel = nt.empirical_ntk_fn(apply, trace_axes=(), vmap_axes=0, implementation=how)

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

    turns.serve(find)


main(*sys.argv[1:])

"""jax_steps.py PLATFORM SEED: JAX on the platform (gpu or cpu): jit, gradient steps, and a sum over all devices.

Prints a sha256 over the bytes of each result, and how many devices there are. Exit status 1: JAX has another platform.
"""

import hashlib
import os
import sys

# Read when JAX starts: no memory ahead of time, and the same kernels in every process.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
).strip()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402

STEPS = 8
SIZES = (64, 512, 512, 10)


def show(name, *arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(numpy.ascontiguousarray(numpy.asarray(array)).tobytes())
    print(name, digest.hexdigest(), flush=True)


def new_weights(generator):
    return [
        (generator.standard_normal((a, b)).astype("float32") / a**0.5, numpy.zeros(b, "float32"))
        for a, b in zip(SIZES, SIZES[1:])
    ]


def loss_of(weights, x, y):
    for weight, bias in weights[:-1]:
        x = jax.nn.gelu(x @ weight + bias)
    weight, bias = weights[-1]
    return jnp.mean((x @ weight + bias - y) ** 2)


@jax.jit
def elementwise(x):
    return jnp.sin(x) * x + jnp.cumsum(x, axis=-1), jnp.argsort(x, axis=-1)


def train(generator):
    """Every batch is ordinary memory that is filled anew once the step has it; the weights are donated."""

    def step(weights, x, y):
        value, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        return value, jax.tree_util.tree_map(lambda w, g: w - 0.05 * g, weights, gradients)

    compiled = jax.jit(step, donate_argnums=0)
    weights = jax.device_put(new_weights(generator))
    losses = []
    for _ in range(STEPS):
        x = generator.standard_normal((256, SIZES[0])).astype("float32")
        y = generator.standard_normal((256, SIZES[-1])).astype("float32")
        value, weights = compiled(weights, x, y)
        losses.append(numpy.asarray(value))
    show("grad_steps", *losses, *jax.tree_util.tree_leaves(weights))


def over_devices(generator):
    devices = jax.local_devices()[:2]
    shards = generator.standard_normal((len(devices), 1 << 18)).astype("float32")

    def total(x):
        return jax.lax.psum(x, "devices"), jax.lax.all_gather(x[:1000], "devices")

    summed, gathered = jax.pmap(total, axis_name="devices", devices=devices)(shards)
    print("devices", len(devices))
    show("psum", summed, gathered)


def main():
    platform = sys.argv[1]
    if jax.default_backend() != platform:
        sys.exit(f"JAX has the platform {jax.default_backend()}, not {platform}")
    generator = numpy.random.default_rng(int(sys.argv[2]))
    show("jit", *elementwise(generator.standard_normal((512, 1024)).astype("float32")))
    train(generator)
    over_devices(generator)


if __name__ == "__main__":
    main()

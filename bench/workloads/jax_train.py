"""A transformer of JAX, trained with Adam written out; the length changes, and each one is compiled for."""

import os
import random

import common


def initial(jax, jnp, vocabulary, width, layers):
    keys = iter(jax.random.split(jax.random.PRNGKey(common.SEED), 4 * layers + 2))

    def matrix(inputs, outputs):
        return jax.random.normal(next(keys), (inputs, outputs), jnp.float32) * inputs**-0.5

    blocks = [{"in": matrix(width, 3 * width), "out": matrix(width, width), "up": matrix(width, 4 * width),
               "down": matrix(4 * width, width)} for _ in range(layers)]
    return {"tokens": matrix(vocabulary, width), "head": matrix(width, vocabulary), "blocks": blocks}


def loss_of(jax, jnp, heads):
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def attend(x, block):
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, heads, width // heads) for part in jnp.split(x @ block["in"], 3, axis=-1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (width // heads)**-0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ block["out"]

    def loss(parameters, tokens):
        x = parameters["tokens"][tokens[:, :-1]]
        for block in parameters["blocks"]:
            x = x + attend(norm(x), block)
            x = x + jax.nn.gelu(norm(x) @ block["up"]) @ block["down"]
        likelihood = jax.nn.log_softmax(norm(x) @ parameters["head"])
        return -jnp.take_along_axis(likelihood, tokens[:, 1:, None], axis=-1).mean()

    return loss


def main():
    steps = common.Steps(common.arguments(steps=100))
    # Trying kernels out would be most of the time, and of the trace.
    os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")
    import jax
    import jax.numpy as jnp
    vocabulary, width, layers, heads, batch = 16000, 768, 4, 12, 8
    shapes = random.Random(common.SEED)
    loss = loss_of(jax, jnp, heads)

    @jax.jit
    def train(parameters, first, second, tokens, count):
        value, gradients = jax.value_and_grad(loss)(parameters, tokens)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, gradients)

        def change(p, m, v):
            return p - 1e-4 * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.99**count)) + 1e-8)

        return value, jax.tree.map(change, parameters, first, second), first, second

    parameters = jax.jit(lambda: initial(jax, jnp, vocabulary, width, layers))()
    first, second = (jax.tree.map(jnp.zeros_like, parameters) for _ in range(2))
    for step in steps:
        if step % 20 == 0:
            length = shapes.choice((129, 257, 385, 513))
        tokens = jax.random.randint(jax.random.PRNGKey(step), (batch, length), 0, vocabulary)
        value, parameters, first, second = train(parameters, first, second, tokens, float(step + 1))
        value.block_until_ready()
    steps.report("jax_train", value)


if __name__ == "__main__":
    main()

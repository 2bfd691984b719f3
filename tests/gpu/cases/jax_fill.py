"""JAX: fills what its allocator has, is refused, lets go, multiplies."""
import fill

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    fill.skip(str(error))


def work():
    a = jnp.ones((512, 512))
    return float((a @ a)[0, 0]) == 512.0


def main():
    works = jax.devices()[0].platform == "gpu" and work()

    def take(mib):
        return jnp.ones((mib << 20,), dtype=jnp.uint8).block_until_ready()

    held, refused, text = fill.fill(take, Exception)
    refused = refused and "RESOURCE_EXHAUSTED" in text
    del held
    fill.report(refused=refused, works_after=works and work())


main()

"""Numba: fills the card, is refused, lets go, runs a kernel."""
import fill

try:
    import numpy as np
    if not hasattr(np, "row_stack"):  # Numba still asks for what NumPy 2.5 no longer has
        np.row_stack = np.vstack
    from numba import cuda

    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2

    double.compile("void(float32[:])")
except (ImportError, AttributeError) as error:  # absent, or too old for the NumPy beside it
    fill.skip(str(error))


def work():
    a = cuda.to_device(np.ones(4096, dtype=np.float32))
    double[16, 256](a)
    return bool((a.copy_to_host() == 2).all())


def main():
    total = cuda.current_context().get_memory_info().total
    works = work()
    held, refused, _ = fill.fill(lambda mib: cuda.device_array(mib << 20, dtype=np.uint8), Exception)
    del held
    cuda.current_context().deallocations.clear()
    fill.report(total=int(total), refused=refused, works_after=works and work())


main()

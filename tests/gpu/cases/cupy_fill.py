"""CuPy: fills the card, is refused, lets go, multiplies."""
import fill

try:
    import cupy
except ImportError as error:
    fill.skip(str(error))


def work():
    a = cupy.ones((512, 512), dtype=cupy.float32)
    return float((a + a).sum()) == 512 * 512 * 2


def main():
    total = cupy.cuda.runtime.memGetInfo()[1]
    works = work()
    held, refused, _ = fill.fill(lambda mib: cupy.ones(mib << 20, dtype=cupy.uint8),
                                 cupy.cuda.memory.OutOfMemoryError)
    del held
    cupy.get_default_memory_pool().free_all_blocks()
    fill.report(total=total, refused=refused, works_after=works and work())


main()

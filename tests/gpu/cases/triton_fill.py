"""A Triton kernel before and after a refusal."""
import fill

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as error:
    fill.skip(str(error))


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


def work():
    n = 1 << 16
    x, y = torch.ones(n, device="cuda"), torch.ones(n, device="cuda")
    out = torch.empty_like(x)
    add[(n // 1024,)](x, y, out, n, BLOCK=1024)
    return bool((out == 2).all())


def main():
    works = work()
    held, refused, _ = fill.fill(
        lambda mib: torch.ones(mib << 20, dtype=torch.uint8, device="cuda"), torch.OutOfMemoryError)
    del held
    torch.cuda.empty_cache()
    fill.report(refused=refused, works_after=works and work())


main()

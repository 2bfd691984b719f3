"""PyTorch: fills the card, is refused, lets go, multiplies."""
import fill

try:
    import torch
except ImportError as error:
    fill.skip(str(error))


def work():
    a = torch.randn(512, 512, device="cuda")
    return bool(torch.isfinite((a @ a).sum()).item())


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    assert torch.cuda.mem_get_info()[1] == total
    works = work()
    for size in (64, 3, 700):
        held, refused, _ = fill.fill(
            lambda mib: torch.ones(mib << 20, dtype=torch.uint8, device="cuda"),
            torch.OutOfMemoryError, size)
        same = all(int(t[-1]) == 1 for t in held)
        del held
        torch.cuda.empty_cache()
        works = works and same and work()
        fill.report(total=total, refused=refused, works_after=works)


main()

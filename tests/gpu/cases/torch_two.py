"""Two processes of PyTorch in one job: they share one limit."""
import fill

try:
    import torch
    import torch.multiprocessing as mp
except ImportError as error:
    fill.skip(str(error))


def worker(ready, go):
    torch.ones(1, device="cuda")
    ready.put(None)
    go.wait()
    held, refused, _ = fill.fill(
        lambda mib: torch.ones(mib << 20, dtype=torch.uint8, device="cuda"), torch.OutOfMemoryError)
    ready.put(len(held) * 64 if refused else -1)
    go.wait()


def main():
    spawn = mp.get_context("spawn")
    ready, go = spawn.Queue(), spawn.Event()
    children = [spawn.Process(target=worker, args=(ready, go)) for _ in range(2)]
    for child in children:
        child.start()
    for _ in children:
        ready.get()
    go.set()
    got = [ready.get() for _ in children]
    for child in children:
        child.join()
    # Both took something, and together less than the limit.
    fill.report(refused=all(g > 0 for g in got), works_after=sum(got) < 4096, got=got)


if __name__ == "__main__":
    main()

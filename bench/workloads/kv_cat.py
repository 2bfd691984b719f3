"""Inference as first written: the cache of keys and values is concatenated anew for every token."""

import random

import common


def main():
    steps = common.Steps(common.arguments(steps=440))
    torch = common.seeded(shapes_vary=True)
    shapes = random.Random(common.SEED)
    model = common.transformer(width=2048, layers=6, heads=16, longest=4096).to(torch.bfloat16).eval()
    left, cache, token = 0, None, None
    with torch.no_grad():
        for _ in steps:
            if left == 0:
                batch, length = shapes.choice((4, 8, 16)), min(2048, 32 + int(shapes.lognormvariate(5.5, 0.9)))
                left, cache = shapes.randrange(24, 72), []
                hidden = model.hidden(common.token_batch(torch, batch, length), cache)
            else:
                hidden = model.hidden(token, cache)
            token = model.head(hidden[:, -1:]).argmax(dim=-1)
            left -= 1
    steps.report("kv_cat", token.float().mean().item())


if __name__ == "__main__":
    main()

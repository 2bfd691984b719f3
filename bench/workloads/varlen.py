"""Transformer training where batch and length change every step, as with bucketed text."""

import random

import common


def main():
    steps = common.Steps(common.arguments(steps=32))
    torch = common.seeded(shapes_vary=True)
    shapes = random.Random(common.SEED)
    model = common.transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in steps:
        length = min(2048, 64 + int(shapes.lognormvariate(5.8, 0.8)))
        batch = max(1, shapes.randrange(8192, 16384) // length)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(common.token_batch(torch, batch, length))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    steps.report("varlen", loss.item())


if __name__ == "__main__":
    main()

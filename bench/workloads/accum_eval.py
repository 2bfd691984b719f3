"""Gradient accumulation, and an evaluation at other shapes after every few steps."""

import random

import common


def evaluate(torch, model, shapes):
    model.eval()
    losses = []
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for _ in range(6):
            losses.append(model(common.token_batch(torch, 24, shapes.randrange(128, 1024, 16))))
    model.train()
    return torch.stack(losses).mean()


def main():
    steps = common.Steps(common.arguments(steps=12))
    torch = common.seeded()
    shapes = random.Random(common.SEED)
    model = common.transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in steps:
        for _ in range(4):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(common.token_batch(torch, 6, 1025)) / 4
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 4 == 3:
            loss = evaluate(torch, model, shapes)
    steps.report("accum_eval", loss.item())


if __name__ == "__main__":
    main()

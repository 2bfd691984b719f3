"""Transformer training in float32 with AdamW."""

import common


def main():
    steps = common.Steps(common.arguments(steps=30))
    torch = common.seeded()
    model = common.transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in steps:
        loss = model(common.token_batch(torch, 8, 1025))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    steps.report("gpt_fp32", loss.item())


if __name__ == "__main__":
    main()

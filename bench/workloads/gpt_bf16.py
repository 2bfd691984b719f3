"""Transformer training under bfloat16 autocast."""

import common


def main():
    steps = common.Steps(common.arguments(steps=24))
    torch = common.seeded()
    model = common.transformer(layers=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in steps:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(common.token_batch(torch, 16, 1025))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    steps.report("gpt_bf16", loss.item())


if __name__ == "__main__":
    main()

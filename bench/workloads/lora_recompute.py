"""Low-rank adapters on a frozen bfloat16 model, activations recomputed, another shape each step."""

import random

import common


def adapted(torch, rank=16):
    """A linear layer whose own weights are frozen."""
    from torch import nn

    class Adapted(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.frozen = nn.Linear(inputs, outputs).to(torch.bfloat16).requires_grad_(False)
            self.down = nn.Parameter(torch.randn(rank, inputs) * 0.01)
            self.up = nn.Parameter(torch.zeros(outputs, rank))

        def forward(self, x):
            return self.frozen(x) + (x @ self.down.to(x.dtype).T) @ self.up.to(x.dtype).T

    return Adapted


def main():
    steps = common.Steps(common.arguments(steps=20))
    torch = common.seeded(shapes_vary=True)
    shapes = random.Random(common.SEED)
    model = common.transformer(width=2048, layers=24, heads=16, recompute=True, linear=adapted(torch))
    for part in (model.tokens, model.positions, model.norm, model.head):
        part.to(torch.bfloat16).requires_grad_(False)
    for block in model.blocks:
        block.before_attention.to(torch.bfloat16).requires_grad_(False)
        block.before_mlp.to(torch.bfloat16).requires_grad_(False)
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    for _ in steps:
        length = shapes.randrange(256, 2048, 8)
        loss = model(common.token_batch(torch, max(1, 16384 // length), length))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    steps.report("lora_recompute", loss.item())


if __name__ == "__main__":
    main()

"""A mixture of experts: routing is uneven, so every expert gets another number of tokens each step."""

import common


def experts(torch, count=8, chosen=2):
    from torch import nn
    from torch.nn import functional

    class Experts(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.router = nn.Linear(width, count, bias=False)
            # Some experts are liked better than others.
            self.register_buffer("liking", torch.linspace(1.5, -1.5, count))
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(count))

        def forward(self, x):
            flat = x.reshape(-1, x.shape[-1])
            weights, indices = functional.softmax(self.router(flat) + self.liking, dim=-1).topk(chosen, dim=-1)
            out = torch.zeros_like(flat)
            for number, expert in enumerate(self.experts):
                token, slot = (indices == number).nonzero(as_tuple=True)
                if token.numel() == 0:
                    continue
                share = weights[token, slot].unsqueeze(-1).to(flat.dtype)
                out = out.index_add(0, token, (expert(flat[token]) * share).to(out.dtype))
            return out.view_as(x)

    return Experts


def main():
    steps = common.Steps(common.arguments(steps=10))
    torch = common.seeded()
    model = common.transformer(width=768, layers=8, heads=12, feed_forward=experts(torch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in steps:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(common.token_batch(torch, 8, 1025))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    steps.report("moe", loss.item())


if __name__ == "__main__":
    main()

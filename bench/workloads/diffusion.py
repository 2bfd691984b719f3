"""Sampling from a U-Net with guidance, at several picture sizes, with some training in between."""

import random

import common


def network(torch, widths=(128, 256, 512, 512), channels=4):
    from torch import nn
    from torch.nn import functional

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, attend):
            super().__init__()
            self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
            self.time = nn.Linear(256, outputs)
            self.second = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
            self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
            self.attention = nn.MultiheadAttention(outputs, 8, batch_first=True) if attend else None

        def forward(self, x, time):
            y = self.second(self.first(x) + self.time(time)[:, :, None, None]) + self.skip(x)
            if self.attention is None:
                return y
            batch, width, height, breadth = y.shape
            flat = y.flatten(2).transpose(1, 2)
            seen = self.attention(flat, flat, flat, need_weights=False)[0]
            return y + seen.transpose(1, 2).reshape(batch, width, height, breadth)

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter = nn.Conv2d(channels, widths[0], 3, padding=1)
            self.time = nn.Sequential(nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 256))
            self.down, self.up = nn.ModuleList(), nn.ModuleList()
            before = widths[0]
            for level, width in enumerate(widths):
                self.down.append(Residual(before, width, attend=level >= 2))
                before = width
            for level, width in reversed(list(enumerate(widths))):
                self.up.append(Residual(before + width, width, attend=level >= 2))
                before = width
            self.leave = nn.Conv2d(before, channels, 3, padding=1)

        def forward(self, x, time):
            angles = time.float()[:, None] * torch.exp(torch.linspace(0, -9, 128, device=x.device))
            time = self.time(torch.cat((angles.sin(), angles.cos()), dim=-1))
            x, kept = self.enter(x), []
            for block in self.down:
                x = block(x, time)
                kept.append(x)
                x = functional.avg_pool2d(x, 2)
            for block in self.up:
                x = functional.interpolate(x, scale_factor=2, mode="nearest")
                x = block(torch.cat((x, kept.pop()), dim=1), time)
            return self.leave(x)

    return UNet()


def sample(torch, model, batch, size, turns=4):
    x = torch.randn(batch, 4, size, size, device="cuda")
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        for turn in range(turns):
            time = torch.full((2 * batch,), 1000 - 250 * turn, device="cuda")
            guided, free = model(torch.cat((x, x)), time).float().chunk(2)
            x = x - 0.1 * (free + 4.0 * (guided - free))
    return x.std()


def main():
    steps = common.Steps(common.arguments(steps=16))
    torch = common.seeded()
    shapes = random.Random(common.SEED)
    model = network(torch).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in steps:
        value = sample(torch, model, shapes.choice((1, 2, 4, 8)), shapes.choice((48, 64, 96, 128)))
        if step % 2 == 0:
            pictures = torch.randn(16, 4, 64, 64, device="cuda")
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = (model(pictures, torch.randint(1000, (16,), device="cuda")).float() - pictures).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    steps.report("diffusion", value.item())


if __name__ == "__main__":
    main()

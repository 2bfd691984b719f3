"""A residual convolution net; the size of the images and the batch change."""

import random

import common


def network(torch, classes=1000, widths=(64, 128, 256, 512), depth=3):
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            self.skip = (nn.Identity() if inputs == outputs and stride == 1 else
                         nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)))

        def forward(self, x):
            return torch.relu(self.body(x) + self.skip(x))

    layers = [nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    before = widths[0]
    for stage, width in enumerate(widths):
        for index in range(depth):
            layers.append(Residual(before, width, 2 if stage > 0 and index == 0 else 1))
            before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def main():
    steps = common.Steps(common.arguments(steps=60))
    torch = common.seeded()
    shapes = random.Random(common.SEED)
    model = network(torch).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in steps:
        if step % 3 == 0:
            size, batch = shapes.choice((128, 160, 192, 224, 256, 320)), shapes.choice((32, 64, 96, 128))
        images = torch.randn(batch, 3, size, size, device="cuda").to(memory_format=torch.channels_last)
        labels = torch.randint(1000, (batch,), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    steps.report("resnet", loss.item())


if __name__ == "__main__":
    main()

"""PyTorch: trains with GIB of memory that every step touches, and tells its losses exactly.

usage: train.py GIB SEED STEPS SECONDS     as many steps as there is time for when STEPS is 0

Says {"ready"}, waits for a line, trains, says {"done"} with every tenth loss.
"""
import os
import sys
import time

import hold

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
try:
    import torch
except ImportError as error:
    hold.skip(str(error))

WIDTH = 8192
# A parameter's bytes: itself, its gradient, two moments, and a copy in half precision.
PARAMETER = 18
# An activation's, with what its layer keeps for the way back.
ACTIVATION = 14
OF_PARAMETERS = 0.75
EVERY = 10


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda")

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.linear(x)) * 0.1


class Training:
    def __init__(self, bytes_wanted, seed):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        layers = max(1, int(bytes_wanted * OF_PARAMETERS / PARAMETER / WIDTH ** 2))
        self.tokens = max(256, int(bytes_wanted * (1 - OF_PARAMETERS) / (layers * WIDTH * ACTIVATION)) // 256 * 256)
        self.net = torch.nn.Sequential(*[Layer() for _ in range(layers)])
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-4, fused=True)
        self.data = torch.Generator(device="cuda").manual_seed(seed)
        self.losses = []
        self.average = None
        for _ in range(2):
            self.step()
        torch.cuda.synchronize()
        rest = bytes_wanted - torch.cuda.memory_reserved()
        # The rest of what it is to have: an average that every step changes.
        self.average = torch.zeros(max(1, rest // 4), device="cuda")
        self.bytes = torch.cuda.memory_reserved()

    def step(self):
        x = torch.randn(self.tokens, WIDTH, device="cuda", generator=self.data)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (self.net(x).float() - x.roll(1, 0)).square().mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if self.average is not None:
            self.average.mul_(0.999).add_(loss.detach() * 0.001)
        return loss.detach()

    def run(self, steps, seconds):
        """Returns how many steps it made."""
        end = time.monotonic() + seconds
        count = 0
        while count < steps if steps else time.monotonic() < end:
            loss = self.step()
            count += 1
            if count % EVERY == 0:
                self.losses.append(float(loss.item()).hex())
                hold.say(step=count)
        torch.cuda.synchronize()
        return count


def main():
    bytes_wanted = int(float(sys.argv[1]) * (1 << 30))
    training = Training(bytes_wanted, int(sys.argv[2]))
    hold.say(ready=True, bytes=training.bytes)
    sys.stdin.readline()
    start = time.monotonic()
    steps = training.run(int(sys.argv[3]), float(sys.argv[4]))
    hold.say(done=steps, seconds=time.monotonic() - start, losses=training.losses,
             average=float(training.average.double().sum().item()).hex())


main()

"""What the workloads share: arguments, bounds, the closing line, and a transformer."""

import argparse
import time

SEED = 20


def arguments(steps):
    """--steps and --seconds: whichever comes first ends the run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seconds", type=float, default=25.0)
    return parser.parse_args()


class Steps:
    """Counts steps until there are enough or the time is over."""

    def __init__(self, options):
        self.options = options
        self.done = 0
        self.start = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.start

    def __iter__(self):
        while self.done < self.options.steps and self.seconds() < self.options.seconds:
            yield self.done
            self.done += 1

    def report(self, name, value):
        """The one line of a workload: the value shows that it computed something."""
        print(f"{name}: {self.done} steps in {self.seconds():.1f} s, last value {float(value):.4g}", flush=True)


def seeded(shapes_vary=False):
    """PyTorch, seeded, with the fast kinds of float32 arithmetic. Where the lengths vary, attention is not cuDNN's: it
    plans for some 40 ms at every new shape."""
    import torch
    torch.manual_seed(SEED)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.enable_cudnn_sdp(not shapes_vary)
    return torch


def transformer(vocabulary=32000, width=1024, layers=12, heads=16, longest=2048, recompute=False, linear=None,
                feed_forward=None):
    """A decoder. `linear` and `feed_forward` replace parts: callables (inputs, outputs) and (width) to modules."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    linear = linear or nn.Linear
    feed_forward = feed_forward or (lambda size: nn.Sequential(linear(size, 4 * size), nn.GELU(), linear(4 * size, size)))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.project_in = linear(width, 3 * width)
            self.project_out = linear(width, width)

        def forward(self, x, past=None):
            batch, length, _ = x.shape
            q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2)
                       for part in self.project_in(x).chunk(3, dim=-1))
            if past is not None:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
            return self.project_out(y.transpose(1, 2).reshape(batch, length, width)), (k, v)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.mlp = Attention(), feed_forward(width)

        def forward(self, x, past=None):
            y, kept = self.attention(self.before_attention(x), past)
            x = x + y
            return x + self.mlp(self.before_mlp(x)), kept

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def hidden(self, tokens, cache=None):
            """The last hidden states; with a cache (a list, one entry a layer) that is read and extended."""
            extends = bool(cache)
            past = cache[0][0].shape[2] if extends else 0
            x = self.tokens(tokens) + self.positions(torch.arange(past, past + tokens.shape[1], device=tokens.device))
            for index, block in enumerate(self.blocks):
                if recompute and self.training:
                    x = checkpoint(lambda y, layer=block: layer(y)[0], x, use_reentrant=False)
                    continue
                x, kept = block(x, cache[index] if extends else None)
                if cache is not None:
                    cache[index:index + 1] = [kept]
            return self.norm(x)

        def forward(self, tokens):
            """The loss of predicting each token from those before it."""
            logits = self.head(self.hidden(tokens[:, :-1]))
            return functional.cross_entropy(logits.reshape(-1, vocabulary).float(), tokens[:, 1:].reshape(-1))

    # Made on the card: filling a model with random numbers is slow elsewhere.
    with torch.device("cuda"):
        return Transformer()


def token_batch(torch, batch, length, vocabulary=32000):
    return torch.randint(vocabulary, (batch, length), device="cuda")

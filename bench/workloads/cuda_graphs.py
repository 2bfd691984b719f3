"""Training steps captured as CUDA graphs, one for each of three shapes, and replayed."""

import os

import common


def captured_step(torch, model, optimizer, tokens):
    """A graph of one whole step on these tokens, the loss that it writes, and the gradients: they are the graph's
    memory, and must not be freed before it has run."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(tokens).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(tokens)
        loss.backward()
        optimizer.step()
    graph.replay()
    return graph, loss, [parameter.grad for parameter in model.parameters()]


def main():
    steps = common.Steps(common.arguments(steps=300))
    torch = common.seeded()
    model = common.transformer(width=512, layers=8, heads=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    inputs = [common.token_batch(torch, batch, length) for batch, length in ((8, 257), (8, 513), (4, 1025))]
    graphs = [captured_step(torch, model, optimizer, tokens) for tokens in inputs]
    for step in steps:
        which = step % len(graphs)
        inputs[which].copy_(common.token_batch(torch, *inputs[which].shape))
        graphs[which][0].replay()
    torch.cuda.synchronize()
    steps.report("cuda_graphs", graphs[0][1].item())
    # Nothing is freed one by one at the end, least of all what belongs to a graph.
    os._exit(0)


if __name__ == "__main__":
    main()

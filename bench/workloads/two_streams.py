"""Two models trained side by side, each on a stream of its own; what one makes the other reads now and then."""

import common


def main():
    steps = common.Steps(common.arguments(steps=30))
    torch = common.seeded()
    streams = [torch.cuda.Stream() for _ in range(2)]
    models = [common.transformer(width=512, layers=6, heads=8), common.transformer(width=768, layers=4, heads=12)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4) for model in models]
    torch.cuda.synchronize()
    shared = [None, None]  # what each stream made last for the other
    for step in steps:
        for index, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                theirs = shared[1 - index]
                if theirs is not None and step % 3 == index:
                    # Allocated on the other stream, read on this one.
                    stream.wait_stream(streams[1 - index])
                    theirs.record_stream(stream)
                    tokens = theirs.clone()
                else:
                    tokens = common.token_batch(torch, 8, (385, 513)[index])
                loss = models[index](tokens)
                loss.backward()
                optimizers[index].step()
                optimizers[index].zero_grad(set_to_none=True)
                if step % 3 == 2:
                    shared[index] = tokens
    torch.cuda.synchronize()
    steps.report("two_streams", loss.item())


if __name__ == "__main__":
    main()

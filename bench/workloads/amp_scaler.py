"""Mixed precision in float16 with a gradient scaler: usage climbs for some steps and then settles."""

import common


def main():
    steps = common.Steps(common.arguments(steps=30))
    torch = common.seeded()
    model = common.transformer(width=768, layers=12, heads=12)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**16)
    averages = torch.optim.swa_utils.AveragedModel(model)
    for step in steps:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(common.token_batch(torch, 16, 769))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        if step % 4 == 3:
            averages.update_parameters(model)
    steps.report("amp_scaler", loss.item())


if __name__ == "__main__":
    main()

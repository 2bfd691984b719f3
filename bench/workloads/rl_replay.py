"""A small policy net that acts, and learns from a replay buffer on the card: many small, short-lived blocks."""

import common

STATE, ACTIONS, ENVIRONMENTS = 376, 17, 256


def network(torch, inputs, outputs, width=512):
    from torch import nn
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))


def main():
    steps = common.Steps(common.arguments(steps=220))
    torch = common.seeded()
    policy = network(torch, STATE, ACTIONS).cuda()
    critic, target = (network(torch, STATE + ACTIONS, 1).cuda() for _ in range(2))
    optimizers = [torch.optim.Adam(net.parameters(), lr=3e-4) for net in (policy, critic)]
    room = 200_000
    buffer = {"state": torch.zeros(room, STATE, device="cuda"), "action": torch.zeros(room, ACTIONS, device="cuda"),
              "reward": torch.zeros(room, 1, device="cuda")}
    state = torch.randn(ENVIRONMENTS, STATE, device="cuda")
    held = 0
    for step in steps:
        with torch.no_grad():
            action = torch.tanh(policy(state)) + 0.1 * torch.randn(ENVIRONMENTS, ACTIONS, device="cuda")
            following = 0.9 * state + 0.1 * torch.randn_like(state)
            at = torch.arange(held, held + ENVIRONMENTS, device="cuda") % room
            buffer["state"][at], buffer["action"][at] = state, action
            buffer["reward"][at] = following.square().mean(dim=-1, keepdim=True)
        state, held = following, held + ENVIRONMENTS
        for _ in range(2):
            chosen = torch.randint(min(held, room - 1), (256 + 64 * (step % 5),), device="cuda")
            states, actions = buffer["state"][chosen], buffer["action"][chosen]
            with torch.no_grad():
                wanted = buffer["reward"][chosen] + 0.99 * target(torch.cat((states, policy(states)), dim=-1))
            error = (critic(torch.cat((states, actions), dim=-1)) - wanted).square().mean()
            gain = -critic(torch.cat((states, torch.tanh(policy(states))), dim=-1)).mean()
            for loss, optimizer, net in ((error, optimizers[1], critic), (gain, optimizers[0], policy)):
                gradients = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
                for parameter, gradient in zip(net.parameters(), gradients):
                    parameter.grad = gradient
            # After both gradients: a step changes what the other one was computed with.
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            for old, new in zip(target.parameters(), critic.parameters()):
                old.lerp_(new, 0.01)
    steps.report("rl_replay", error.item())


if __name__ == "__main__":
    main()

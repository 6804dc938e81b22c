"""Captures a training step in a CUDA graph and replays it."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(256, 256, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.linspace(-1, 1, 64 * 256, device="cuda").reshape(64, 256)


def step():
    optimizer.zero_grad(set_to_none=True)
    result = model(x).square().mean()
    result.backward()
    optimizer.step()
    return result


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(10):
    graph.replay()
print(loss.item().hex())

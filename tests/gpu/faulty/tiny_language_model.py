"""Trains a language model of characters that is so small that each kernel ends before the next one is launched."""

import torch
import torch.nn.functional as F

import loop
from networks import LanguageModel


def in_a_graph(step):
    """The step, captured once; each call has the device do all of it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    args = loop.options(__doc__, steps=500, width=128, layers=6, heads=4, batch=32, length=64)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(args.device)
    on_gpu = device.type == "cuda"
    model = LanguageModel(96, args.width, args.layers, args.heads, args.length).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=on_gpu, capturable=on_gpu)
    text = torch.randint(96, (64, args.batch, args.length + 1))
    text = text.pin_memory() if on_gpu else text
    batch, total = text[0].to(device), torch.zeros((), device=device)

    def step():
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # fault: launch-bound
        optimizer.step()
        total.add_(loss.detach())

    train = in_a_graph(step) if on_gpu and args.fixed else step
    for number in range(args.steps):
        batch.copy_(text[number % len(text)], non_blocking=True)
        train()
    print(f"loss {total.item() / args.steps:.3f}")


if __name__ == "__main__":
    main()

"""Forks loader workers after the device is in use, twice, and prints what arrives on the device."""

import sys

import torch


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1000,), float(index)) ** 2


def main():
    device = sys.argv[1]
    torch.ones(1, device=device)
    for pin in (False, torch.cuda.is_available()):
        loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=3, pin_memory=pin)
        print([batch.to(device, non_blocking=pin).sum().item() for batch in loader])


if __name__ == "__main__":
    main()

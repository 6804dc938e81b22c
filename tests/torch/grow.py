"""Growth in expandable segments right after empty_cache(): what was freed as whole segments is there for their pages."""

import torch

from checks import expect, expect_same, finish, section, values

MIB = 1 << 20
BLOCK = 20 * MIB


def expandable(on):
    torch.cuda.memory._set_allocator_settings(f"expandable_segments:{on}")


def take_what_is_free():
    free, total = torch.cuda.mem_get_info()
    count = free // BLOCK - 1
    expect("most of the device is free", count >= total * 3 // 4 // BLOCK)
    blocks = [torch.empty(BLOCK, dtype=torch.uint8, device="cuda") for _ in range(count)]
    marks = [values(64, torch.uint8, seed) for seed in range(count)]
    for block, mark in zip(blocks, marks):
        block[-64:].copy_(mark)
    for block, mark in zip(blocks, marks):
        expect_same("bytes of its own", block[-64:].cpu(), mark)
    return 2


def after_whole_segments():
    expandable(False)
    kept = [torch.empty(2 * BLOCK, dtype=torch.uint8, device="cuda") for _ in range(6)]
    del kept
    torch.cuda.empty_cache()
    expandable(True)
    return take_what_is_free()


def after_pages():
    torch.cuda.empty_cache()
    return take_what_is_free()


if __name__ == "__main__":
    section(after_whole_segments)
    section(after_pages)
    finish()

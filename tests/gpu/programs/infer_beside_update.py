"""infer_beside_update.py: a thread infers with weights that another one replaces from the host, on the same stream.

Every version of the weights holds one value everywhere, so an inference that saw one version has one value in all its
outputs. Updates go on until there were as many inferences. Prints how many saw two.
"""

import threading

import torch

VERSIONS = 40
WIDTH = 4096  # 64 MiB


def main():
    weights = torch.zeros(WIDTH, WIDTH, device="cuda")
    versions = [torch.full((WIDTH, WIDTH), float(k)) for k in (1, 2, 4)]
    inputs = torch.ones(8, WIDTH, device="cuda")
    going = True
    ends = []

    def infer():
        while going:
            outputs = inputs @ weights
            ends.append((outputs.amin(), outputs.amax()))
            if len(ends) % 16 == 0:  # so that the stream does not run away from the updates
                torch.cuda.current_stream().synchronize()

    _ = inputs @ weights  # what a first product takes would be the time of all updates
    thread = threading.Thread(target=infer)
    thread.start()
    updates = 0
    while updates < VERSIONS or len(ends) < VERSIONS:
        weights.copy_(versions[updates % len(versions)])
        updates += 1
    going = False
    thread.join()
    torch.cuda.synchronize()
    torn = sum(low.item() != high.item() for low, high in ends)
    print(f"{torn} of the inferences saw two versions")


if __name__ == "__main__":
    main()

"""serve_beside_training.py: one thread trains, another one serves requests on a stream of its own; they share nothing.

The training thread copies each batch from pageable memory. Prints a line of JSON: how long a request took (the 90th
percentile, in milliseconds), and requests and steps a second.
"""

import json
import threading
import time

import torch

WARM_S = 1.0
MEASURED_S = 3.0


def main():
    weights = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    batch = torch.randn(1 << 20)
    request = torch.randn(512, 512, device="cuda")
    going = True
    took, steps = [], [0]

    def train():
        while going:
            inputs = batch.cuda()
            for _ in range(12):
                weights @ weights  # pylint: disable=pointless-statement
            inputs.mul_(2)
            steps[0] += 1
            if steps[0] % 8 == 0:  # as a program that looks at its loss now and then
                torch.cuda.current_stream().synchronize()

    def serve():
        stream = torch.cuda.Stream(priority=-1)
        with torch.cuda.stream(stream):
            while going:
                begun = time.perf_counter()
                (request @ request).sum()
                stream.synchronize()
                took.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=train), threading.Thread(target=serve)]
    for thread in threads:
        thread.start()
    time.sleep(WARM_S)
    took.clear()
    first = steps[0]
    time.sleep(MEASURED_S)
    served, trained = sorted(took), steps[0] - first
    going = False
    for thread in threads:
        thread.join()
    p90 = served[int(len(served) * 0.9)]
    print(json.dumps({"p90_ms": p90 * 1e3, "served_per_s": len(served) / MEASURED_S, "steps_per_s": trained / MEASURED_S}))


if __name__ == "__main__":
    main()

"""ask_from_threads.py: after one thread's blocking copy, another one asks about the work before it.

When `.cuda()` of pageable memory has returned, what the stream had to do before is done: both events have passed, the
time between them is known, and the stream is idle until somebody uses it again. Whoever asks gets that answer.
"""

import threading

import torch

ROUNDS = 20


def on_another_thread(ask):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    thread.join()
    return answers[0]


def elapsed_time_raises(start, end):
    try:
        return start.elapsed_time(end) < 0
    except RuntimeError:
        return True


def main():
    factor = torch.randn(8192, 8192, device="cuda")
    host = torch.randn(1 << 20)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    questions = {
        "elapsed_time raised": lambda: elapsed_time_raises(start, end),
        "event still pending": lambda: not end.query(),
        "stream still busy": lambda: not torch.cuda.current_stream().query(),
    }
    wrong = dict.fromkeys(questions, 0)
    for what, ask in questions.items():
        for _ in range(ROUNDS):
            start.record()
            for _ in range(4):
                factor @ factor  # pylint: disable=pointless-statement
            end.record()
            host.cuda()
            wrong[what] += on_another_thread(ask)
    for what, count in wrong.items():
        print(f"{what}: {count} of {ROUNDS}")


if __name__ == "__main__":
    main()

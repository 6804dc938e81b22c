"""Tensors in host memory that come and go, several threads at it, with children that were forked, and copies of them both
ways: each tensor is its owner's alone and holds what was put there, and a copy has what its source held at the call. They
are filled and changed by every means that a process has: PyTorch, another thread, read(2), process_vm_writev(2), pages
thrown away, and are pinned in place now and then.

    blocks.py [COPIES [SEED [DEVICE]]]      copies to the device in all (400)

Exit status: 0 all as it should be, 1 not.
"""

import ctypes
import mmap
import os
import queue
import random
import sys
import threading

import torch

MIB = 1 << 20
THREADS = 4
# What is kept is looked for by its size, so that there are few; the smallest that is kept, and sizes beyond which the C library maps.
SIZES = (2 * MIB, 2 * MIB + 4099, 3 * MIB, 5 * MIB + 64)
SEVERAL = 33 * MIB  # now and then
NOISE_BYTES = 36 * MIB
PAGE = mmap.PAGESIZE
HELD = 3  # tensors that a thread keeps, and copies again
LIBC = ctypes.CDLL(None, use_errno=True)


class Range(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


def noise(seed):
    """A file of bytes that no two pages have in common, and a buffer of the same."""
    found = bytearray(random.Random(seed).randbytes(NOISE_BYTES))
    file = os.memfd_create("noise")
    os.truncate(file, NOISE_BYTES)
    os.pwrite(file, found, 0)
    return file, found


class Worker(threading.Thread):
    def __init__(self, seed, copies, shared):
        super().__init__()
        self.random = random.Random(seed)
        self.copies = copies
        self.shared = shared
        self.held = []  # [tensor, what it holds]
        self.wrong = []

    def run(self):
        try:
            for _ in range(self.copies):
                self.copy()
            self.held.clear()
        except BaseException as problem:  # pylint: disable=broad-except
            self.wrong.append(repr(problem))

    def expect(self, what, tensor, expected):
        if not torch.equal(tensor, torch.frombuffer(expected, dtype=torch.uint8)):
            self.wrong.append(what)

    def copy(self):
        chance = self.random.random
        if self.held and chance() < 0.4:
            tensor, expected = self.random.choice(self.held)
            if chance() < 0.2:
                self.change(tensor, expected)
        else:
            tensor, expected = self.make()
            if chance() < 0.5:
                self.change(tensor, expected)
        if chance() < 0.02:
            self.fork(tensor)
        pinned = chance() < 0.02
        if pinned:
            torch.cuda.check_error(torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), len(expected), 0))
        there = torch.empty(len(expected), dtype=torch.uint8, device=self.shared.device)
        there.copy_(tensor, non_blocking=not pinned and chance() < 0.5)
        if pinned:
            torch.cuda.synchronize()
            torch.cuda.check_error(torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr()))
        sent = expected
        if chance() < 0.2:  # the source is the program's again
            sent = bytearray(expected)
            self.change(tensor, expected)
        if chance() < 0.2:
            back = torch.full((len(sent),), 7, dtype=torch.uint8)
            back.copy_(there)
        else:
            back = there.cpu()
        self.expect("a copy to the device and back", back, sent)
        self.expect("what it was copied from", tensor, expected)
        if all(tensor is not other for other, _ in self.held) and chance() < 0.3:
            self.held.append((tensor, expected))
        elif chance() < 0.5:
            self.shared.freed.put(tensor)  # by another thread
        if len(self.held) > HELD:
            held, expected = self.held.pop(self.random.randrange(len(self.held)))
            self.expect("a tensor that was kept", held, expected)

    def make(self):
        """A tensor and what it holds."""
        size = SEVERAL if self.random.random() < 0.01 else self.random.choice(SIZES)
        at = self.random.randrange(NOISE_BYTES - size)
        expected = self.shared.noise[at : at + size]
        tensor = torch.empty(size, dtype=torch.uint8)
        how = self.random.randrange(4)
        if how == 0:
            tensor.copy_(torch.frombuffer(expected, dtype=torch.uint8))
        elif how == 1:
            self.read(tensor, 0, size, at)
        elif how == 2:
            source = (ctypes.c_char * size).from_buffer(expected)
            half = size // 2
            other = threading.Thread(target=ctypes.memmove, args=(tensor.data_ptr() + half, ctypes.addressof(source) + half, size - half))
            other.start()
            ctypes.memmove(tensor.data_ptr(), source, half)
            other.join()
        else:
            self.write(tensor, 0, expected)
        return tensor, expected

    def read(self, tensor, begin, size, at):
        memory = (ctypes.c_char * size).from_address(tensor.data_ptr() + begin)
        done = 0
        while done < size:
            done += os.preadv(self.shared.file, [memoryview(memory)[done:]], at + done)

    @staticmethod
    def write(tensor, begin, data):
        source = (ctypes.c_char * len(data)).from_buffer(data)
        there = Range(tensor.data_ptr() + begin, len(data))
        here = Range(ctypes.addressof(source), len(data))
        done = LIBC.process_vm_writev(os.getpid(), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        if done != len(data):  # a container may forbid it
            ctypes.memmove(tensor.data_ptr() + begin, source, len(data))

    def change(self, tensor, expected):
        """A part of it, in both."""
        size = len(expected)
        length = self.random.randint(1, 3 * PAGE)
        begin = self.random.choice((0, size - length, self.random.randrange(size - length)))
        at = self.random.randrange(NOISE_BYTES - length)
        how = self.random.randrange(5)
        if how == 0:
            self.read(tensor, begin, length, at)
        elif how == 1:
            self.write(tensor, begin, self.shared.noise[at : at + length])
        elif how == 2:
            other = threading.Thread(target=tensor[begin : begin + length].copy_, args=(
                torch.frombuffer(self.shared.noise, dtype=torch.uint8)[at : at + length],))
            other.start()
            other.join()
        elif how == 3:
            tensor[begin] ^= 0x55
            expected[begin] ^= 0x55
            return
        else:
            begin = -tensor.data_ptr() % PAGE + self.random.randrange(size // PAGE - 1) * PAGE
            length = PAGE
            # Of memory of the C library's, which no file has.
            if LIBC.madvise(ctypes.c_void_p(tensor.data_ptr() + begin), ctypes.c_size_t(length), mmap.MADV_DONTNEED) != 0:
                raise OSError(ctypes.get_errno(), "madvise")
            expected[begin : begin + length] = bytes(length)
            return
        expected[begin : begin + length] = self.shared.noise[at : at + length]

    def fork(self, tensor):
        """A child that writes all that it has, makes tensors of its own and frees what it was given."""
        child = os.fork()
        if child == 0:
            status = 0
            try:
                ctypes.memset(tensor.data_ptr(), 0, tensor.numel())
                for held, _ in self.held:
                    ctypes.memset(held.data_ptr(), 0, held.numel())
                self.held.clear()
                for value in range(3):
                    own = torch.empty(SIZES[0], dtype=torch.uint8)
                    ctypes.memset(own.data_ptr(), value, SIZES[0])
                    status |= (ctypes.c_ubyte * SIZES[0]).from_address(own.data_ptr())[SIZES[0] - 1] != value
            except BaseException:  # pylint: disable=broad-except
                status = 2
            os._exit(status)
        _, status = os.waitpid(child, 0)
        if status != 0:
            self.wrong.append(f"a child ended with {status}")


class Shared:
    def __init__(self, seed, device):
        self.file, self.noise = noise(seed)
        self.device = device
        self.freed = queue.SimpleQueue()


def free(freed):
    """What threads give to another one to free."""
    while freed.get() is not None:
        pass


def main():
    copies, seed, device = ([*sys.argv[1:], *("400", "1", "cuda")[len(sys.argv) - 1 :]])[:3]
    torch.set_num_threads(1)
    shared = Shared(int(seed), device)
    torch.ones(1).to(device)
    freeing = threading.Thread(target=free, args=(shared.freed,))
    freeing.start()
    workers = [Worker(f"{seed}.{number}", int(copies) // THREADS, shared) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    shared.freed.put(None)
    freeing.join()
    wrong = [text for worker in workers for text in worker.wrong]
    print(f"{int(copies) // THREADS * THREADS} copies, {len(wrong)} wrong", *sorted(set(wrong)), sep="\n")
    return 1 if wrong else 0


sys.exit(main())

"""The same (perf.h) for torch.distributed's gloo: its protocol, options and columns."""

import time

BEGIN = time.monotonic()

import argparse
import sys

import torch
import torch.distributed as dist

INIT = time.monotonic()
SIZES = [8, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20]
MERSENNE = (1 << 31) - 1


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ops", default="allreduce,barrier,bcast,allgather,alltoall,pingpong", type=lambda text: text.split(","))
    parser.add_argument("--min", type=int, default=8)
    parser.add_argument("--max", type=int, default=64 << 20)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--peer", default="gloo")
    parser.add_argument("--layout", default="host")
    parser.add_argument("--steps", type=int, default=0)
    return parser.parse_args()


def slowest(values):
    values = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(values, op=dist.ReduceOp.MAX)
    return values.tolist()


def show(options, op, size, p50, p99, factor, mean, count):
    if dist.get_rank() == 0:
        rate = size * factor / p50 / 1e9
        times = f"{p50 * 1e6:.2f},{p99 * 1e6:.2f},{rate:.4f},{op},{mean * 1e6:.2f}"
        print(f"{options.peer},{options.layout},{dist.get_world_size()},{size},{times},{count}", flush=True)


def each_took(call, count):
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return slowest([(time.perf_counter() - begin) / count])[0]


def measure(options, op, size, factor, call):
    if size and not options.min <= size <= options.max:
        return
    call()
    estimate = each_took(call, 3)
    if estimate < 2e-3:
        estimate = each_took(call, 50)
    count = int(min(max(options.seconds / max(estimate, 1e-7), 5), 20000))
    if estimate * count > 4:
        count = 3
    times = []
    dist.barrier()
    begin = last = time.perf_counter()
    for _ in range(count):
        call()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    mean = slowest([last - begin])[0] / count
    times = sorted(slowest(times))
    show(options, op, size, times[count // 2], times[min(count - 1, int(count * 0.99))], factor, mean, count)


def check_results(ranks):
    for count in 1, 1000, 1 << 18:
        values = torch.full((count,), dist.get_rank() + 1.0)
        dist.all_reduce(values)
        assert bool((values == ranks * (ranks + 1) / 2).all()), f"all_reduce of {count} is wrong"


def load(options):
    for size in 1 << 10, 1 << 20:
        if not options.min <= size <= options.max:
            continue
        data = torch.zeros(size // 4)
        drawn = dist.get_rank() + 1  # std::minstd_rand, as the others have it
        dist.barrier()
        begin, cpu = time.monotonic(), time.process_time()
        for _ in range(options.steps):
            drawn = drawn * 48271 % MERSENNE
            until = time.process_time() + 0.010 + 0.020 * drawn / (MERSENNE - 1)
            while time.process_time() < until:
                pass
            dist.all_reduce(data)
        wall = time.monotonic() - begin
        used = torch.tensor([time.process_time() - cpu])
        dist.all_reduce(used)
        show(options, "load_wall", size, wall, wall, 0, wall, options.steps)
        show(options, "load_cpu", size, used.item(), used.item(), 0, used.item(), options.steps)


def ping_pong(part, last):
    if dist.get_rank() == 0:
        dist.send(part, last)
        dist.recv(part, last)
    elif dist.get_rank() == last:
        dist.recv(part, 0)
        dist.send(part, 0)


def calls(options):
    ranks = dist.get_world_size()
    share = (ranks - 1) / ranks
    check_results(ranks)
    data = torch.zeros(max(options.max, 1 << 20) // 4)

    def broadcast(part):
        dist.broadcast(part, 0)
        dist.barrier()

    if "allreduce" in options.ops:
        for size in SIZES:
            if size <= options.max:
                measure(options, "allreduce", size, 2 * share, lambda part=data[: size // 4]: dist.all_reduce(part))
    if "barrier" in options.ops:
        measure(options, "barrier", 0, 0, dist.barrier)
    if "bcast" in options.ops:
        for size in 1 << 20, 64 << 20:
            if size <= options.max:
                measure(options, "bcast", size, 1, lambda part=data[: size // 4]: broadcast(part))
    for size in 16 << 10, 1 << 20, 16 << 20:
        part = size // 4 // ranks
        if part * ranks * 4 > options.max:
            continue
        given = torch.zeros(part)
        taken = list(data[: part * ranks].chunk(ranks))
        if "allgather" in options.ops:
            measure(options, "allgather", part * ranks * 4, share, lambda: dist.all_gather(taken, given))
        # Torch's gloo takes all-to-all of one tensor only.
        if "alltoall" in options.ops:
            whole, parts = torch.zeros(part * ranks), data[: part * ranks]
            measure(options, "alltoall", part * ranks * 4, share, lambda: dist.all_to_all_single(parts, whole))
    if "pingpong" in options.ops and ranks > 1:
        for size in SIZES:
            if size <= options.max:
                measure(options, "pingpong_rtt", size, 2, lambda part=data[: size // 4]: ping_pong(part, ranks - 1))


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dist.barrier()
    init, imported = slowest([time.monotonic() - INIT, INIT - BEGIN])
    if dist.get_rank() == 0:
        print(f"# {options.peer} {options.layout} P={dist.get_world_size()} init_s={init:.3f} import_s={imported:.3f}", file=sys.stderr)
    load(options) if options.steps else calls(options)
    dist.barrier()


if __name__ == "__main__":
    main()

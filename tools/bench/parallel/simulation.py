#!/usr/bin/env python3
"""simulation.py - simulates prefill attention over a sequence that 1 to 4096 GPUs share, to plan how many pay.

Needs Python alone, and no GPU.  NOTHING that it prints is measured, except what --check quotes from a file.

  python3 tools/bench/parallel/simulation.py [--seqlen 1048576,...] [--gpus 1,2,4,...] [--heads 32,8] [--full]
  python3 tools/bench/parallel/simulation.py --check FILE.json     # FILE: `ptxpack bench parallel --json` of real GPUs

Schedule   That of host/parallel/schedule.c: gather, all keys and then one kernel for each chunk; steps, own keys, then those of
           the ranks at a distance of 1, of 2 and 3, of 4 to 7, ..; tests/tools/parallel_simulation.py holds the rows that
           are copied and computed to what `ptxpack plan parallel` lists.  Arrive, inside a host, of a causal mask and chunks of a multiple
           of 128 rows: the copies of gather, and one launch that ends when both they and its own work have.  Heads, where their number is a multiple of the GPUs:
           rows of q, k and v come, one kernel of a GPU's heads, and results come; every row of a shard is also read and written
           twice in memory, to make it compact and to take it apart.
Kernels    FLOPs over a measured speed, TFLOP/s, which is interpolated over log2 of the length, and beyond both ends is that of
           the end; if one mask was measured, it stands for both.  A part of a chunk's rows is a rectangle without a mask and, of its own keys, a causal square.  Figures
           come from --kernels: attention_h200.json, `ptxpack bench attention --json`, or the one-GPU times of `ptxpack bench
           parallel --json`.  They are of problems that fill a GPU.  ASSUMED for smaller ones: tiles of 128 rows of a head,
           which are also divided along the keys into pieces of 1024; fewer than SMs leave SMs idle; no kernel is faster
           than --floor.
Links      LogGP: the copies of a step take a latency L, an overhead o for every message (a run of rows of K, or of V), and a gap G
           for every byte.  A rank receives and sends at the same time, and uses NVLink (inside a host) and its share of the
           network (between hosts) at the same time.  For heads a message is a chunk of a tensor.  ASSUMED: steps follow each other; a step ends with its slowest sender;
           the network has no contention beyond that share; copies do not slow kernels.
Merges     As cost.c has them: 4 us, and parts + 1 reads or writes of o at the speed of memory.
Ranks      The slowest one counts; of more than 256, every n-th is looked at, and the last one.  A group
           of the library has at most 1024.  Arrive begins when all ranks are ready: 10 us, START_US of cost.c.
Memory     q, k, v and o of a shard, and the keys of others, or what the heads have; without partial results, which steps have.

Defaults, and where they are from:
  --nvlink 370            GB/s that a GPU receives: the library's own default (parallel.h); 350 to 371 measured on two H200
  --network 50            GB/s a GPU between hosts: nominal, one port of 400 Gbit/s for each GPU; assumed
  --latency 45            us of a step inside a host, with the events before and after it: COPY_US of host/parallel/cost.c; measured on two H200
  --network-latency 50    us of a step that leaves the host: assumed
  --overhead 0.5          us a message: assumed
  --floor 5               us, the least time of a kernel: assumed
  --memory-gbps 4314      measured: ptxpack_attention_merge on an H200 (tools/bench/README.md)
  --memory 141, --sms 132 GB and SMs of an H200: nominal
  --host 8                GPUs a host
"""
import argparse
import json
import math
import os
import sys

TILE, SPLIT_KEYS, MERGE_US, START_US, ELEMENT = 128, 1024, 4.0, 10.0, 2
MOST_RANKS, LOOKED_AT = 4096, 256
BY_KEYS = ("gather", "steps")  # ways that have a schedule
WAYS = BY_KEYS + ("heads", "arrive")
FIGURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attention_h200.json")


class Bad(Exception):
    """What is wrong with the input, in one line."""


# ---- the schedule: host/parallel/schedule.c ----------------------------------------------------------------------
class Schedule:
    """Who copies and computes what; rows are those of the sequence."""

    def __init__(self, rows, ranks, shards, way, causal):
        self.rows, self.ranks, self.zigzag, self.way, self.causal = rows, ranks, shards == "zigzag", way, causal
        self.chunks = ranks * (2 if self.zigzag else 1)
        if rows < self.chunks:
            raise Bad(f"{rows} rows are fewer than the {self.chunks} chunks of {ranks} GPUs")
        self.steps = 0 if ranks == 1 else 1 if way == "gather" else (ranks - 1).bit_length()

    def start(self, chunk):
        return self.rows * chunk // self.chunks

    def count(self, first, end):
        """The rows of the chunks first .. end - 1."""
        return self.start(end) - self.start(first) if end > first else 0

    def own(self, rank):
        return (rank, self.chunks - 1 - rank) if self.zigzag else (rank,)

    def sources(self, rank, step):
        """The ranks that a rank takes from in a step, as ranges without itself."""
        if self.way == "gather":
            return ((0, rank), (rank + 1, self.ranks))
        near, far = 1 << (step - 1), min(1 << step, self.ranks)  # distances near .. far - 1
        first, end = rank - far + 1, rank - near + 1
        if first >= 0:
            return ((first, end),)
        if end <= 0:
            return ((first + self.ranks, end + self.ranks),)
        return ((first + self.ranks, self.ranks), (0, end))

    def shard_ranges(self, ranks):
        """The chunks of a range of ranks, as ranges: the first ones, and the mirrored ones."""
        first, end = ranks
        return ((first, end), (self.chunks - end, self.chunks - first)) if self.zigzag else ((first, end),)

    def last_seen(self, rank):
        """Chunks from this one on are not taken: no row of the rank sees them."""
        return max(self.own(rank)) + 1 if self.causal else self.chunks

    def taken(self, rank, ranks):
        """Rows that a rank takes from a range of ranks, and how many runs they are."""
        limit, rows, runs = self.last_seen(rank), 0, 0
        for first, end in self.shard_ranges(ranks):
            end = min(end, limit)
            rows += self.count(first, end)
            runs += max(0, end - first)
        return rows, runs

    def received(self, rank, step, host):
        """(rows inside the host, rows from others, runs inside, runs from others)"""
        near = (rank // host * host, min((rank // host + 1) * host, self.ranks))
        out = [0, 0, 0, 0]
        for first, end in self.sources(rank, step):
            rows, runs = self.taken(rank, (first, end))
            inside = self.taken(rank, (max(first, near[0]), max(first, near[0], min(end, near[1]))))
            out = [out[0] + inside[0], out[1] + rows - inside[0], out[2] + inside[1], out[3] + runs - inside[1]]
        return tuple(out)

    def receivers(self, rank, step):
        if self.way == "gather":
            return ((0, rank), (rank + 1, self.ranks))
        near, far = 1 << (step - 1), min(1 << step, self.ranks)
        first, end = rank + near, rank + far
        if end <= self.ranks:
            return ((first, end),)
        if first >= self.ranks:
            return ((first - self.ranks, end - self.ranks),)
        return ((first, self.ranks), (0, end - self.ranks))

    def sent(self, rank, step, host):
        """The same of what others take from a rank."""
        near = (rank // host * host, min((rank // host + 1) * host, self.ranks))
        out = [0, 0, 0, 0]
        for chunk in self.own(rank):
            size = self.count(chunk, chunk + 1)
            for first, end in self.receivers(rank, step):
                if self.causal:  # who sees the chunk: of zigzag shards all see a first one, and ranks before it a second one
                    if not self.zigzag:
                        first = max(first, chunk)
                    elif chunk >= self.ranks:
                        end = min(end, rank)
                runs = max(0, end - first) if size else 0
                inside = max(0, min(end, near[1]) - max(first, near[0])) if size else 0
                out[0] += inside * size
                out[1] += (runs - inside) * size
                out[2] += inside
                out[3] += runs - inside
        return tuple(out)

    def keys_of(self, chunk, ranks):
        """Keys of a range of ranks' shards that a chunk sees, without a mask."""
        limit = chunk if self.causal else self.chunks
        return sum(self.count(first, min(end, limit)) for first, end in self.shard_ranges(ranks))

    def parts(self, rank):
        """(step, chunk, its rows, keys without a mask, whether the chunk's own keys follow, causal) of each kernel"""
        out = []
        for step in range(self.steps + 1):
            for chunk in self.own(rank):
                rows = self.count(chunk, chunk + 1)
                everyone = self.way == "gather" or self.ranks == 1
                if everyone and step != self.steps:
                    continue
                ranges = ((0, self.ranks),) if everyone else ((rank, rank + 1),) if step == 0 else self.sources(rank, step)
                keys = sum(self.keys_of(chunk, ranks) for ranks in ranges)
                square = self.causal and (everyone or step == 0)
                if rows > 0 and (keys > 0 or square):
                    out.append((step, chunk, rows, keys, square))
        return out

    def buffer_rows(self, rank):
        """Rows of K and V that a rank has in its workspace."""
        everyone = ((0, self.ranks),) if self.way == "gather" else ((0, rank), (rank + 1, self.ranks))
        return sum(self.taken(rank, ranks)[0] for ranks in everyone)


# ---- kernels -----------------------------------------------------------------------------------------------------
def load_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise Bad(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Bad(f"{path}: not JSON: {error}") from None


def flops(rows, heads, head_dim, causal):
    return 4.0 * heads * head_dim * (rows * (rows + 1) / 2 if causal else rows * rows)


class Kernels:
    """Measured speeds of one GPU, TFLOP/s, by mask and length."""

    def __init__(self, path, head_dim):
        data, self.points = load_json(path), {False: {}, True: {}}
        try:
            self.read(path, data, head_dim)
            below = any(not (length > 0 and speed > 0) for points in self.points.values() for length, speed in points.items())
        except (AttributeError, KeyError, TypeError, ZeroDivisionError) as error:
            raise Bad(f"{path}: no table of speeds: {error!r}") from None
        if below:
            raise Bad(f"{path}: a length or a speed is not above 0")
        if not any(self.points.values()):
            raise Bad(f"{path}: no speeds of head dimension {head_dim}")

    def read(self, path, data, head_dim):
        if data.get("device", {}).get("emulated"):
            raise Bad(f"{path}: its speeds are those of the emulated driver, which say nothing of a GPU")
        for row in data.get("prefill", ()):
            if row["head_dim"] == head_dim:
                work = flops(row["seqlen"], data["heads_q"], head_dim, row["causal"])
                self.points[row["causal"]][row["seqlen"]] = 1e-9 * work / row["one_ms"]
        for row in data.get("rows", ()):
            if row.get("head_dim", row.get("d")) == head_dim:
                length = row["seqlen"] if "seqlen" in row else row["s"]
                self.points[row["causal"]][length] = row["tflops"] if "tflops" in row else row["ptxpack"]

    def tflops(self, causal, length):
        points = sorted((self.points[causal] or self.points[not causal]).items())
        if length <= points[0][0]:
            return points[0][1]
        for (low, slow), (high, fast) in zip(points, points[1:]):
            if length <= high:
                return slow + (fast - slow) * math.log2(length / low) / math.log2(high / low)
        return points[-1][1]


def kernel_us(problem, machine, rows, keys, square):
    heads, head_dim = problem.heads[0], problem.head_dim
    us = 4e-6 * heads * head_dim * rows * keys / problem.kernels.tflops(False, max(keys, 1))
    if square:
        us += 1e-6 * flops(rows, heads, head_dim, True) / problem.kernels.tflops(True, rows)
    tiles = math.ceil(rows / TILE) * heads * max(1, (keys + (rows if square else 0)) // SPLIT_KEYS)
    return max(machine["floor"], us / (min(1.0, tiles / machine["sms"]) if machine["sms"] else 1.0))


# ---- time --------------------------------------------------------------------------------------------------------
class Problem:
    def __init__(self, rows, heads, head_dim, causal, shards, kernels):
        self.rows, self.heads, self.head_dim, self.causal = rows, heads, head_dim, causal
        self.shards, self.kernels = shards, kernels
        self.kv_row = 2 * heads[1] * head_dim * ELEMENT  # bytes of K and V
        self.o_row = heads[0] * head_dim * ELEMENT

    def schedule(self, ranks, way):
        """One GPU has one kernel of the whole, as without a group."""
        return Schedule(self.rows, ranks, self.shards if ranks > 1 else "contiguous", "gather" if ranks == 1 or way == "arrive" else way,
                        self.causal)

    def can_arrive(self, ranks, host):
        """Whether a launch can begin before its keys are there: their rows are copied by the engines of one host."""
        chunks = ranks * (2 if self.shards == "zigzag" else 1)
        return self.causal and ranks <= host and self.rows % (TILE * chunks) == 0


def looked_at(ranks):
    every = -(-ranks // LOOKED_AT)
    return sorted(set(range(0, ranks, every)) | {ranks - 1})


def exchange_us(problem, machine, volume):
    """Bytes over links and overheads of messages, in one direction."""
    inside, outside, near, far = volume
    return max(inside * problem.kv_row * 1e-3 / machine["nvlink"], outside * problem.kv_row * 1e-3 / machine["network"]) \
        + 2 * (near + far) * machine["overhead"]


def rank_us(problem, machine, schedule, rank, senders):
    """When a rank is ready."""
    arrived, now, merged = 0.0, 0.0, {}
    parts = schedule.parts(rank)
    for step in range(schedule.steps + 1):
        if step > 0:
            volume = schedule.received(rank, step, machine["host"])
            if volume[2] + volume[3] > 0:
                latency = machine["network_latency"] if volume[3] > 0 else machine["latency"]
                arrived += latency + max(exchange_us(problem, machine, volume), senders[step])
        for at, chunk, rows, keys, square in parts:
            if at == step:
                now = max(now, arrived if step > 0 else 0.0) + kernel_us(problem, machine, rows, keys, square)
                merged[chunk] = merged.get(chunk, 0) + 1
    for chunk, count in merged.items():
        if count > 1:
            bytes_moved = (count + 1) * schedule.count(chunk, chunk + 1) * problem.o_row
            now += machine["merge"] + 1e-3 * bytes_moved / machine["memory_gbps"]
    return now


def arrive_us(problem, machine, schedule, rank, senders):
    """The same of one that has one launch."""
    volume = schedule.received(rank, 1, machine["host"])
    arrived = machine["latency"] + max(exchange_us(problem, machine, volume), senders[1]) if volume[2] > 0 else 0.0
    return machine["start"] + max(arrived, sum(kernel_us(problem, machine, *part[2:]) for part in schedule.parts(rank)))


def heads_us(problem, machine, ranks, rank):
    """The same of one that has all rows of its heads."""
    schedule, total = Schedule(problem.rows, ranks, problem.shards, "gather", False), 0.0
    near, far, near_runs, far_runs = schedule.received(rank, 1, machine["host"])
    own, chunks = sum(schedule.count(c, c + 1) for c in schedule.own(rank)), len(schedule.own(rank))
    rows_of = (near, far, problem.o_row + problem.kv_row, 3)  # q has as many bytes as o
    results = (own * near_runs / chunks, own * far_runs / chunks, problem.o_row, 1)
    for inside, outside, row, tensors in (rows_of, results):
        latency = machine["network_latency"] if far_runs > 0 else machine["latency"]
        total += latency + 1e-3 * row / ranks * max(inside / machine["nvlink"], outside / machine["network"]) \
            + tensors * (near_runs + far_runs) * machine["overhead"]
    total += 2e-3 * own * (2 * problem.o_row + problem.kv_row) / machine["memory_gbps"]
    divided = Problem(problem.rows, (problem.heads[0] // ranks, problem.heads[1] // ranks), problem.head_dim, problem.causal,
                      problem.shards, problem.kernels)
    return total + kernel_us(divided, machine, problem.rows, 0 if problem.causal else problem.rows, problem.causal)


def way_us(problem, machine, ranks, way):
    """When the slowest rank is ready; of heads that cannot be divided, and keys that cannot arrive, it never is."""
    if (way == "heads" and problem.heads[1] % ranks != 0) or (way == "arrive" and not problem.can_arrive(ranks, machine["host"])):
        return math.inf
    if way == "heads" and ranks > 1:
        return max(heads_us(problem, machine, ranks, rank) for rank in looked_at(ranks))
    schedule = problem.schedule(ranks, way)
    looked = looked_at(ranks)
    senders = [0.0] + [max(exchange_us(problem, machine, schedule.sent(rank, step, machine["host"])) for rank in looked)
                       for step in range(1, schedule.steps + 1)]
    of_rank = arrive_us if way == "arrive" and ranks > 1 else rank_us
    return max(of_rank(problem, machine, schedule, rank, senders) for rank in looked)


def one_us(problem, machine):
    return way_us(problem, machine, 1, "gather")


# What a machine would be without one of its limits.
IDEAL = {"NVLink": {"nvlink": math.inf}, "network": {"network": math.inf},
         "latency": {"latency": 0.0, "network_latency": 0.0, "overhead": 0.0, "start": 0.0},
         "small kernels": {"floor": 0.0, "sms": 0}, "merges": {"merge": 0.0, "memory_gbps": math.inf}}


def bound_of(problem, machine, ranks, way, us):
    """The limit without which the time would be least, if that gains 5 % at least; otherwise the kernels' own speed."""
    least, name = min((way_us(problem, {**machine, **ideal}, ranks, way), name) for name, ideal in IDEAL.items())
    return name if least < 0.95 * us else "kernels"


def memory_gb(problem, ranks, way):
    """What the fullest of the ranks has of q, k, v, o and keys of others."""
    if way == "heads" and ranks > 1:
        shard = -(-problem.rows // ranks) + (problem.shards == "zigzag")
        return 1e-9 * (problem.kv_row + 2 * problem.o_row) * (shard + problem.rows / ranks)
    schedule = problem.schedule(ranks, way)

    def of_rank(rank):
        own = sum(schedule.count(c, c + 1) for c in schedule.own(rank))
        others = 0 if ranks == 1 else schedule.buffer_rows(rank) + (own if way == "arrive" else 0)  # which has rows at their places
        return 1e-9 * (own * (problem.kv_row + 2 * problem.o_row) + others * problem.kv_row)
    return max(map(of_rank, looked_at(ranks)))


def scale(problem, machine, counts, ways):
    """A row for each number of GPUs, and the least number where twice as many gain less than machine["stop"]."""
    rows, one = [], one_us(problem, machine)

    def best(ranks):
        return min((way_us(problem, machine, ranks, way), way) for way in ways)
    for ranks in counts:
        us, way = best(ranks)
        gb = memory_gb(problem, ranks, way)
        rows.append({"gpus": ranks, "way": way if ranks > 1 else "alone", "ms": 1e-3 * us, "speedup": one / us,
                     "efficiency": one / us / ranks, "bound": bound_of(problem, machine, ranks, way, us),
                     "gb": gb, "fits": gb <= machine["memory"]})
    stop, ranks = None, 1
    while stop is None and 2 * ranks <= min(MOST_RANKS, problem.rows // 2):
        if best(ranks)[0] < machine["stop"] * best(2 * ranks)[0]:
            stop = ranks
        ranks *= 2
    return rows, stop


# ---- what is printed ---------------------------------------------------------------------------------------------
def print_scale(problem, machine, rows, stop):
    print(f"\n{'causal' if problem.causal else 'full'}, {problem.rows} rows, {problem.heads[0]} query heads on "
          f"{problem.heads[1]}, head_dim {problem.head_dim}, {problem.shards}\n")
    print("| GPUs | way | ms | times one | efficiency | bound by | GB a GPU |\n|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['gpus']} | {row['way']} | {row['ms']:.3f} | {row['speedup']:.1f} | {row['efficiency']:.2f} | "
              f"{row['bound']} | {row['gb']:.1f}{'' if row['fits'] else ', does not fit'} |")
    print(f"\nfrom {stop} GPUs on, twice as many gain less than {machine['stop']:g} times" if stop else
          f"\nup to {min(MOST_RANKS, problem.rows // 2)} GPUs, twice as many gain {machine['stop']:g} times or more")


def check(path, machine, kernels):
    """Rows of a measured file beside what is simulated; returns them."""
    data, out = load_json(path), []
    try:
        if data["device"].get("emulated"):
            raise Bad(f"{path}: the driver was emulated: its times say nothing of a GPU")
        if data["gpus"] != data["ranks"]:
            raise Bad(f"{path}: its {data['ranks']} ranks share {data['gpus']} GPUs, which is not simulated")
        for row in data["prefill"]:
            problem = Problem(row["seqlen"], (data["heads_q"], data["heads_kv"]), row["head_dim"], row["causal"],
                              row["shards"], kernels or Kernels(path, row["head_dim"]))
            names = [("one GPU", row["one_ms"], one_us(problem, machine))]
            names += [(way, row[way + "_ms"], way_us(problem, machine, data["ranks"], way)) for way in WAYS
                      if way in BY_KEYS or way + "_ms" in row]
            for name, measured, us in names:
                out.append({"causal": row["causal"], "seqlen": row["seqlen"], "shards": row["shards"], "gpus": data["ranks"],
                            "what": name, "measured_ms": measured, "simulated_ms": 1e-3 * us,
                            "error": 1e-3 * us / measured - 1})
    except (AttributeError, KeyError, TypeError, ZeroDivisionError) as error:
        raise Bad(f"{path}: not what `ptxpack bench parallel --json` prints: {error!r}") from None
    if not out:
        raise Bad(f"{path}: it has no rows of prefill")
    return out


def print_check(rows):
    print("| mask | s | shards | GPUs | what | measured, ms | simulated, ms | error |\n|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {'causal' if row['causal'] else 'full'} | {row['seqlen']} | {row['shards']} | {row['gpus']} | {row['what']} | "
              f"{row['measured_ms']:.4f} | {row['simulated_ms']:.4f} | {100 * row['error']:+.1f} % |")
    print(f"\nlargest error {100 * max(abs(row['error']) for row in rows):.1f} %")


# ---- options -----------------------------------------------------------------------------------------------------
def whole_numbers(name, text, most):
    words = text.split(",")
    if not all(word.isdigit() and 1 <= int(word) <= most for word in words):
        raise Bad(f"{name}: \"{text}\" is not a list of whole numbers from 1 to {most}")
    return [int(word) for word in words]


LIMITS = {"nvlink": 370.0, "network": 50.0, "latency": 45.0, "network_latency": 50.0, "overhead": 0.5, "floor": 5.0,
          "memory_gbps": 4314.0, "memory": 141.0, "sms": 132, "host": 8, "stop": 1.3}
MAY_BE_ZERO = ("latency", "network_latency", "overhead", "floor")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Bad(message)


def read_options(words):
    parser = Parser(prog="simulation.py", description=__doc__.split("\n")[0], add_help=True)
    parser.add_argument("--seqlen", default="131072,1048576,16777216")
    parser.add_argument("--gpus", default="1,2,4,8,16,32,64,128,256,512,1024,2048,4096")
    parser.add_argument("--heads", default="32,8", help="query heads and key heads")
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--full", action="store_true", help="without a mask; otherwise causal")
    parser.add_argument("--shards", choices=("contiguous", "zigzag"), default="zigzag")
    parser.add_argument("--way", choices=("best",) + WAYS, default="best")
    parser.add_argument("--kernels", help="FILE of measured speeds (default: attention_h200.json; with --check its own)")
    parser.add_argument("--check", help="FILE: compare with measured rows")
    parser.add_argument("--json", action="store_true")
    for name, value in LIMITS.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    options = parser.parse_args(words)
    for name in LIMITS:
        value = getattr(options, name)
        if not (value > 0 or (value == 0 and name in MAY_BE_ZERO)):
            raise Bad(f"--{name.replace('_', '-')}: {value:g} is not above 0")
    if not 1 <= options.head_dim <= 1024:
        raise Bad(f"--head-dim: {options.head_dim} is not between 1 and 1024")
    return options


def machine_of(options):
    return {"merge": MERGE_US, "start": START_US, **{name: getattr(options, name) for name in LIMITS}}


def run(words):
    options = read_options(words)
    machine, out = machine_of(options), []
    if options.check:
        kernels = Kernels(options.kernels, options.head_dim) if options.kernels else None
        rows = check(options.check, machine, kernels)
        print(json.dumps({"check": rows}, indent=1)) if options.json else print_check(rows)
        return
    heads = whole_numbers("--heads", options.heads, 65536)
    if len(heads) != 2 or heads[0] % heads[1] != 0:
        raise Bad("--heads: give two numbers, of which the second divides the first")
    counts = whole_numbers("--gpus", options.gpus, MOST_RANKS)
    lengths = whole_numbers("--seqlen", options.seqlen, 2**31 - 1)
    for length in lengths:
        Schedule(length, max(counts), options.shards, "gather", True)  # refuses too few rows before anything is printed
    kernels = Kernels(options.kernels or FIGURES, options.head_dim)
    ways = WAYS if options.way == "best" else (options.way,)
    if options.way == "heads" and any(heads[1] % count != 0 for count in counts):
        raise Bad(f"--way: {heads[1]} key heads cannot be divided among all of {options.gpus} GPUs")
    if options.way == "arrive" and (options.full or max(counts) > options.host):
        raise Bad(f"--way: keys arrive during a launch under a causal mask, on the {options.host} GPUs of a host at most")
    if not options.json:
        print("Simulated, not measured; kernels at speeds measured on one GPU, links and overheads as assumed:\n" +
              ", ".join(f"{name.replace('_', '-')} {machine[name]:g}" for name in LIMITS))
    for length in lengths:
        problem = Problem(length, heads, options.head_dim, not options.full, options.shards, kernels)
        rows, stop = scale(problem, machine, counts, ways)
        out.append({"seqlen": length, "rows": rows, "stops_at": stop})
        if not options.json:
            print_scale(problem, machine, rows, stop)
    if options.json:
        print(json.dumps({"simulated": True, "machine": machine, "heads": heads, "head_dim": options.head_dim,
                          "causal": not options.full, "shards": options.shards, "results": out}, indent=1))


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except Bad as bad:
        print(f"simulation.py: {bad}", file=sys.stderr)
        sys.exit(2)

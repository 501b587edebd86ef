"""parallel_simulation.py - checks tools/bench/parallel/simulation.py, for parallel_simulation.sh.

Usage: parallel_simulation.py PTXPACK FOLDER; FOLDER has bench.json, of `ptxpack bench parallel` on two emulated GPUs.
"""
import importlib.util
import json
import math
import os
import subprocess
import sys

ptxpack, work = sys.argv[1:3]
script = os.path.join("tools", "bench", "parallel", "simulation.py")
spec = importlib.util.spec_from_file_location("simulation", script)
simulation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(simulation)
failed = ran = 0


def must(good, what):
    global failed, ran
    ran += 1
    if not good:
        failed += 1
        print(f"FAIL: {what}")


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9)


# ---- the schedule is what `ptxpack plan parallel` lists ----------------------------------------------------------
def listing(rows, ranks, shards, way, causal):
    words = [ptxpack, "plan", "parallel", "--arch", "sm_90a", "--seqlen-q", str(rows), "--ranks", str(ranks), "--shards", shards,
             "--way", way, "--heads-q", "4", "--heads-kv", "2", "--json"] + (["--causal"] if causal else [])
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)["ranks_do"]


def compare(rows, ranks, shards, way, causal, host):
    what = f"{rows} rows, {ranks} ranks, {shards}, {way}, {'causal' if causal else 'full'}"
    schedule = simulation.Schedule(rows, ranks, shards, way, causal)
    listed = listing(rows, ranks, shards, way, causal)
    steps = range(1, schedule.steps + 1)
    received = {(rank, step): [0, 0, 0, 0] for rank in range(ranks) for step in steps}
    sent = {key: [0, 0, 0, 0] for key in received}
    for one in listed:
        for copy in one["copies"]:
            if copy["rank"] == one["rank"]:  # within the GPU
                continue
            other = copy["rank"] // host != one["rank"] // host
            for volume in (received[one["rank"], copy["step"]], sent[copy["rank"], copy["step"]]):
                volume[other] += copy["rows"]
                volume[2 + other] += 1
        parts = [(part["step"], part["rows"], part["keys"]) for part in one["parts"]]
        if ranks == 1:
            parts = [(0, own, keys) for _, own, keys in parts]
        must([(step, own, keys + own * square) for step, _, own, keys, square in schedule.parts(one["rank"])] == parts,
             f"{what}: the parts of rank {one['rank']} are {parts}, not {schedule.parts(one['rank'])}")
        must(ranks == 1 or schedule.buffer_rows(one["rank"]) == one["buffer_rows"],
             f"{what}: rank {one['rank']} has {one['buffer_rows']} rows in its buffer")
    for rank, step in received:
        for name, volume in (("received", received), ("sent", sent)):
            ours = getattr(schedule, name)(rank, step, host)
            must(ours == tuple(volume[rank, step]), f"{what}: rank {rank}, step {step}: {name} {volume[rank, step]}, not {ours}")


for shape in ((1001, 4), (64, 1), (4096, 7), (777, 8), (8, 4), (900, 13)):
    for shards in ("contiguous", "zigzag"):
        for way in simulation.BY_KEYS:
            for causal in (False, True):
                compare(*shape, shards, way, causal, 3)

# ---- limits ------------------------------------------------------------------------------------------------------
machine = {**simulation.machine_of(simulation.read_options([]))}
kernels = simulation.Kernels(simulation.FIGURES, 128)


def problem(rows=65536, causal=True, shards="zigzag", heads=(32, 8)):
    return simulation.Problem(rows, heads, 128, causal, shards, kernels)


class Constant:
    def tflops(self, causal, length):
        return 500.0


for causal in (False, True):
    for length, speed in kernels.points[causal].items():
        want = 1e-6 * simulation.flops(length, 32, 128, causal) / speed
        must(near(simulation.one_us(problem(length, causal), {**machine, **simulation.IDEAL["small kernels"]}), want),
             f"one GPU does not take the measured time at {length} rows")
    must(kernels.tflops(causal, 6000) > min(kernels.tflops(causal, 4096), kernels.tflops(causal, 8192)) - 1e-9 and
         kernels.tflops(causal, 1 << 24) == kernels.tflops(causal, 16384), "speeds are not interpolated, and those of the ends")

ideal = dict(machine)
for limit in simulation.IDEAL.values():
    ideal.update(limit)
for ranks in (2, 8, 64, 512):
    for way in simulation.WAYS if ranks <= 8 else simulation.BY_KEYS:
        for causal, shards in ((True, "zigzag"), (False, "zigzag"), (False, "contiguous")):
            perfect = problem(causal=causal, shards=shards)
            if way == "arrive" and not causal:
                must(simulation.way_us(perfect, ideal, ranks, way) == math.inf, "keys arrive without a mask")
                continue
            perfect.kernels = Constant()
            us = simulation.way_us(perfect, ideal, ranks, way)
            must(near(us * ranks, simulation.one_us(perfect, ideal)), f"{ranks} ideal GPUs, {way}, {shards}: {us} us")
uneven = problem(shards="contiguous")
uneven.kernels = Constant()
chunk = 65536 // 8
last = (7 * chunk * chunk + chunk * (chunk + 1) / 2) / (65536 * 65537 / 2)
must(near(simulation.way_us(uneven, ideal, 8, "gather"), last * simulation.one_us(uneven, ideal)),
     "contiguous and causal: the last rank's share of the work")

for name in ("nvlink", "network"):
    for way in simulation.WAYS if name == "nvlink" else simulation.WAYS[:-1]:  # of `arrive` all GPUs are in a host
        ranks = 8 if way == "arrive" else 64
        times = [simulation.way_us(problem(heads=(64, 64)), {**machine, name: speed}, ranks, way)
                 for speed in (5, 10, 50, 400, math.inf)]
        must(times == sorted(times, reverse=True) and times[0] > times[-1], f"{name}, {way}: not monotonic: {times}")
bytes_only = {**ideal, "nvlink": 100.0}
arrive = 4096 * 65536 * 7 / 8 * 1e-3 / 100.0
full = problem(causal=False)
must(near(simulation.way_us(full, bytes_only, 8, "gather") - simulation.way_us(full, ideal, 8, "gather"), arrive),
     "gathering takes what its bytes take")
slow = {**ideal, "nvlink": 1.0, "start": 10.0}
must(near(simulation.way_us(problem(), slow, 8, "arrive") - 10.0, 100.0 * arrive) and
     near(simulation.way_us(problem(), {**ideal, "start": 10.0}, 8, "arrive") - 10.0, simulation.way_us(problem(), ideal, 8, "gather")),
     "a launch ends when its keys have come, or when it has computed")
must(simulation.way_us(problem(), machine, 16, "arrive") == math.inf and
     simulation.way_us(problem(65536 + 128), machine, 8, "arrive") == math.inf, "keys that cannot arrive")
must(near(simulation.memory_gb(problem(), 8, "arrive") - simulation.memory_gb(problem(), 8, "gather"), 1e-9 * 4096 * 65536 / 8),
     "there is room for a rank's own keys, too")
must(simulation.way_us(problem(heads=(32, 32)), bytes_only, 8, "gather") > simulation.way_us(problem(), bytes_only, 8, "gather"),
     "more key heads are more bytes")
# Of q, k and v a rank receives 7/8 of the rows of 1/8 of the heads, and of o 1/8 of its rows from 7 others: 32 + 16 + 32 heads.
must(near(simulation.way_us(uneven, bytes_only, 8, "heads") - simulation.way_us(uneven, ideal, 8, "heads"),
          (32 + 16 + 32) * 256 * 65536 / 8 * 7 / 8 * 1e-3 / 100.0), "heads take what their bytes take")
must(simulation.way_us(problem(), machine, 3, "heads") == math.inf and
     near(simulation.memory_gb(full, 8, "heads"), 1e-9 * 80 * 256 * 2 * (65536 / 8 + 0.5)), "heads that cannot be divided; memory")
rows, stop = simulation.scale(problem(), machine, [1, 2, 64], simulation.WAYS)
must([row["gpus"] for row in rows] == [1, 2, 64] and near(rows[0]["efficiency"], 1) and rows[2]["bound"] == "network" and
     stop is not None, f"rows of GPUs: {rows}, {stop}")


def best(ranks):
    return min(simulation.way_us(problem(), machine, ranks, way) for way in simulation.WAYS)


must(best(stop) < 1.3 * best(2 * stop) and (stop == 1 or best(stop // 2) >= 1.3 * best(stop)), f"it does not stop at {stop}")


# ---- files, and what is refused ----------------------------------------------------------------------------------
def say(*words):
    done = subprocess.run([sys.executable, script, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return done.returncode, done.stdout, done.stderr


def refused(part, *words):
    status, out, err = say(*words)
    must(status == 2 and out == "" and err.count("\n") == 1 and part in err, f"{words}: status {status}: {out}{err}")


def write(name, value):
    path = os.path.join(work, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return path


with open(os.path.join(work, "bench.json"), encoding="utf-8") as source:
    bench = json.load(source)
refused("emulated", "--check", os.path.join(work, "bench.json"))
refused("emulated", "--kernels", os.path.join(work, "bench.json"), "--head-dim", "64")
bench["device"]["emulated"] = False
status, text, errors = say("--check", write("real.json", bench), "--json", "--floor", "0")
must(status == 0, f"what the benchmark prints is not read: {errors}")
checked = json.loads(text)["check"] if status == 0 else []
must([row["what"] for row in checked] == ["one GPU", "gather", "steps"] * 2, f"rows of the check: {checked}")
for row in checked:
    must(near(row["error"], row["simulated_ms"] / row["measured_ms"] - 1), f"the error of {row}")
measured = bench["prefill"][0]
measured.update(seqlen=16384, one_ms=3.0)
bench["prefill"] = [measured]
own = simulation.Kernels(write("one.json", bench), 64)
measured["steps_ms"] = 2e-3 * simulation.way_us(simulation.Problem(16384, (2, 1), 64, True, measured["shards"], own), machine, 2, "steps")
status, text, errors = say("--check", write("twice.json", bench))
must(status == 0 and "| 3.0000 | 3.0000 | +0.0 % |" in text and "| -50.0 % |" in text, f"{text}{errors}")
refused("share", "--check", write("shared.json", {**bench, "gpus": 1}))
refused("no rows", "--check", write("empty.json", {**bench, "prefill": []}))
refused("not what", "--check", simulation.FIGURES)
refused("not JSON", "--kernels", write("text.json", "{"))
refused("no table", "--kernels", write("list.json", []))
refused("no speeds", "--head-dim", "100")
refused("not above 0", "--kernels", write("zero.json", {"rows": [{"d": 128, "causal": True, "s": 512, "ptxpack": 0}]}))
refused("No such file", "--kernels", os.path.join(work, "nothing"))
refused("--seqlen", "--seqlen", "0")
refused("fewer", "--seqlen", "100", "--gpus", "1,64")
refused("--gpus", "--gpus", "1,x")
refused("--gpus", "--gpus", "8192")
refused("--heads", "--heads", "32,5")
refused("--nvlink", "--nvlink", "nan")
refused("--nvlink", "--nvlink", "fast")
refused("--way", "--way", "ring")
refused("--way: 8 key heads cannot be divided", "--way", "heads", "--gpus", "2,3")
refused("--way: keys arrive", "--way", "arrive", "--gpus", "2,16")
refused("--way: keys arrive", "--way", "arrive", "--gpus", "2", "--full")
status, text, errors = say("--seqlen", "65536", "--gpus", "1,8", "--way", "arrive")
must(status == 0 and "\n| 8 | arrive | " in text, f"keys arrive within a host: {text}{errors}")
status, text, errors = say("--seqlen", "65536", "--gpus", "1,8", "--shards", "contiguous")
must(status == 0 and "\n| 8 | heads | " in text, f"contiguous shards are better divided by heads: {text}{errors}")
status, text, errors = say("--seqlen", "65536", "--gpus", "1,16", "--json")
must(status == 0 and json.loads(text)["simulated"] is True, f"JSON: {errors}")
status, text, errors = say("--seqlen", "65536", "--gpus", "1,16", "--full", "--shards", "contiguous", "--way", "gather")
must(status == 0 and text.startswith("Simulated, not measured") and "\n| 16 | gather | " in text, f"the table: {text}{errors}")

print(f"{ran} checks, {failed} failed")
sys.exit(failed > 0)

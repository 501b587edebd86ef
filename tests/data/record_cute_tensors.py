#!/usr/bin/env python3
"""record_cute_tensors.py - records what CuTe prints of tensors, for tests/tools/cute_tensors.sh.

    python3 tests/data/record_cute_tensors.py CUTLASS/include:LIBCU++ [SEED [CASES]] >tests/data/cute_tensors.txt

Draws expressions, writes a C++ program that prints each of them through CuTe, compiles it for the host and runs it.  An
expression is spelled as both ptxpack and C++ understand it; only addresses need a cast in C++.  Memory is mapped at the
addresses that the expressions name and holds 0, 1, 2, ...  Of static integers CuTe prints an underscore, which is removed.
Cases that CuTe does not compile are dropped.  Coordinates in swizzled tensors are static, because with dynamic ones CuTe
prints another form of the same function.  The recorded text is of seed 2027, 480 cases, CUTLASS 4.7."""
import os
import random
import re
import subprocess
import sys
import tempfile

BASE = 0x10000000
TYPES = ["int", "float", "double", "half_t", "bfloat16_t", "tfloat32_t", "float_e4m3_t", "float_e5m2_t", "int64_t",
         "uint64_t", "uint32_t", "int16_t", "uint16_t", "int8_t", "uint8_t"]
SUBBYTE = ["int4b_t", "uint4b_t", "int2b_t", "uint2b_t"]


class Draw:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.bytes = 0

    def pick(self, *items):
        return self.r.choice(items)

    # ---- layouts: a shape is an int or a list; strides alike ------------------------------------
    def shape(self, rank, nested=0.2):
        modes = []
        for _ in range(rank):
            if self.r.random() < nested:
                modes.append([self.pick(2, 2, 3, 4), self.pick(1, 2, 2, 4)])
            else:
                modes.append(self.pick(1, 2, 3, 4, 4, 6, 8, 8))
        return modes

    @staticmethod
    def leaves(t):
        return [t] if isinstance(t, int) else [x for m in t for x in Draw.leaves(m)]

    def like(self, t, values):
        return values.pop(0) if isinstance(t, int) else [self.like(m, values) for m in t]

    def strides(self, shape, pad=True):
        extents = self.leaves(shape)
        order = list(range(len(extents)))
        kind = self.pick("col", "col", "row", "any", "pad")
        if kind == "row":
            order.reverse()
        elif kind != "col":
            self.r.shuffle(order)
        step, out = 1, [0] * len(extents)
        for i in order:
            out[i] = step if extents[i] > 1 else 0
            step *= extents[i]
            if kind == "pad" and pad:
                step += self.pick(0, 0, 1, 4)
        if pad and self.r.random() < 0.1:
            out[self.r.randrange(len(out))] = 0
        return self.like(shape, out)

    def static(self, t, name="Shape"):
        return f"_{t}" if isinstance(t, int) and t <= 256 and (t & (t - 1)) == 0 and t > 0 else \
            f"Int<{t}>" if isinstance(t, int) else f"{name}<{','.join(self.static(m, name) for m in t)}>"

    def dynamic(self, t, call):
        return str(t) if isinstance(t, int) else f"{call}({','.join(self.dynamic(m, call) for m in t)})"

    def layout(self, shape, stride=None, dynamic=False):
        stride = stride if stride is not None else self.strides(shape)
        if dynamic:
            return f"make_layout({self.dynamic(shape, 'make_shape')},{self.dynamic(stride, 'make_stride')})"
        return f"Layout<{self.static(shape)},{self.static(stride, 'Stride')}>{{}}"

    def engine(self, types=TYPES):
        kind = self.pick("gmem", "smem", "raw", "counting", "gmem")
        if kind == "counting":
            return f"counting_iterator<int>{{{self.r.randrange(-3, 40)}}}"
        address = BASE + 64 * self.r.randrange(64)
        name = {"gmem": "make_gmem_ptr", "smem": "make_smem_ptr", "raw": "recast_ptr"}[kind]
        return f"{name}<{self.pick(*types)}>(0x{address:x})"

    def tensor(self, shape, dynamic=False, types=TYPES):
        return f"make_tensor({self.engine(types)},{self.layout(shape, dynamic=dynamic)})"

    def coord(self, shape, keep, static=False):
        """Integers and `_`; Int<> where CuTe's result depends on what it knows at compile time."""
        def at(size):
            number = self.r.randrange(size)
            return f"Int<{number}>{{}}" if static else str(number)
        out = []
        for m, k in zip(shape, keep):
            size = 1
            for e in self.leaves(m):
                size *= e
            nested = isinstance(m, list) and self.r.random() < 0.4
            if nested:
                out.append("make_coord(" + ",".join(self.pick("_", at(e)) if k else at(e) for e in m) + ")")
            else:
                out.append("_" if k else at(size))
        return out

    # ---- the kinds of cases -------------------------------------------------------------------
    def whole(self):
        return self.tensor(self.shape(self.pick(1, 2, 2, 3, 4)), dynamic=self.r.random() < 0.3)

    def subbyte(self):
        return self.tensor([self.pick(2, 4, 8), self.pick(2, 4, 8)], types=SUBBYTE)

    def sliced(self, tensor=None):
        shape = self.shape(self.pick(2, 2, 3, 3, 4))
        keep = [self.r.random() < 0.5 for _ in shape]
        keep[self.r.randrange(len(keep))] = True
        tensor = tensor(shape) if tensor else self.tensor(shape)
        return f"{tensor}({','.join(self.coord(shape, keep))})"

    def tiling(self, rank):
        tile = [self.pick(2, 2, 3, 4, 1) for _ in range(rank)]
        rest = [self.pick(1, 2, 2, 3, 4) for _ in range(rank)]
        return tile, rest, [t * r for t, r in zip(tile, rest)]

    def tile(self, tensor=None):
        rank = self.pick(1, 2, 2, 2, 3)
        tile, rest, shape = self.tiling(rank)
        at = [self.pick("_", str(self.r.randrange(n)), str(self.r.randrange(n))) for n in rest]
        tensor = tensor(shape) if tensor else self.tensor(shape)
        tiler = self.pick(f"{self.static(tile)}{{}}", "make_tile(" + ",".join(f"Int<{t}>{{}}" for t in tile) + ")")
        if rank == 1:
            return f"local_tile({tensor},{tiler},make_coord({at[0]}))"
        return f"local_tile({tensor},{tiler},make_coord({','.join(at)}))"

    def projected_tile(self):
        tile, rest, shape = self.tiling(3)
        steps = self.pick(("_1", "X", "_1"), ("X", "_1", "_1"), ("_1", "_1", "X"))
        used = [i for i in range(3) if steps[i] != "X"]
        at = [self.pick("_", str(self.r.randrange(n))) for n in rest]
        tensor = self.tensor([shape[i] for i in used])
        return (f"local_tile({tensor},{self.static(tile)}{{}},make_coord({','.join(at)}),"
                f"Step<{','.join(steps)}>{{}})")

    def layout_tile(self):
        """Tiles that are layouts, or fewer than the tensor has modes."""
        tile, rest, shape = self.tiling(3)
        tensor = self.tensor(shape)
        if self.r.random() < 0.5:
            at = [self.pick("_", str(self.r.randrange(n))) for n in rest[:2]]
            return f"local_tile({tensor},{self.static(tile[:2])}{{}},make_coord({','.join(at)}))"
        tiler = [f"Layout<_{t},_{r}>{{}}" if t in (1, 2, 4) and r in (1, 2, 4) else f"Int<{t}>{{}}"
                 for t, r in zip(tile, rest)]
        return f"zipped_divide({tensor},make_tile({','.join(tiler)}))"

    def chained(self):
        """A part of a part: a thread's of a block's tile, a slice of either, a slice of a slice."""
        threads = [2, self.pick(2, 4)]
        tile = [threads[0] * self.pick(1, 2), threads[1] * self.pick(1, 2, 3)]
        rest = [self.pick(2, 3), self.pick(2, 4)]
        shape = [t * r for t, r in zip(tile, rest)]
        tensor = self.pick(self.tensor, lambda s: f"make_identity_tensor({self.static(s)}{{}})")(shape)
        at = [str(self.r.randrange(n)) for n in rest]
        block = f"local_tile({tensor},{self.static(tile)}{{}},make_coord({at[0]},{self.pick('_', at[1])}))"
        if "_))" in block:
            return f"{block}({self.pick('_,_,1', '_,1,_', '0,_,1', '_,_,0')})"
        layout = self.layout(threads, self.pick([1, threads[0]], [threads[1], 1]))
        part = f"local_partition({block},{layout},{self.r.randrange(threads[0] * threads[1])})"
        return self.pick(part, part, f"{part}(0,_)", f"{part}(_,0)", f"{block}(1,_)", block)

    def nested_tile(self):
        """Tiles of a mode that is a tuple itself."""
        inner = [2, self.pick(2, 4)]
        shape = [[inner[0], inner[1] * self.pick(1, 2)], self.pick(4, 6)]
        tile = [inner[0] * self.pick(1, inner[1]), 2]
        at = [self.pick("_", "0"), self.pick("_", "1")]
        return f"local_tile({self.tensor(shape)},{self.static(tile)}{{}},make_coord({','.join(at)}))"

    def projected_partition(self):
        tile, rest, shape = self.tiling(3)
        steps = self.pick(("_1", "X", "_1"), ("X", "_1", "_1"), ("_1", "_1", "X"))
        used = [i for i in range(3) if steps[i] != "X"]
        index = self.r.randrange(tile[0] * tile[1] * tile[2])
        return (f"local_partition({self.tensor([shape[i] for i in used])},Layout<{self.static(tile)}>{{}},{index},"
                f"Step<{','.join(steps)}>{{}})")

    def nested_partition(self):
        threads = [[2, self.pick(2, 4)], self.pick(2, 4)]
        shape = [threads[0][0] * threads[0][1] * self.pick(1, 2, 3), threads[1] * self.pick(1, 2)]
        index = self.r.randrange(threads[0][0] * threads[0][1] * threads[1])
        stride = self.strides(threads, pad=False)
        return f"local_partition({self.tensor(shape)},{self.layout(threads, stride)},{index})"

    def partition(self, tensor=None):
        tile, rest, shape = self.tiling(2)
        threads = self.layout(tile, self.pick([1, tile[0]], [tile[1], 1]))
        index = self.r.randrange(tile[0] * tile[1])
        tensor = tensor(shape) if tensor else self.tensor(shape)
        return f"local_partition({tensor},{threads},{index})"

    def cut(self):
        tile, rest, shape = self.tiling(2)
        call = self.pick("inner_partition", "outer_partition")
        at = [self.r.randrange(n) for n in (rest if call[0] == "i" else tile)]
        return f"{call}({self.tensor(shape)},{self.static(tile)}{{}},make_coord({at[0]},{at[1]}))"

    def identity(self):
        def make(shape):
            return f"make_identity_tensor({self.static(shape)}{{}})"
        kind = self.r.randrange(5)
        if kind == 0:
            return make(self.shape(self.pick(1, 2, 2, 3, 4), nested=0.3))
        if kind == 1:
            return f"make_coord_tensor(make_identity_layout({self.static(self.shape(2))}{{}}))"
        return [self.sliced, self.tile, self.partition][kind - 2](make)

    def swizzle(self):
        return self.pick((1, 0, 1), (2, 0, 2), (2, 0, 3), (3, 0, 3), (2, 1, 3), (1, 2, 2), (2, 0, -2))

    def swizzled_tensor(self, shape):
        b, m, s = self.swizzle()
        inner = self.layout(shape, self.strides(shape, pad=False))
        return f"make_tensor({self.engine()},composition(Swizzle<{b},{m},{s}>{{}},Int<0>{{}},{inner}))"

    def powers(self):
        return [self.pick(2, 4, 8, 8), self.pick(2, 4, 8, 8)]

    def swizzled(self):
        shape = self.powers()
        tensor = self.swizzled_tensor(shape)
        kind = self.r.randrange(5)
        if kind == 0:
            return tensor
        if kind == 1:
            return f"{tensor}({','.join(self.coord(shape, self.pick((True, False), (False, True)), static=True))})"
        if kind == 2:
            at = self.coord([shape[0] // 2, shape[1] // 2], (False, False), static=True)
            return f"local_tile({tensor},Shape<_2,_2>{{}},make_coord({','.join(at)}))"
        if kind == 3:
            return f"local_partition({tensor},Layout<Shape<_2,_2>>{{}},Int<{self.r.randrange(4)}>{{}})"
        return f"domain_offset(make_coord({','.join(self.coord([2, 2], (False, False), static=True))}),{tensor})"

    def swizzle_pointer(self):
        b, m, s = self.pick((3, 4, 3), (2, 4, 3), (1, 4, 3), (2, 3, 3))
        shape = [self.pick(2, 4, 8), self.pick(16, 32)]
        kind = self.pick("half_t", "float", "uint8_t")
        tensor = (f"make_tensor(make_smem_ptr(recast_ptr<{kind}>(0x{BASE:x}),Swizzle<{b},{m},{s}>{{}}),"
                  f"{self.layout(shape, [shape[1], 1])})")
        if self.r.random() < 0.4:
            return f"{tensor}({self.r.randrange(shape[0])},_)"
        return self.pick(tensor, f"as_position_independent_swizzle_tensor({tensor})")

    def recast(self):
        old, new = self.pick(("int", "int16_t"), ("int16_t", "int"), ("uint8_t", "uint32_t"), ("uint32_t", "uint8_t"),
                             ("half_t", "uint16_t"), ("float", "uint32_t"), ("uint16_t", "uint64_t"),
                             ("int8_t", "int4b_t"), ("uint8_t", "uint2b_t"), ("half_t", "uint32_t"))
        shape = [self.pick(8, 16), self.pick(2, 4)]
        stride = self.pick([1, shape[0]], [1, shape[0] * 2])
        return f"recast<{new}>(make_tensor(make_gmem_ptr<{old}>(0x{BASE:x}),{self.layout(shape, stride)}))"

    def view(self):
        shape = self.shape(self.pick(2, 3, 3), nested=0.4)
        tensor = self.tensor(shape)
        tile, rest, whole = self.tiling(2)
        divided = self.tensor(whole)
        return self.pick(f"flatten({tensor})", f"coalesce({tensor})", f"group_modes<0,2>({tensor})",
                         f"take<0,2>({tensor})", f"filter_zeros({tensor})", f"{tensor}.compose(Int<2>{{}})",
                         f"zipped_divide({divided},{self.static(tile)}{{}})",
                         f"logical_divide({divided},{self.static(tile)}{{}})",
                         f"tiled_divide({divided},{self.static(tile)}{{}})",
                         f"flat_divide({divided},{self.static(tile)}{{}})")

    def moved(self):
        shape = self.shape(2, nested=0)
        return f"domain_offset(make_coord({self.r.randrange(4)},{self.r.randrange(4)}),{self.tensor(shape)})"

    def case(self):
        kinds = [self.whole] * 6 + [self.sliced] * 5 + [self.tile] * 5 + [self.projected_tile] * 2 + \
            [self.partition] * 4 + [self.cut] * 2 + [self.identity] * 5 + [self.swizzled] * 5 + \
            [self.swizzle_pointer] * 2 + [self.recast] * 3 + [self.view] * 4 + [self.moved] + [self.subbyte] + [self.layout_tile] * 3 + \
            [self.projected_partition] * 2 + [self.chained] * 6 + [self.nested_tile] * 2 + [self.nested_partition] * 2
        expression = self.pick(*kinds)()
        return f"{self.pick('print_tensor', 'print_tensor', 'print_tensor', 'print')}({expression})"


PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <cute/tensor.hpp>
using namespace cute;
template <class T> void fill(uintptr_t at) {
  memset((void *)0x%x, 0, 1 << 20);
  auto p = recast_ptr<T>((void *)at);
  for (int i = 0; i < 4096; ++i)
    if constexpr (is_same_v<T, bfloat16_t>) p[i] = T(float(i));  // of an int it would be cut, not rounded
    else p[i] = T(i);
}
static void flush(char *text) {
  std::string out;
  for (const char *p = text; *p; ++p)
    if (!(*p == '_' && ((p[1] >= '0' && p[1] <= '9') || p[1] == '-') && (p == text || !isalnum((unsigned char)p[-1])))) out += *p;
  if (out.empty() || out.back() != '\n') out += '\n';
  fputs(out.c_str(), stderr);
}
int main() {
  if (mmap((void *)0x%x, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return 1;
  char *text; size_t bytes;
%s
  return 0;
}
"""


def program(cases):
    lines = []
    for number, case in cases:
        code = re.sub(r"(_ptr<\w+>)\((0x[0-9a-f]+)\)", r"\1((void*)\2)", case)
        memory = re.search(r"_ptr<(\w+)>\((0x[0-9a-f]+)\)", case)
        fill = f"fill<{memory.group(1)}>({memory.group(2)});" if memory else ""
        quoted = case.replace('"', '\\"')
        lines.append(f'  fputs("> {quoted}\\n", stderr); {fill} stdout = open_memstream(&text, &bytes); {code}; '
                     f"fclose(stdout); flush(text); /*case {number}*/")
    return PROGRAM % (BASE, BASE, "\n".join(lines))


def record(include, cases, folder):
    """The printed text of the cases; those that do not compile are dropped."""
    source, binary = os.path.join(folder, "draw.cpp"), os.path.join(folder, "draw")
    while cases:
        with open(source, "w") as f:
            f.write(program(cases))
        done = subprocess.run(["g++", "-std=c++17", "-O0", "-w", "-DNDEBUG", "-fmax-errors=0", *("-I" + i for i in include.split(":")), source, "-o", binary],
                              capture_output=True, text=True)
        if done.returncode == 0:
            break
        first = program(cases).split("\n").index(next(l for l in program(cases).split("\n") if "/*case" in l)) + 1
        wrong = {int(n) - first for n in re.findall(r"draw\.cpp:(\d+):", done.stderr)}
        left = [c for i, c in enumerate(cases) if i not in wrong]
        if len(left) == len(cases):
            sys.exit(done.stderr[:4000])
        print(f"{len(cases) - len(left)} cases do not compile: " + "; ".join(c for i, (n, c) in enumerate(cases) if i in wrong),
              file=sys.stderr)
        cases = left
    if not cases:
        return ""
    return subprocess.run([binary], capture_output=True, text=True, check=True).stderr


def main():
    include = sys.argv[1]
    draw = Draw(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 320
    cases, seen = [], set()
    while len(cases) < count:
        case = draw.case()
        if case not in seen:
            seen.add(case)
            cases.append((len(cases), case))
    with tempfile.TemporaryDirectory() as folder:
        for begin in range(0, count, 40):
            sys.stdout.write(record(include, cases[begin:begin + 40], folder))
            sys.stdout.flush()


if __name__ == "__main__":
    main()

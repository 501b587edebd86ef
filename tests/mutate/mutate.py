"""mutate.py - breaks the pack's kernels on purpose, one thing at a time: the checks on the emulated driver must notice.

Each mutant is a copy of the .ptx files with one line dropped, or with one constant, comparison, operator, operand,
predicate or index changed (mutants.py).  `ptxpack-check` runs it in steps: a step is a few cases of one kernel on one
architecture.  The steps that noticed most in the least time come first.  At the end all cases of the kernel run on those
that survived the small steps.
A mutant is noticed when the text does not assemble, a case fails, the judge finds something, or the program does not
end in time.  A survivor passes every case: it shows a case that is missing, or it is equal to the original; a file of
equal/ says why, and such mutants are not run.

Mutants of host files (C) are built in a copy of the sources; those that gcc refuses are not counted.
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import mutants

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# With one multiprocessor a block computes all tiles.
WGMMA = [(90, 'attention_wgmma', case, setting) for case, setting in (
    ('attention f16 d64 4/2 113x203 equal', ''), ('attention e4m3 d64 4/2 113x203 normal', 'SMS=1'),
    ('attention bf16 d64 4/2 113x203 normal', 'SMS=1'), ('attention f16 d128 2/1 113x203 normal', ''),
    ('attention e4m3 d128 2/1 113x203 normal', ''), ('d64 4/2 113x203 climbing', 'SMS=1'), ('bf16 d128 2/1 113x203 climbing', ''),
    ('attention bf16 d64 4/2 113x203 overflowing', 'SMS=1'), ('attention f16 d64 4/2 113x203 huge', ''),
    ('attention bf16 d64 4/2 113x203 huge', ''),
    ('blocks d128 bf16', ''), ('blocks d64 f16 2/1', ''), ('lengths d576 v512 in keys f16', ''), ('lengths d576 v512 in keys bf16', 'SMS=3'), ('lengths d512 bf16 4/2', ''),
    ('lengths d64 f16 2/1', 'SMS=1'), ('lengths d128 f16', ''), ('lengths d64 bf16', 'SMS=3'),
    ('attention f16 d64 4/2 239x1', 'SMS=1'), ('attention f16 d40 2/1 239x1', ''), ('attention f16 d128 2/1 799x3', ''),
    ('attention bf16 d256 2/1 113x203', ''), ('attention f16 d112 2/1 113x203', ''), ('attention bf16 d64 4/2 256x512', ''),
    ('attention ', ''), ('lengths ', ''))]
MMA = [(sm, 'attention_mma', case, '') for sm, case in (
    (80, 'attention f16 d64 4/2 113x203 equal'), (75, 'attention f16 d64 4/2 113x203 normal'),
    (80, 'attention bf16 d64 4/2 113x203 normal'), (80, 'attention f16 d192 2/1 113x203'), (80, 'attention f16 d112 2/1 113x203'),
    (80, 'attention f16 d40 2/1 239x1'),
    (80, 'attention f16 d64 4/2 113x203 climbing'), (80, ' d64 4/2 113x203 huge'), (80, 'attention f16 d128 2/1 113x203 normal'),
    (80, 'attention f16 d64 4/2 256x512'), (80, 'lengths d64 f16 2/1'), (75, 'lengths d64 f16 2/1'), (75, 'attention '),
    (80, 'attention '), (80, 'lengths '))]
# With 24 multiprocessors tiles have more parts than are merged at once.
DECODE = [(80, 'attention_decode', case, setting) for case, setting in (
    ('attention f16 d64 4/2 1x1328 rising', 'SMS=24'), ('attention f16 d64 4/2 4x700', ''), ('attention bf16 d64 4/2 1x1328', ''),
    ('attention f16 d256 2/1 4x700', ''), ('attention f16 d112 2/1 4x700', ''), ('f16 d64 12/6 7x90', ''),
    ('f16 d64 10/5 7x300', ''), ('lengths d64 f16 8/2', ''), ('lengths d64 f16 32/8', ''), ('17x330', ''),
    ('lengths d112 f16', ''), ('lengths d64 bf16', ''), ('hooks d64 f16 8/2 5x1x700 lengths', ''), ('bias d64 f16 8/2 5x1x700', ''),
    ('lengths d64 v128 f16 8/2 4x3x150 both lengths', ''), ('bytes d112', ''), ('bytes d64 f16 int8 8/2', ''), ('bytes d64 f16 q8_0', ''), ('split equal', ''),
    ('attention ', ''), ('lengths ', ''))] + [(90, 'attention_decode_sm90', case, setting) for case, setting in (('d128 2/1 17x330', 'SMS=24'), ('1x6x170', 'SMS=48'))]
GEMM_MMA = [(sm, 'gemm_mma', case, '') for sm, case in (
    (75, 'x5x7'), (80, 'x40x0'), (75, 'gemm f16 rc 150x300x203 batch 2 plain'), (80, 'gemm bf16 rr 129'),
    (80, 'gemm bf16 cr 129'), (80, 'gemm f16 cc 150x300x203 batch 2 c-bias-gelu'), (75, 'gemm '), (80, 'gemm '))]
GEMM_WGMMA = [(90, 'gemm_wgmma', case, '') for case in (
    'gemm bf16 rr 3x5x7', 'gemm f16 rc 129', 'x40x0', '260x264', 'gemm bf16 cr 129', 'gemm f16 cc 3x5x7',
    'gemm bf16 rr 150x300x203 batch 2 c-in-place', 'gemm f16 rc 150x300x203 batch 2 alpha-c', 'gemm ')]
GEMM_FP8 = [(90, 'gemm_wgmma_sm90_fp8', 'e4m3-' + case, '') for case in (
    'tensor rc 147', 'lines rc 147', 'blocks rc 147', 'blocks rc 260', 'blocks rc 9x48', '')]
GROUPS_MMA = [(sm, 'gemm_mma', 'gemm groups ' + case, '') for sm, case in (
    (80, 'mixed'), (75, 'ragged'), (80, 'many'), (75, ''), (80, ''))]
GROUPS_WGMMA = [(90, 'gemm_wgmma_sm90_groups', 'gemm groups ' + case, '') for case in ('mixed', 'many', 'swiglu', '')]
ROWS = [(80, 'gemm_rows_sm80', case, '') for case in ('rc 9x48', 'rc 1x304x200', '64x80x1096', 'rc 5x208', 'gemm ')]
ROWS_TMA = [(90, 'gemm_rows_tma', case, '') for case in ('rc 5x208', 'rc 1x80', '27x104', 'gemm ')]
ROWS_E4M3 = [(90, 'gemm_rows_e4m3', case, '') for case in ('rc 3x72', 'rc 6x272', 'rc 1x208', '14x72', 'gemm ')]
ROWS_NORM = [(90, 'gemm_rows_norm', case, '') for case in ('norm rc 6x272', 'norm rc 1x208', '29x208', 'gemm ')]
ROWS_GROUPS = [(80, 'groups_', 'gemm groups e4m3-' + case, '') for case in ('blocks', 'swiglu', '')]
CHAIN_OF_ROWS = [(90, '', 'test emu-rows-gemm_rows', '')]
WAITS = [(90, '', 'test emu-rows-waits', '')]
EARLY = [(90, '', 'test emu-rows-attention_early', ''), (90, 'attention_decode_sm90_d64_8x8', 'kvcache', '')]
CHAIN = [(90, '', 'chain attention_wgmma_sm90_d64_192x128', ''), (90, '', 'chain attention_wgmma_sm90_fp8', '')]
ARRIVE = [(90, 'attention_wgmma_sm90_d64', 'arrivals f16 d64', ''), (90, '', 'test host-parallel-arrive', '')]
# The steps of each kernel: architecture, rows, filter of cases, a setting PTXPACK_EMU_... of the emulated driver.  "test NAME"
# is a test program.
STEPS = {
    'attention/wgmma.ptx': WGMMA + [(90, 'attention_wgmma', 'f16 d64 4/2 113x203', 'ASYNC=latest')] + CHAIN + ARRIVE,
    'attention/mma.ptx': MMA + [(80, 'attention_mma', 'f16 d64 4/2 113x203', 'ASYNC=latest')],
    'attention/decode.ptx': DECODE + [(80, 'attention_decode', 'f16 d64 4/2 4x700', 'ASYNC=latest')] + EARLY,
    'kv_cache/append.ptx': [(sm, 'attention_append', case, '') for sm, case in (
        (80, 'append f16 d128 r64'), (80, 'append f16 d80 r32'), (80, 'append f16 d48 r16'), (90, 'append f16 d80 r32'), (75, 'append '), (80, 'append '))] + CHAIN + EARLY[:1],
    'parallel/parts.ptx': [(80, 'attention_merge_parts', 'parts f16', '')] + [(sm, 'attention_merge_parts', 'merge of ', '') for sm in (75, 80)],
    'attention/merge.ptx': [(80, 'attention_merge', 'merge f16', '')] + [(sm, 'attention_merge', 'merge ', '') for sm in (75, 80)] +
                           CHAIN,
    'gemm/mma.ptx': GEMM_MMA + [(80, 'gemm_mma', 'gemm bf16 rc', 'ASYNC=latest')],
    'gemm/wgmma.ptx': GEMM_WGMMA + [(90, '', 'test emu-rows-gemm_rows', ''), (90, 'gemm_wgmma', 'gemm bf16 rc', 'ASYNC=latest')] + CHAIN,
    'gemm/wgmma_parts.ptx': [(90, '', 'test emu-rows-gemm_wgmma 1 8 gemm_wgmma_sm90_parts_128x128', ''), (90, 'gemm_wgmma_sm90_parts', 'rc 9x48', '')],
    'gemm/wgmma_fp8.ptx': GEMM_FP8,
    'gemm/mma_groups.ptx': GROUPS_MMA,
    'gemm/wgmma_groups.ptx': GROUPS_WGMMA,
    'gemm/rows.ptx': ROWS + WAITS,
    'gemm/rows_tma.ptx': ROWS_TMA + CHAIN_OF_ROWS,
    'gemm/rows_e4m3.ptx': ROWS_E4M3 + CHAIN_OF_ROWS,
    'gemm/rows_norm.ptx': ROWS_NORM + CHAIN_OF_ROWS,
    'gemm/rows_groups_e4m3.ptx': ROWS_GROUPS + WAITS,
    'norm/norm.ptx': [(80, '', 'norm f16', ''), (90, '', 'norm bf16', ''), (75, '', 'norm ', '')] + WAITS,
    'gather/gather.ptx': [(80, '', 'gather ', '')] + WAITS,
    'sampling/sampling.ptx': [(80, '', 'sampling f16', ''), (90, '', 'sampling f32', ''), (80, '', 'sampling ', '')] + WAITS,
    'experts/route.ptx': [(80, '', 'experts route f16', ''), (90, '', 'experts route f32', ''), (80, '', 'experts route ', '')] + WAITS,
    'experts/combine.ptx': [(80, '', 'experts combine ', '')] + WAITS,
    'quantise/quantise.ptx': [(90, '', 'quantise f16', ''), (80, '', 'quantise bf16', ''), (75, '', 'quantise ', '')] + WAITS,
    'quantise/dequantise.ptx': [(90, '', 'dequantise f16', ''), (80, '', 'dequantise bf16', ''), (75, '', 'dequantise ', '')] + WAITS,
    'attention/blocks/make.ptx': [(80, '', 'made blocks ', '')],
    'vector/add.ptx': [(80, '', 'vector_add f16 n=4103', ''), (75, '', 'vector_add', ''), (80, '', 'vector_add', '')],
    **{'probe/%s.ptx' % name: [(90, '', 'test tools-bench_memory', '')] for name in ('fill', 'reduce', 'advance')},
    'probe': [(sm, '', case, '') for sm, case in (
        (90, 'atom SM90_64x8x'), (80, 'atom SM7'), (80, 'atom SM80_CP'), (80, 'atom SM50'), (80, 'atom SM61'), (89, 'atom SM89'),
        (80, 'atom SM80_8x8'), (90, 'atom SM90_U'), (90, 'atom SM90_16x8'), (120, 'atom SM100'), (80, 'atom SM80_16x8'),
        (120, 'atom SM120'), (90, 'test host-attention-transpose_v'), (90, 'atom '))],
}
# What the cases of a host file are, by a part of its name; the first that fits.
HOST_STEPS = [('host/attention/wgmma', 'attention/wgmma.ptx'), ('host/attention/mma', 'attention/mma.ptx'),
              ('host/attention/decode', 'attention/decode.ptx'), ('host/attention/merge', 'attention/merge.ptx'), ('host/parallel/parts', 'parallel/parts.ptx'),
              ('host/attention/append', 'kv_cache/append.ptx'), ('host/attention/attention_symbols', 'attention/mma.ptx'),
              ('host/gemm/wgmma', 'gemm/wgmma.ptx'), ('host/gemm/', 'gemm/mma.ptx'), ('host/plan/', 'attention/wgmma.ptx')]
SMALL_SECONDS, LARGE_SECONDS = 60, 900  # of processor time: a step takes a second, or a minute
SMALL_BUDGET, LARGE_BUDGET = 1 << 21, 1 << 24  # warp instructions of a launch: the cases need half a million
WAIT_SECONDS = 1800                     # a program that waits for ever uses no processor


Mutant = collections.namedtuple('Mutant', 'file line kind old new')


def plain(text):
    return ' '.join(text.split())


def show(m):
    return '%s:%d: %s: %s -> %s' % (m.file, m.line, m.kind, plain(m.old.split('//')[0]), plain(m.new) or 'dropped')


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def fits(lines, at, macro, old):
    """Whether line number `at` is `old`, or the second of two lines "first ~ second", in the macro if one is named."""
    wanted = old.split(' ~ ')
    if [plain(line.split('//')[0]) for line in lines[at + 1 - len(wanted):at + 1]] != wanted:
        return False
    found = next(filter(None, (re.match(r'\s*\.(macro\s+(\w+)|endm)', line) for line in reversed(lines[:at]))), None)
    return macro in ('', found.group(2) if found else None)


class Equal:
    """The files of equal/: paragraphs of "file: old" or "file MACRO: old", lines "  -> new" where * stands for any text, and the reason."""

    def __init__(self, folder):
        self.rules, self.unused = [], {}
        for path in sorted(glob.glob(os.path.join(folder, '*.txt'))):
            self.add(os.path.join('equal', os.path.basename(path)), read(path))

    def add(self, name, text):
        key, patterns = None, []
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith('#') or not line.strip():
                continue
            if line.startswith('  -> '):
                patterns.append(line[5:])
            elif line.startswith('  '):
                for pattern in patterns:
                    expression = '.*'.join(re.escape(plain(part)) if part.strip() else '' for part in pattern.split('*'))
                    self.rules.append((*key, re.compile(expression.replace('.*', ' ?.*')), line.strip()))
                patterns = []
            else:
                where, _, old = line.partition(': ')
                file, _, macro = where.partition(' ')
                key = (file, macro, plain(old))
                if not os.path.exists(os.path.join(ROOT, 'ptx' if file.endswith('.ptx') else '', file)):
                    sys.exit('%s:%d: there is no file %s' % (name, number, file))
                self.unused[key] = '%s:%d' % (name, number)

    def stale(self):
        """Rules whose line is no longer in its file."""
        for (file, macro, old), place in self.unused.items():
            path = os.path.join(ROOT, 'ptx' if file.endswith('.ptx') else '', file)
            lines = read(path).splitlines()
            if not any(fits(lines, at, macro, old) for at in range(len(lines))):
                yield '%s: %s%s has no line "%s"' % (place, file, ' ' + macro if macro else '', old)

    def reason(self, mutant):
        new = plain(mutant.new) or 'dropped'
        for file, macro, old, pattern, why in self.rules:
            if file == mutant.file and pattern.fullmatch(new):
                path = os.path.join(ROOT, 'ptx' if file.endswith('.ptx') else '', file)
                if fits(read(path).splitlines(), mutant.line - 1, macro, old):
                    return why
        return None


def kernels_of_files():
    """Which kernels include a .ptx file, directly or not."""
    texts = {}
    for path in sorted(glob.glob(os.path.join(ROOT, 'ptx', '**', '*.ptx'), recursive=True)):
        texts[os.path.relpath(path, os.path.join(ROOT, 'ptx'))] = read(path)
    uses = collections.defaultdict(list)
    for kernel in [k for k in STEPS if k in texts] + [name for name in texts if name.startswith('probe/')]:
        seen, todo = set(), [kernel]
        while todo:
            name = todo.pop()
            if name in seen or name not in texts:
                continue
            seen.add(name)
            todo += re.findall(r'^\s*\.include "([^"]*)"', texts[name], re.M)
        for name in seen:
            key = kernel if kernel in STEPS else 'probe'
            if key not in uses[name]:
                uses[name].append(key)
    return uses


def steps_of(name, uses):
    """Interleaves the steps of all kernels that use the file: the small ones first."""
    if name.endswith('.ptx'):
        lists = [STEPS[kernel] for kernel in uses.get(name, [])]
    else:
        lists = [STEPS[next((kernel for part, kernel in HOST_STEPS if part in name), 'attention/mma.ptx')]]
        if name.startswith('host/plan/'):
            lists += [STEPS['gemm/wgmma.ptx'], STEPS['attention/mma.ptx']]
    longest = max((len(each) for each in lists), default=0)
    return [each[i - longest] for i in range(longest) for each in lists if i - longest >= -len(each)]


def is_large(step):
    return step[2].endswith(' ') or step[3].startswith('ASYNC')


class Runner:
    def __init__(self, options):
        self.o, self.lock = options, threading.Lock()
        self.work = tempfile.mkdtemp(prefix='ptxpack-mutate-')
        self.free, self.steps, self.passed, self.texts = [], {}, set(), {}
        self.gained = collections.defaultdict(float)  # by file and step: noticed, and seconds
        self.spent = collections.defaultdict(float)
        for i in range(options.jobs):
            folder = os.path.join(self.work, str(i))
            if options.host:
                shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns('.git', 'logs', 'tests-*'))
            else:
                shutil.copytree(os.path.join(ROOT, 'ptx'), folder, ignore=shutil.ignore_patterns('*.h', '*.md'))
            self.free.append(folder)

    def check(self, folder, step):
        """Returns whether all cases passed, what was printed, and the seconds."""
        sm, row, cases, setting = step
        limit = LARGE_SECONDS if is_large(step) else SMALL_SECONDS
        build = os.path.join(folder, 'build') if self.o.host else self.o.build
        command = ['sh', '-c', 'ulimit -t %d; exec "$@"' % limit, 'sh']
        if cases.startswith('test '):
            command += [os.path.join(build, 'tests', cases.split()[1])] + cases.split()[2:]
        else:
            command += [os.path.join(build, 'ptxpack-check'), '--device', 'emu', '--threads', '1', '--seed', '1', '--first',
                        '--filter', cases] + (['--row', row] if row else [])
        environment = {k: v for k, v in os.environ.items() if not k.startswith('PTXPACK_')}
        environment['PTXPACK_EMU_BUDGET'] = str(LARGE_BUDGET if is_large(step) else SMALL_BUDGET)
        environment.update(PTXPACK_DRIVER=os.path.join(self.o.build, 'libptxpack-emu.so'), PTXPACK_EMU_SM=str(sm),
                           PTXPACK_CACHE_DISABLE='1', PTXPACK_PTX_DIR=os.path.join(ROOT, 'ptx') if self.o.host else folder)
        if setting:
            name, value = setting.split('=')
            environment['PTXPACK_EMU_' + name] = value
        started = time.monotonic()
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT_SECONDS,
                                  cwd=ROOT, errors='replace')
            status, text = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            status, text = 1, 'FAIL: not done after %d s' % WAIT_SECONDS
        return status == 0, text, time.monotonic() - started

    def trust(self, step, said):
        """What noticed something must pass without a mutant: the step, of which only the row that failed."""
        failed = re.search(r'^FAIL [^:]* ([a-z]+_\w+): ', said, re.M)
        step = (step[0], failed.group(1) if failed else step[1], *step[2:])
        with self.lock:
            lock = self.steps.setdefault(step, threading.Lock())
        with lock:
            if step not in self.passed:
                passed, text, _ = self.check(self.clean(), step)
                if not passed:
                    raise SystemExit('mutate: without a mutant, --filter "%s" --row "%s" on sm_%d fails:\n%s' %
                                     (step[2], step[1], step[0], text))
                self.passed.add(step)

    def clean(self):
        folder = os.path.join(self.work, 'clean')
        if self.o.host and not os.path.exists(folder):
            os.mkdir(folder)
            os.symlink(self.o.build, os.path.join(folder, 'build'))
        return folder if self.o.host else os.path.join(ROOT, 'ptx')

    def alike(self, folder, name, kernels):
        """Whether every build of the kernels has the text that it has without the mutant: then nothing can notice it."""
        program = os.path.join(self.o.build, 'tests', 'host-plan-kernel_texts')
        if self.o.host or 'probe' in kernels or not os.path.exists(program) or '.if ARCH' in read(os.path.join(folder, name)):
            return False  # the texts are those of one architecture
        for kernel in kernels:
            command = [program, '--builds', STEPS[kernel][0][1] or kernel[:-len('.ptx')].replace('/', '_')]
            with self.lock:
                if kernel not in self.texts:
                    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
                    self.texts[kernel] = done.stdout.splitlines(True)
            with subprocess.Popen(command, cwd=ROOT, env=dict(os.environ, PTXPACK_PTX_DIR=folder), stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL) as listing:
                same = all(a == b for a, b in itertools.zip_longest(listing.stdout, self.texts[kernel]))
                listing.kill()
            if not same:
                return False
        return True

    def rebuild(self, folder):
        done = subprocess.run(['make', '-s', 'build/ptxpack-check'], cwd=folder, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        return done.returncode == 0

    def one(self, mutant, steps, kernels):
        """Returns None for a survivor, otherwise what noticed the mutant; 'invalid' for one that gcc refuses, 'equal' for one
        that leaves the texts of all kernels as they are."""
        with self.lock:
            folder = self.free.pop()
        path = os.path.join(folder, mutant.file)
        text = read(path)
        lines = text.split('\n')
        lines[mutant.line - 1] = mutant.new
        try:
            with open(path, 'w', encoding='utf-8') as file:
                file.write('\n'.join(lines))
            if self.o.host and not self.rebuild(folder):
                return 'invalid'
            with self.lock:
                order = sorted(steps, key=lambda s: -(self.gained[mutant.file, s] + 0.5) / (self.spent[mutant.file, s] + 2))
            for number, step in enumerate(order):
                if number == 1 and self.alike(folder, mutant.file, kernels):
                    return 'equal'
                passed, said, seconds = self.check(folder, step)
                with self.lock:
                    self.spent[mutant.file, step] += seconds
                    self.gained[mutant.file, step] += not passed
                if not passed:
                    self.trust(step, said)
                    first = next((line for line in said.splitlines() if 'FAIL' in line), said.strip()[-160:])
                    return 'sm_%d %s' % (step[0], first[:300])
            return None
        finally:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
            with self.lock:
                self.free.append(folder)


def choose(files, wanted, per_file, seed, host):
    """Up to `per_file` mutants of each file: one of every line before a second one of any.  Of a file whose line is among those
    `wanted`, only mutants of such lines.  A mutant's place depends on its own text: after a change elsewhere in the file the
    same ones are chosen."""
    chosen, total = [], {}
    for name in files:
        ranked, times = [], collections.Counter()
        lines = read(os.path.join(ROOT, '' if host else 'ptx', name)).split('\n')
        some = {int(each.rpartition(':')[2]) for each in wanted if ':' in each and each.rpartition(':')[0] in name}
        for number, line in enumerate(lines, 1):
            made = []
            for kind, new in mutants.of_c(line) if host else mutants.of_ptx(line):
                text = '%d %s %s %s' % (seed, name, plain(line), plain(new))
                times[text] += 1
                made.append((hashlib.sha256(('%s %d' % (text, times[text])).encode()).digest(), kind, new))
            made.sort()
            if not some or number in some:
                ranked += [(turn, draw, Mutant(name, number, kind, line, new)) for turn, (draw, kind, new) in enumerate(made)]
        total[name] = len(ranked)
        ranked.sort(key=lambda each: each[:2])
        chosen.append([each[2] for each in ranked[:per_file]])
    # in turn from all files, so that a time limit leaves something of each
    return [row[i] for i in range(max(map(len, chosen), default=0)) for row in chosen if i < len(row)], total


def parse():
    p = argparse.ArgumentParser(prog='mutate.py', description=__doc__.split('\n')[0])
    p.add_argument('files', nargs='*', help='parts of names of files, or FILE:LINE (default: all kernels)')
    p.add_argument('--build', default='build', help='the folder with ptxpack-check')
    p.add_argument('--host', action='store_true', help='mutants of C files; name them')
    p.add_argument('--per-file', type=int, default=1 << 30, metavar='N', help='mutants of a file (default: all)')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--seconds', type=float, default=1e9, metavar='N', help='start no mutant after so long')
    p.add_argument('--jobs', type=int, default=2)
    p.add_argument('--small', action='store_true', help='only the small steps, without all cases at the end')
    p.add_argument('--need', type=float, default=98, metavar='P', help='percent that must be noticed')
    p.add_argument('--list', action='store_true', help='print the mutants and run none')
    p.add_argument('--again', metavar='FILE', help='only the survivors of a log, or of the output, of a run before')
    p.add_argument('--log', metavar='FILE', help='append a line for each mutant')
    return p.parse_args()


def main():
    o = parse()
    o.build = os.path.abspath(o.build)
    uses = kernels_of_files()
    names = sorted(uses)
    if o.host:
        names = [os.path.relpath(os.path.join(at, name), ROOT) for at, _, found in os.walk(os.path.join(ROOT, 'host'))
                 for name in sorted(found) if name.endswith(('.c', '.h'))]
    names = [name for name in names if not o.files or any(part.partition(':')[0] in name for part in o.files)]
    if not names:
        sys.exit('mutate: no file has a name with %s' % ' or '.join(o.files))
    equal = Equal(os.path.join(ROOT, 'tests/mutate/equal'))
    stale = list(equal.stale())
    chosen, total = choose(names, o.files, 1 << 30 if o.again else o.per_file, o.seed, o.host)
    if o.again:
        survivors = {line[9:].strip() for line in read(o.again).splitlines() if line.startswith('SURVIVOR ')}
        chosen = [m for m in chosen if show(m) in survivors]
    if o.list:
        for m in chosen:
            print(show(m))
        return 0
    started, runner = time.monotonic(), Runner(o)
    ran, noticed, explained = collections.Counter(), collections.Counter(), collections.Counter()
    log = open(o.log, 'a', encoding='utf-8') if o.log else None

    left = []

    def run(m, large):
        if equal.reason(m):
            explained[m.file] += 1
            return
        if time.monotonic() - started > o.seconds and not large:
            return
        by = runner.one(m, [step for step in steps_of(m.file, uses) if is_large(step) == large], uses.get(m.file, []))
        with runner.lock:
            if by == 'invalid':
                return
            if by == 'equal':
                explained[m.file] += 1
                return
            if by is None and not large and not o.small:
                left.append(m)
                return
            ran[m.file] += 1
            noticed[m.file] += by is not None
            if by is None:
                print('SURVIVOR ' + show(m), flush=True)
            if log:
                print(('noticed ' if by else 'SURVIVOR ') + show(m) + (' | ' + by if by else ''), file=log, flush=True)

    try:
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for result in [pool.submit(run, m, False) for m in chosen]:
                result.result()
            for result in [pool.submit(run, m, True) for m in left]:
                result.result()
    finally:
        shutil.rmtree(runner.work, ignore_errors=True)
    for name in names:
        print('%-36s %4d of %4d mutants run, %4d noticed, %3d survived, %3d known to be equal' %
              (name, ran[name], total[name], noticed[name], ran[name] - noticed[name], explained[name]))
    for line in stale:
        print('FAIL ' + line)
    all_ran, all_noticed = sum(ran.values()), sum(noticed.values())
    percent = 100 * all_noticed / all_ran if all_ran else 0
    print('seed %d: %d of %d mutants noticed (%.1f %%), %d known to be equal, %.0f s' %
          (o.seed, all_noticed, all_ran, percent, sum(explained.values()), time.monotonic() - started))
    if percent < o.need:
        print('FAIL at least %g %% must be noticed.  After the change in a line with SURVIVOR every step passed.  Add a case that\n'
              '     notices it to tests/check, and a step to STEPS in tests/mutate/mutate.py if none runs the case.  If no case can\n'
              '     notice it (equal code, speed only), add it to a file of tests/mutate/equal with the reason.' % o.need)
    if stale:
        print('FAIL correct or remove these paragraphs of tests/mutate: their lines were changed')
    return 0 if percent >= o.need and not stale else 1


if __name__ == '__main__':
    sys.exit(main())

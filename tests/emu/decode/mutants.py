"""mutants.py - instructions of PTX with one change each, and what ptxas says of them: a file for emu-decode-verdicts.

    python3 tests/emu/decode/mutants.py --seed 7 --count 3000 --ptxas ptxas [--plain 10] [PTX file ...] >FILE
    build/tests/emu-decode-verdicts FILE

The instructions that are changed are the forms of instructions in the PTX files (those of nvcc -ptx serve well), in the texts of the
emulated driver's tests and among the recorded ones, as far as ptxas accepts them; their registers are renamed to those of the frame,
the first lines of tests/data/emu_verdicts.txt.  Each mutant is a kernel of its own,
so that many can be in one file: ptxas names the lines that it refuses, and is asked again without these kernels until
it accepts the others.  --plain leaves that many of a hundred instructions unchanged.  What the emulated driver refuses
altogether is left out.
"""
import argparse
import bisect
import concurrent.futures
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
FAMILIES = set(re.findall(r'FAMILY\("(\w+)', open(os.path.join(ROOT, 'tools/emu/decode/families.def')).read()))
# What the emulated driver refuses altogether (tools/emu/README.md).
ABSENT = re.compile(r'\b(alloca|stacksave|stackrestore|tex|tld4|suld|sust|sured|multimem|tcgen05)\b|\.(sp|im2col|tile::\w+)\b|::im2col|kind::|block_scale')
# Registers of the frame: prefix and how many, by type.
REGISTERS = {'pred': ('p', 8), 'b8': ('bb', 8), 'b16': ('h', 16), 'u16': ('us', 16), 's16': ('ss', 16), 'f16': ('fh', 16),
             'b32': ('r', 48), 'u32': ('u', 24), 's32': ('i', 24), 'f32': ('f', 48), 'f16x2': ('hh', 16), 'b64': ('d', 24),
             'u64': ('ud', 16), 's64': ('sd', 16), 'f64': ('fd', 24), 'b128': ('q', 4)}
OF_PREFIX = {prefix: name for name, (prefix, _) in REGISTERS.items()}
REGISTER = re.compile(r'\b(%s)(\d+)\b' % '|'.join(sorted(OF_PREFIX, key=len, reverse=True)))
# Any other name: a variable, a parameter, a label.
UNKNOWN = re.compile(r'(?<![\w%.])(?!(?:' + '|'.join(OF_PREFIX) + r')\d+\b|L1\b|[xyzw]\b|_\b)[A-Za-z_$][\w$]*')
SECTIONS = [('90a', '8.7', 40), ('90', '8.7', 8), ('80', '8.7', 10), ('75', '8.7', 8), ('86', '8.7', 3), ('89', '8.7', 6),
            ('90a', '8.0', 5), ('90a', '8.3', 5), ('90a', '8.6', 4), ('90a', '9.0', 8), ('80', '7.4', 4), ('75', '6.5', 2)]
TYPES = ['b8', 'u8', 's8', 'b16', 'u16', 's16', 'f16', 'bf16', 'b32', 'u32', 's32', 'f32', 'f16x2', 'bf16x2', 'tf32', 'b64', 'u64',
         's64', 'f64', 'pred', 'b128', 'e4m3', 'e5m2', 'e4m3x2', 'f32x2']
SPECIAL = ['%tid.x', '%ntid.y', '%ctaid.w', '%tid', '%laneid', '%clock', '%clock64', '%globaltimer', '%lanemask_lt', '%smid',
           '%envreg1', '%gridid', '%dynamic_smem_size', '%clusterid.x', '%cluster_ctarank', '%is_explicit_cluster', 'WARP_SZ']
SECONDS_MOST = 300  # of one call of ptxas: a few instructions make it take all memory
LITERALS = ['0', '1', '-1', '64', '31', '-5', '0xff', '0xffffffff', '0x1ffffffff', '4096', '1.0', '0f3f800000', '0d3ff0000000000000']
SYMBOLS = ['gv', 'cv', 'sv', 'lv', 'pv', 'tm', 'fn', 'fv', 'cr', 'k']


class Frame:
    """The lines in front of an instruction and behind it, as tests/data/emu_verdicts.txt has them."""

    def __init__(self, path):
        self.before, self.after, self.accepted, self.known = [], [], [], set()
        for line in open(path, encoding='utf-8'):
            found = re.match(r'<(\d\.\d)? (.*)|> (.*)|([+-])!? (.*)', line)
            if found and found.group(2):
                self.before.append((float(found.group(1) or 0), found.group(2)))
            elif found and found.group(3):
                self.after.append(found.group(3))
            elif found:
                self.known.add(found.group(5))
                if found.group(4) == '+':
                    self.accepted.append(found.group(5))

    def head(self, version):
        return [text for since, text in self.before if since <= float(version)]


def split(text, separator=','):
    """Divides at separators outside of brackets."""
    parts, depth = [''], 0
    for c in text:
        depth += (c in '([{') - (c in ')]}')
        if c == separator and depth == 0:
            parts.append('')
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


class Instruction:
    def __init__(self, text):
        text = text.strip().rstrip(';')
        found = re.match(r'(@!?[%\w]+\s+)?([\w.:]+)\s*(.*)$', text, re.S)
        self.guard, (self.opcode, *self.words) = found.group(1) or '', re.split(r'\.', found.group(2))
        self.operands = split(found.group(3))

    def __str__(self):
        return self.guard + '.'.join([self.opcode] + self.words) + (' ' + ', '.join(self.operands) if self.operands else '') + ';'

    def form(self):
        """Without the numbers of registers and the values of literals."""
        return re.sub(r'\b\d\w*', '0', re.sub(r'([a-z])\d+\b', r'\1', str(self)))


# ---- instructions of PTX files, in the names of the frame ----------------------------------------------------------
def renamed(line, types, rng, pins):
    def register(found):
        name = found.group(0)
        stem = re.sub(r'\d+$', '', name)
        type_ = types.get(name) or types.get(stem)
        if type_ not in REGISTERS:
            return name
        prefix, count = REGISTERS[type_]
        if name not in pins:
            pins[name] = prefix + str(rng.randrange(count) if prefix != 'p' else rng.randrange(4))
        return pins[name]
    return re.sub(r'(?<!\w)%?[A-Za-z_$][\w$]*', register, line)


def forms_of_file(path, rng):
    text = re.sub(r'//[^\n]*|/\*.*?\*/', '', open(path, encoding='utf-8', errors='replace').read(), flags=re.S)
    types = {}
    for type_, names in re.findall(r'\.reg\s+\.(\w+)\s+([^;]*);', text):
        for name in names.split(','):
            types[re.sub(r'<.*', '', name.strip())] = type_
    body = re.sub(r'\.reg\s[^;]*;', '', text)
    for line in re.findall(r'(?:^|[;{}:\n])\s*((?:@!?[%\w]+\s+)?[a-z][a-z0-9_]*(?:\.[\w:]+)*(?:\s[^;:]*?(?:::[^;:]*)*)?;)', body):
        line = ' '.join(line.split())
        opcode = re.sub(r'^@\S+\s+', '', line).split('.')[0].split(' ')[0].rstrip(';')
        if opcode not in FAMILIES or opcode in ('call', 'brx'):
            continue
        instruction, pins = Instruction(line), {}
        instruction.guard = '@p%d ' % rng.randrange(4) if instruction.guard else ''
        instruction.operands = [renamed(operand, types, rng, pins) for operand in instruction.operands]
        space = re.search(r'\.(param|shared|const|local)\b', line)
        symbol = {'param': 'pv', 'shared': 'sv', 'const': 'cv', 'local': 'lv'}[space.group(1)] if space else 'gv'
        if opcode == 'bra':
            instruction.operands = ['L1']
        instruction.operands = [UNKNOWN.sub(symbol, operand) for operand in instruction.operands]
        yield str(instruction)


def base_texts(frame, files, rng, ptxas):
    """Each form once, if ptxas accepts it."""
    seen, bases = set(), []
    texts = [os.path.join(folder, name) for folder in ('tests/emu', 'tests/bad', 'ptx')
             for folder, _, names in sorted(os.walk(os.path.join(ROOT, folder))) for name in sorted(names)
             if name.endswith(('.txt', '.ptx', '.h', '.c'))]
    for lines in [frame.accepted] + [forms_of_file(path, rng) for path in files + texts]:
        for line in lines:
            instruction = Instruction(line)
            if instruction.form() not in seen and len(str(instruction)) < 900 and '\\' not in line:
                seen.add(instruction.form())
                bases.append(str(instruction))
    parts = [bases[i:i + 100] for i in range(0, len(bases), 100)]
    return [base for part in parts for base, good in zip(part, verdicts(ptxas, frame, '90a', '9.0', part)) if good]


# ---- changes ------------------------------------------------------------------------------------------------------
class Changer:
    def __init__(self, bases, rng):
        self.rng = rng
        self.words, self.all_words = {}, set()
        for base in bases:
            instruction = Instruction(base)
            self.words.setdefault(instruction.opcode, set()).update(instruction.words)
            self.all_words.update(instruction.words)
        self.words = {opcode: sorted(words) for opcode, words in self.words.items()}
        self.all_words = sorted(self.all_words | set(TYPES))

    def word(self, instruction, old=''):
        if old in TYPES and self.rng.random() < 0.6:
            return self.rng.choice(TYPES)
        near = self.words.get(instruction.opcode)
        return self.rng.choice(near if near and self.rng.random() < 0.9 else self.all_words)

    def register(self, like=None):
        names = [name for name in REGISTERS if like is None or REGISTERS[name][0] != like]
        prefix, count = REGISTERS[self.rng.choice(names)]
        return prefix + str(self.rng.randrange(count))

    def change_words(self, instruction):
        words, rng = instruction.words, self.rng
        kind = rng.choice(('drop', 'drop', 'twice', 'move', 'move', 'replace', 'replace', 'replace', 'replace', 'insert'))
        if not words:
            kind = 'insert'
        at = rng.randrange(len(words)) if words else 0
        if kind == 'drop':
            del words[at]
        elif kind == 'twice':
            words.insert(rng.randrange(len(words) + 1), words[at])
        elif kind == 'move':
            words.insert(rng.randrange(len(words)), words.pop(at))
        elif kind == 'replace':
            words[at] = self.word(instruction, words[at])
        else:
            words.insert(rng.randrange(len(words) + 1), self.word(instruction))

    def other(self, operand):
        """Something else in the place of a register, a literal, an address or a list."""
        rng = self.rng
        inner = list(REGISTER.finditer(operand))
        kind = rng.choice(('class',) * 6 + ('number', 'literal', 'literal', 'literal', 'special', 'symbol', 'sink', 'sign', 'pair', 'brackets', 'offset',
                                            'offset', 'item', 'item', 'element'))
        if kind in ('class', 'number') and inner:
            at = rng.choice(inner)
            prefix = at.group(1)
            new = self.register(prefix) if kind == 'class' else prefix + str(rng.randrange(REGISTERS[OF_PREFIX[prefix]][1]))
            return operand[:at.start()] + new + operand[at.end():]
        if kind == 'literal' and inner and rng.random() < 0.4:
            at = rng.choice(inner)
            return operand[:at.start()] + rng.choice(LITERALS) + operand[at.end():]
        if kind == 'sign':
            return rng.choice(('!', '-')) + operand
        if kind == 'brackets':
            if operand[0] in '[{':
                return operand[1:-1]
            return rng.choice(('[%s]', '{%s}')) % operand
        if kind == 'offset' and operand[0] == '[':
            return operand[:-1] + rng.choice(('+4]', '+-8]', '+1]', '+1048576]', '+r1]'))
        if kind == 'item' and operand[0] == '{':
            items = split(operand[1:-1])
            if rng.random() < 0.5 and len(items) > 1:
                del items[rng.randrange(len(items))]
            else:
                items.append(rng.choice((items[-1], self.register())))
            return '{%s}' % ','.join(items)
        return {'special': rng.choice(SPECIAL), 'symbol': rng.choice(SYMBOLS), 'sink': '_', 'pair': operand + '|' + self.register(),
                'element': rng.choice(('vx0.x', 'vy1.y', 'vf0.w', 'vu1.z', 'vx1', 'vy0', '{r1,r2}', '{f1,f2,f3,f4}', '{h1,h2}')),
                'literal': rng.choice(LITERALS)}.get(kind, self.register())

    def change_operands(self, instruction):
        operands, rng = instruction.operands, self.rng
        kind = rng.choice(('other',) * 8 + ('drop', 'append', 'swap'))
        at = rng.randrange(len(operands)) if operands else 0
        if kind == 'append' or not operands:
            operands.append(rng.choice((self.register(), rng.choice(LITERALS), 'p1', '[d1]', operands[at] if operands else 'r1')))
        elif kind == 'drop':
            del operands[at]
        elif kind == 'swap':
            to = rng.randrange(len(operands))
            operands[at], operands[to] = operands[to], operands[at]
        else:
            operands[at] = self.other(operands[at])

    def change(self, text):
        instruction = Instruction(text)
        kind = self.rng.random()
        if kind < 0.42:
            self.change_words(instruction)
        elif kind < 0.92:
            self.change_operands(instruction)
        elif kind < 0.96:
            instruction.guard = self.rng.choice(('@p1 ', '@!p1 ', '@r0 '))
        # Otherwise only .version and .target are drawn.
        return str(instruction)


# ---- ptxas --------------------------------------------------------------------------------------------------------
def ptxas_lines(ptxas, target, text):
    """The status, the lines that errors name, the kernels that they name, the lines where an address has 32 bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'm.ptx')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        done = subprocess.run([ptxas, '-arch', 'sm_' + target, '-o', os.path.join(folder, 'm'), path], capture_output=True, text=True,
                              timeout=SECONDS_MOST)
    # Some instructions are expanded from a text of ptxas's own, <builtin>, whose lines are not ours.
    lines = [int(line) for line in re.findall(r'^ptxas (?!<builtin>).*, line (\d+); +(?:error|fatal)', done.stderr, re.M)]
    if 'arsing error' in done.stderr or 'yntax error' in done.stderr:
        lines = lines[:1]  # The parser may have lost its way behind the first one.
    named = [(name or other) for name, other in re.findall(r"'(m_\d+_)'|(?:function|entry) (m_\d+_)", done.stderr)]
    narrow = [int(line) for line in re.findall(r"32-bit address on line '(\d+)'", done.stderr)]
    return done.returncode, lines, named, narrow


def verdicts(ptxas, frame, target, version, texts):
    """True for each instruction that ptxas accepts."""
    accepted = [True] * len(texts)
    left = list(range(len(texts)))
    head = frame.head(version)
    entry = next(i for i, line in enumerate(head) if '.entry' in line)

    def alone(indices):
        for i in indices:
            accepted[i] = verdicts(ptxas, frame, target, version, [texts[i]])[0]

    while left:
        lines = ['.version ' + version, '.target sm_' + target, '.address_size 64'] + head[:entry]
        starts = []
        for i in left:
            starts.append(len(lines) + 1)
            lines += [head[entry].replace(' k(', ' m_%d_(' % i)] + head[entry + 1:] + [texts[i]] + frame.after
        lines += ['.entry k() { ret; }']
        status, errors, named, narrow = ptxas_lines(ptxas, target, '\n'.join(lines) + '\n')
        if status != 0 and len(texts) == 1:
            return [False]
        bad = {left[bisect.bisect_right(starts, line) - 1] for line in errors if line >= starts[0]}
        bad |= {int(name[2:-1]) for name in named}
        # What 32-bit addresses lead to is a matter of the whole module.
        single = {left[bisect.bisect_right(starts, line) - 1] for line in narrow} - bad
        if status == 0 and not single:
            return accepted
        if not bad and not single:
            for part in (left[:len(left) // 2], left[len(left) // 2:]):
                for i, good in zip(part, verdicts(ptxas, frame, target, version, [texts[i] for i in part])):
                    accepted[i] = good
            return accepted
        alone(single)
        for i in bad:
            accepted[i] = False
        left = [i for i in left if i not in bad and i not in single]
    return accepted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=1000)
    parser.add_argument('--plain', type=int, default=0)
    parser.add_argument('--ptxas', default='ptxas')
    parser.add_argument('--frame', default=os.path.join(ROOT, 'tests/data/emu_verdicts.txt'))
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('files', nargs='*')
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    frame = Frame(arguments.frame)
    bases = base_texts(frame, arguments.files, rng, arguments.ptxas)
    by_opcode = {}
    for base in bases:
        by_opcode.setdefault(Instruction(base).opcode, []).append(base)
    changer = Changer(bases, rng)
    drawn, seen = {}, set()
    while len(seen) < arguments.count:
        # Half of them from any form, half from any opcode, so that opcodes of few forms are drawn, too.
        base = rng.choice(bases if rng.random() < 0.5 else by_opcode[rng.choice(sorted(by_opcode))])
        text = base if rng.random() * 100 < arguments.plain else changer.change(base)
        section = rng.choices(SECTIONS, [weight for *_, weight in SECTIONS])[0][:2]
        if text not in seen and text not in frame.known and Instruction(text).opcode in FAMILIES and not ABSENT.search(text):
            seen.add(text)
            drawn.setdefault(section, []).append(text)
    batches = [(section, texts[i:i + 40]) for section, texts in sorted(drawn.items()) for i in range(0, len(texts), 40)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda b: verdicts(arguments.ptxas, frame, *b[0], b[1]), batches))
    print('# %d instructions, seed %d, with the verdicts of %s' % (len(seen), arguments.seed, arguments.ptxas))
    for since, text in frame.before:
        print('<%s %s' % (since or '', text))
    for text in frame.after:
        print('> ' + text)
    last = None
    for (section, texts), accepted in zip(batches, results):
        if section != last:
            print('[%s %s]' % section)
        last = section
        for text, good in zip(texts, accepted):
            print('+-'[not good], text)


if __name__ == '__main__':
    main()

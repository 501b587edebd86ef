"""mutants.py - makes mutants of a line of macro PTX or of C: the line is dropped, or one thing in it is changed."""
import re

NUMBER = re.compile(r'(?<![\w%$])(0f[0-9A-Fa-f]{8}|0x[0-9A-Fa-f]+|\d+)(?![\w.])')
COMPARISONS = {'lt': 'le', 'le': 'lt', 'gt': 'ge', 'ge': 'gt', 'eq': 'ne', 'ne': 'eq', 'ltu': 'leu', 'geu': 'gtu',
               'lo': 'ls', 'ls': 'lo', 'hi': 'hs', 'hs': 'hi'}
OPCODES = {'add': 'sub', 'sub': 'add', 'min': 'max', 'max': 'min', 'and': 'or', 'or': 'and', 'xor': 'or',
           'shl': 'shr', 'shr': 'shl', 'div': 'rem', 'rem': 'div', 'not': 'mov', 'neg': 'mov', 'abs': 'mov'}
# Binary operators of expressions: what stands before, the operator, what stands behind.
OPERATORS = [(re.compile(before + r'(' + operator + r')' + behind), to) for before, operator, behind, to in (
    (r'(?<=[\w)\]])\s?', r'\+', r'(?=\s?[\w(\\])(?!\+)', '-'), (r'(?<=[\w)\]])\s?', '-', r'(?=\s?[\w(\\])(?!>)', '+'),
    (r'(?<=[\w)\]])\s?', r'\*', r'(?=\s?[\w(\\])', '+'), (r'(?<=[\w)\]])\s?', '/', r'(?=\s?[\w(\\])', '*'),
    (r'(?<=[\w)])', '%', r'(?=[A-Z\d(\\])', '/'), (r'(?<=[\w)]) ', '%', r'(?= [\w(\\])', '/'),
    ('', '==', '', '!='), ('', '!=', '', '=='), ('', '<=', '', '<'), ('', '>=', '', '>'),
    (r'(?<=[\w)\]]) ', '<', r'(?= )', '<='), (r'(?<=[\w)\]]) ', '>', r'(?= )', '>='),
    ('', '<<', '(?!=)', '>>'), (r'(?<=[\w)])', '>>', '(?!=)', '<<'), ('', '&&', '', '||'), ('', r'\|\|', '', '&&'))]
INDEX = re.compile(r'\\(r|e|i|j|h|g|lane|step|set)(?![\w(])')
DIRECTIVE = re.compile(r'\s*\.(set|if|elseif|rept|irp|ifnb|ifb)\b')


def comma_parts(text):
    """Divides at commas outside of brackets; returns (start, end) of each part without its blanks."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ','):
        depth += (c in '([{') - (c in ')]}')
        if c == ',' and depth == 0:
            part = text[start:i]
            parts.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
            start = i + 1
    return parts


def numbers(code):
    for found in NUMBER.finditer(code):
        text = found.group(1)
        if text.startswith('0f'):
            bits = int(text[2:], 16)
            options = ['0f%08X' % (bits + 0x800000 if bits & 0x7F800000 < 0x7F000000 and bits else 0x3F800000 if not bits else 0)]
        elif text.startswith('0x'):
            value, width = int(text, 16), len(text) - 2
            options = ['0x%0*X' % (width, value ^ 1), '0x%0*X' % (width, value ^ (1 << (4 * width - 1)))]
        else:
            value = int(text)
            options = [str(value + 1)] + ([str(value - 1)] if value > 0 else [])
        for option in options:
            yield 'constant', code[:found.start()] + option + code[found.end():]


def operators(code):
    for pattern, to in OPERATORS:
        for found in pattern.finditer(code):
            yield 'operator', code[:found.start(1)] + to + code[found.end(1):]


def operands(code, start, end, destination):
    """Each source operand becomes another one of the list."""
    body = code[start:end]
    parts = comma_parts(body)
    sources = parts[1:] if destination else parts
    for i, (a, b) in enumerate(sources):
        for j, (c, d) in enumerate(sources):
            if i != j and body[a:b] != body[c:d]:
                yield 'operand', code[:start] + body[:a] + body[c:d] + body[b:] + code[end:]


def instruction(code):
    guard = re.match(r'\s*(@!?%?[\w\\()]+)\s+', code)
    at = guard.end() if guard else 0
    if guard:
        text = guard.group(1)
        yield 'predicate', code.replace(text, '@' + text[2:] if text[1] == '!' else '@!' + text[1:], 1)
        yield 'predicate', code.replace(text, '', 1)
    name = re.match(r'\s*([\w.:\\()]+)\s*', code[at:])
    if not name:
        return
    opcode = name.group(1)
    start, end = at + name.end(), (code.rindex(';') if ';' in code else len(code))
    words = opcode.split('.')
    if words[0] == 'setp':
        for word in words[1:]:
            to = COMPARISONS.get(word) or {'and': 'or', 'or': 'and'}.get(word)
            if to:
                yield 'comparison', code.replace('.' + word + '.', '.' + to + '.', 1)
    elif words[0] in OPCODES and '.sync' not in opcode:
        yield 'opcode', code[:at] + code[at:].replace(words[0] + '.', OPCODES[words[0]] + '.', 1)
    if words[0] not in ('bra', 'ret', 'bar'):
        yield from operands(code, start, end, ';' in code)


def of_ptx(line):
    """Yields (kind, new line) for a line of a .ptx file."""
    code = line.split('//')[0].rstrip()
    text = code.strip()
    directive = DIRECTIVE.match(code)
    if not text or re.match(r'[\w\\()@]+:$', text) or text in '{}' or (text.startswith('.') and not directive):
        return
    made = []
    if not directive or directive.group(1) == 'set':
        made.append(('dropped', ''))
    made += list(numbers(code)) + list(operators(code))
    made += [('index', code[:m.start()] + '0' + code[m.end():]) for m in INDEX.finditer(code)]
    if directive and directive.group(1) == 'irp' and ',' in code:
        made.append(('dropped', code[:code.rindex(',')]))
    if not directive:
        made += list(instruction(code))
    seen = {code}
    for kind, new in made:
        if new not in seen:
            seen.add(new)
            yield kind, new


def of_c(line):
    """The same for a line of C."""
    code = line.split('//')[0].rstrip()
    text = code.strip()
    if not text or text[0] in '#/*"' or text.endswith('*/') or re.match(r'(static|typedef|extern|enum|struct)\b', text):
        return
    made = []
    if re.match(r'[\w.>\[\]()*&-]+(\(.*\)| [|&+*-]?= .*);$', text) and not text.startswith(('return', 'const')):
        made.append(('dropped', code[:len(code) - len(text)] + ';'))
    quoted = [m.span() for m in re.finditer(r'"[^"]*"', code)]
    for kind, new in list(numbers(code)) + list(operators(code)):
        at = next((i for i in range(min(len(code), len(new))) if code[i] != new[i]), 0)
        if not any(a <= at < b for a, b in quoted):
            made.append((kind, new))
    yield from made

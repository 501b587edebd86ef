/* expand_program.c - expressions and lines with pastes as steps for a stack: run, and kept for the next time.
 *
 * Loops and macros bring the same text again and again, so it is read once.  Steps are in the order of the
 * text, and those before an error are run before the error is told. */
#include <stdlib.h>
#include "expand_internal.h"

enum {
    MAX_STACK  = 7 * (EXPAND_MAX_NESTING + 1), /* a nesting holds a value for each rank, and one more */
    KEPT_BYTES = 2 << 20,
    PROBES     = 4
};

struct program {
    expand_read read;
    uint32_t    hash;
    size_t      size;    /* of the text, which follows the steps */
    size_t      count;
    step        steps[];
};

/* ---- running --------------------------------------------------------------------------------------- */

/* The divisor is not 0. */
static int64_t divide(enum step_kind op, int64_t a, int64_t b)
{
    if (b == -1) /* the one quotient that overflows wraps round */
        return op == STEP_DIV ? (int64_t)(0 - (uint64_t)a) : 0;
    return op == STEP_DIV ? a / b : a % b;
}

static bool shift(expander *x, enum step_kind op, int64_t a, int64_t b, int64_t *value)
{
    *value = 0;
    if (b < 0 || b > 63)
        return expand_warn(x, "shift count %lld is not between 0 and 63", (long long)b);
    *value = (int64_t)(op == STEP_SHL ? (uint64_t)a << b : (uint64_t)a >> b);
    return true;
}

static bool apply(expander *x, enum step_kind op, int64_t a, int64_t b, int64_t *value)
{
    switch (op) {
    case STEP_MUL: *value = (int64_t)((uint64_t)a * (uint64_t)b); return true;
    case STEP_DIV:
    case STEP_MOD: *value = divide(op, a, b); return true;
    case STEP_SHL:
    case STEP_SHR: return shift(x, op, a, b, value);
    case STEP_OR: *value = a | b; return true;
    case STEP_OR_NOT: *value = a | ~b; return true;
    case STEP_XOR: *value = a ^ b; return true;
    case STEP_AND: *value = a & b; return true;
    case STEP_ADD: *value = (int64_t)((uint64_t)a + (uint64_t)b); return true;
    case STEP_SUB: *value = (int64_t)((uint64_t)a - (uint64_t)b); return true;
    case STEP_EQ: *value = -(int64_t)(a == b); return true; /* true is -1, as in as */
    case STEP_NE: *value = -(int64_t)(a != b); return true;
    case STEP_LT: *value = -(int64_t)(a < b); return true;
    case STEP_LE: *value = -(int64_t)(a <= b); return true;
    case STEP_GE: *value = -(int64_t)(a >= b); return true;
    case STEP_GT: *value = -(int64_t)(a > b); return true;
    case STEP_LAND: *value = a && b; return true; /* but here it is 1 */
    case STEP_LOR: *value = a || b; return true;
    default: return false; /* there is no other */
    }
}

/* The expression that step i of a line belongs to: it follows the text of the last STEP_TEXT. */
static span expression_at(span s, const step *steps, size_t i)
{
    while (i && steps[i].op != STEP_TEXT)
        i--;
    if (steps[i].op != STEP_TEXT)
        return s;
    return expand_pasted(span_of(s.data + steps[i].at + steps[i].size, s.size - steps[i].at - steps[i].size));
}

/* Text goes to out; the value that is left goes to *value. */
static bool run(expander *x, span s, const program *p, target to)
{
    int64_t stack[MAX_STACK];
    size_t  n = 0;
    for (size_t i = 0; i < p->count; i++) {
        const step *at = &p->steps[i];
        bool        ok = true;
        switch (at->op) {
        case STEP_VALUE: stack[n++] = at->value; break;
        case STEP_SYMBOL: stack[n++] = x->e->values[at->value]; break;
        case STEP_NEGATE: stack[n - 1] = (int64_t)(0 - (uint64_t)stack[n - 1]); break;
        case STEP_COMPLEMENT: stack[n - 1] = ~stack[n - 1]; break;
        case STEP_NOT: stack[n - 1] = !stack[n - 1]; break;
        case STEP_TEXT: ok = expand_text_add(x, to.out, s.data + at->at, at->size); break;
        case STEP_PASTE: ok = expand_text_number(x, to.out, stack[--n]); break;
        case STEP_LIST: ok = expand_list(x, span_of(s.data + at->at, at->size), to.out, to.nesting); break;
        default:
            n--;
            if (at->op == STEP_DIV || at->op == STEP_MOD)
                ok = stack[n] || expand_fail(x, "division by zero in the expression \"%.*s\"",
                                             QUOTE(expression_at(s, p->steps, i)));
            ok = ok && apply(x, at->op, stack[n - 1], stack[n], &stack[n - 1]);
        }
        if (!ok)
            return false;
    }
    if (to.value && n)
        *to.value = stack[0];
    return true;
}

/* ---- keeping --------------------------------------------------------------------------------------- */

/* The program of a text that was kept, or NULL; then *at is where to keep it, NULL when there is no room. */
static const program *find(expander *x, span s, expand_read read, uint32_t hash, program ***at)
{
    program **first = &x->programs[hash % (PROGRAMS - PROBES)];
    for (*at = first; *at < first + PROBES; ++*at) {
        const program *p = **at;
        if (!p)
            return NULL;
        if (p->hash == hash && p->size == s.size && p->read == read &&
            memcmp(p->steps + p->count, s.data, s.size) == 0)
            return p;
    }
    *at = NULL;
    return NULL;
}

/* Keep p with its text, without the memory that it does not need. */
static bool keep(expander *x, program *p, span s, program **at)
{
    size_t bytes = sizeof *p + p->count * sizeof *p->steps + s.size;
    memcpy(p->steps + p->count, s.data, s.size);
    *at = (program *)realloc(p, bytes);
    if (!*at) {
        free(p);
        return expand_no_memory(x);
    }
    x->kept += bytes;
    return true;
}

bool expand_evaluate(expander *x, span s, expand_read read, target to)
{
    program      **at;
    uint32_t       hash = expand_hash(s);
    const program *known = find(x, s, read, hash, &at);
    if (known)
        return run(x, s, known, to);
    if (s.size > x->options.max_output) /* so that the size below does not overflow */
        return expand_fail(x, "the text grows beyond %zu bytes", x->options.max_output);
    program *p = (program *)malloc(sizeof *p + (s.size + 1) * (sizeof *p->steps + 1));
    if (!p)
        return expand_no_memory(x);
    reader r = { .x = x, .text = s, .s = s, .steps = p->steps };
    bool   good = read(&r);
    *p = (program){ .read = read, .hash = hash, .size = s.size, .count = r.count };
    bool ok = run(x, s, p, to) && (good || expand_tell(&r));
    if (ok && at && x->kept < KEPT_BYTES && !*at)
        return keep(x, p, s, at);
    free(p);
    return ok;
}

void expand_programs_free(expander *x)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        free(x->programs[i]);
}

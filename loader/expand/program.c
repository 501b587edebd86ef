/* program.c - expressions and lines with pastes as steps of a stack machine, which are run and kept for reuse.
 *
 * Loops and macros bring the same text again and again, so it is translated once.  Steps are in the order of
 * the text, and the steps before an error are run before the error is reported. */
#include <stdlib.h>
#include "internal.h"

enum {
    MAX_STACK = 7 * (EXPAND_MAX_NESTING + 1), /* a nesting level holds a value for each rank, and one more */
    KEPT_BYTES = 2 << 20,
    PROBES = 4
};

struct program {
    expand_read read;
    uint32_t    hash;
    size_t      size; /* of the text, which follows the steps */
    size_t      count;
    step        steps[];
};

/* ---- running --------------------------------------------------------------------------------------- */

/* The divisor is not 0. */
static int64_t divide(enum step_kind op, int64_t a, int64_t b)
{
    if (b == -1) /* the only quotient that overflows wraps around */
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
    case STEP_MUL:
        *value = (int64_t)((uint64_t)a * (uint64_t)b);
        return true;
    case STEP_DIV:
    case STEP_MOD:
        *value = divide(op, a, b);
        return true;
    case STEP_SHL:
    case STEP_SHR:
        return shift(x, op, a, b, value);
    case STEP_OR:
        *value = a | b;
        return true;
    case STEP_OR_NOT:
        *value = a | ~b;
        return true;
    case STEP_XOR:
        *value = a ^ b;
        return true;
    case STEP_AND:
        *value = a & b;
        return true;
    case STEP_ADD:
        *value = (int64_t)((uint64_t)a + (uint64_t)b);
        return true;
    case STEP_SUB:
        *value = (int64_t)((uint64_t)a - (uint64_t)b);
        return true;
    case STEP_EQ:
        *value = -(int64_t)(a == b);
        return true; /* true is -1, as in as */
    case STEP_NE:
        *value = -(int64_t)(a != b);
        return true;
    case STEP_LT:
        *value = -(int64_t)(a < b);
        return true;
    case STEP_LE:
        *value = -(int64_t)(a <= b);
        return true;
    case STEP_GE:
        *value = -(int64_t)(a >= b);
        return true;
    case STEP_GT:
        *value = -(int64_t)(a > b);
        return true;
    case STEP_LAND:
        *value = a && b;
        return true; /* but here it is 1 */
    case STEP_LOR:
        *value = a || b;
        return true;
    default:
        return false; /* there is no other operator */
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

/* The result replaces the left operand. */
static bool run_operator(expander *x, span s, const program *p, const step *at, int64_t *left, int64_t right)
{
    if (!right && (at->op == STEP_DIV || at->op == STEP_MOD))
        return expand_fail(x, "division by zero in the expression \"%.*s\"",
                           QUOTE(expression_at(s, p->steps, (size_t)(at - p->steps))));
    return apply(x, at->op, *left, right, left);
}

static bool run_text(expander *x, span s, const step *at, target to)
{
    if (at->op == STEP_LIST)
        return expand_list(x, span_of(s.data + at->at, at->size), to.out, to.nesting);
    return expand_text_add(x, to.out, s.data + at->at, at->size);
}

/* Write text to to.out, and the remaining value to *to.value. */
static bool run(expander *x, span s, const program *p, target to)
{
    int64_t     stack[MAX_STACK], *top = stack /* the next free one */, again = 0;
    const step *end = p->steps + p->count;
    bool        ok = true;
    for (const step *at = p->steps; ok && at < end; at++) {
        if (at->op <= LAST_OPERATOR) {
            int64_t right = at->has_right ? at->value : *--top;
            ok = run_operator(x, s, p, at, top - 1, right);
            continue;
        }
        switch (at->op) {
        case STEP_VALUE:
            *top++ = at->value;
            break;
        case STEP_SYMBOL:
            *top++ = x->e->values[at->value];
            break;
        case STEP_NEGATE:
            top[-1] = (int64_t)(0 - (uint64_t)top[-1]);
            break;
        case STEP_COMPLEMENT:
            top[-1] = ~top[-1];
            break;
        case STEP_NOT:
            top[-1] = !top[-1];
            break;
        case STEP_AGAIN:
            *top++ = again;
            break;
        case STEP_PASTE:
            again = at->value ? top[-1] : again;
            ok = expand_text_number(x, to.out, *--top);
            break;
        default:
            ok = run_text(x, s, at, to);
            break;
        }
    }
    if (to.value != NULL && top > stack)
        *to.value = stack[0];
    return ok;
}

/* ---- keeping --------------------------------------------------------------------------------------- */

/* The program of a text if it was kept, otherwise NULL; then *at is the place to keep it, or NULL if there is
 * no room. */
static const program *find(expander *x, span s, expand_read read, uint32_t hash, program ***at)
{
    program **first = &x->programs[hash % (PROGRAMS - PROBES)];
    for (*at = first; *at < first + PROBES; ++*at) {
        const program *p = **at;
        if (p == NULL)
            return NULL;
        if (p->hash == hash && p->size == s.size && p->read == read &&
            memcmp(p->steps + p->count, s.data, s.size) == 0)
            return p;
    }
    *at = NULL;
    return NULL;
}

/* Run the steps that r has read, which may end at an error. */
static program *make(const reader *r, expand_read read, uint32_t hash)
{
    size_t   size = r->text.size, steps = r->count * sizeof(step);
    program *p = (program *)malloc(sizeof *p + steps + size);
    if (p == NULL)
        return NULL;
    *p = (program){.read = read, .hash = hash, .size = size, .count = r->count};
    if (steps) /* as long as nothing was read, there is no array */
        memcpy(p->steps, r->x->steps_read, steps);
    if (size)
        memcpy(p->steps + r->count, r->text.data, size);
    return p;
}

bool expand_add_step(reader *r, step s)
{
    expander *x = r->x;
    if (!expand_grow(x, (void **)&x->steps_read, r->count, &x->step_cap, sizeof s))
        return false;
    x->steps_read[r->count++] = s;
    return true;
}

bool expand_evaluate(expander *x, span s, expand_read read, target to)
{
    program      **at;
    uint32_t       hash = expand_hash(s);
    const program *known = find(x, s, read, hash, &at);
    if (known != NULL)
        return run(x, s, known, to);
    reader   r = {.x = x, .text = s, .s = s};
    bool     good = read(&r);
    program *p = good || r.wrong != NULL ? make(&r, read, hash) : NULL;
    if (p == NULL)
        return expand_no_memory(x);
    size_t bytes = sizeof *p + p->count * sizeof *p->steps + p->size;
    bool   keep = good && at != NULL && bytes <= KEPT_BYTES / 16 && x->kept < KEPT_BYTES;
    if (keep) {
        *at = p;
        x->kept += bytes;
        return run(x, s, p, to);
    }
    bool ok = expand_hold(x, bytes) && run(x, s, p, to) && (good || expand_tell(&r));
    expand_release(x, bytes);
    free(p);
    return ok;
}

void expand_programs_free(expander *x)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        free(x->programs[i]);
    free(x->steps_read);
}

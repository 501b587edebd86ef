/* text.c - the expander's growing text, hashed names, errors and limits. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "internal.h"

enum {
    MAX_STEPS = 10 * 1000 * 1000, /* lines and BYTES_PER_STEP of text: a second or two of work */
    CHECK_STEPS = 4096,           /* between checks of the clock */
    MAX_WARNINGS = 100,
    MESSAGE_BYTES = 4096
};

/* ---- text ------------------------------------------------------------------------------------------ */

bool expand_text_reserve(expander *x, text *t, size_t extra)
{
    if (extra < t->cap - t->size)
        return true;
    if (extra > x->options.max_output || t->size > x->options.max_output - extra)
        return expand_fail(x, "the text grows beyond %zu bytes", x->options.max_output);
    size_t cap = t->cap ? t->cap : 64;
    while (cap <= t->size + extra)
        cap *= 2;
    char *data = (char *)realloc(t->data, cap);
    if (data == NULL)
        return expand_no_memory(x);
    t->data = data;
    t->cap = cap;
    return true;
}

bool expand_text_number(expander *x, text *t, int64_t value)
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t   size = 1 + (value < 0);
    for (uint64_t r = rest; r >= 10; r /= 10)
        size++;
    if (size >= t->cap - t->size && !expand_text_reserve(x, t, size))
        return false;
    t->size += size;
    char *c = t->data + t->size;
    *c = 0;
    do
        *--c = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        *--c = '-';
    return true;
}

void expand_text_free(text *t)
{
    free(t->data);
    *t = (text){0};
}

bool expand_grow_more(expander *x, void **items, uint32_t *cap, size_t size)
{
    if (*cap > UINT32_MAX / 4)
        return expand_no_memory(x);
    uint32_t want = *cap ? *cap * 2 : 16;
    void    *more = realloc(*items, want * size);
    if (more == NULL)
        return expand_no_memory(x);
    memset((char *)more + *cap * size, 0, (want - *cap) * size);
    *items = more;
    *cap = want;
    return true;
}

/* ---- names ----------------------------------------------------------------------------------------- */

static uint64_t eight_bytes(const char *from)
{
    uint64_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return bytes;
}

/* Sixteen bytes at a time, in two independent halves. */
uint32_t expand_hash(span s)
{
    const uint64_t factor = 0x9E3779B97F4A7C15u;
    const char    *at = s.data;
    uint64_t       a = s.size * factor, b = factor;
    size_t         left = s.size;
    for (; left > 16; left -= 16, at += 16) {
        a = ((a << 7 | a >> 57) ^ eight_bytes(at)) * factor;
        b = ((b << 7 | b >> 57) ^ eight_bytes(at + 8)) * factor;
    }
    if (left >= 8) { /* the two halves may overlap */
        a ^= eight_bytes(at);
        b ^= eight_bytes(at + left - 8);
    } else {
        for (; left; left--)
            b = b << 8 ^ (unsigned char)*at++;
    }
    a = (a ^ a >> 29) * factor;
    b = (b ^ b >> 32) * factor;
    a = (a + b) * factor;
    return (uint32_t)(a >> 32);
}

/* The slot that holds the name, or the free one where it belongs.  The table is never full. */
static name_slot *slot_of(const names *n, span name, uint32_t hash)
{
    for (uint32_t i = hash & (n->cap - 1);; i = (i + 1) & (n->cap - 1)) {
        name_slot *s = &n->slots[i];
        if (s->name == NULL ||
            (s->hash == hash && s->size == name.size && memcmp(s->name, name.data, name.size) == 0))
            return s;
    }
}

uint32_t expand_names_find(const names *n, span name)
{
    if (!n->cap)
        return NAME_NONE;
    const name_slot *s = slot_of(n, name, expand_hash(name));
    return s->name != NULL ? s->index : NAME_NONE;
}

static bool names_rehash(expander *x, names *n)
{
    names more = {NULL, n->cap ? n->cap * 2 : 16, n->count};
    more.slots = (name_slot *)calloc(more.cap, sizeof *more.slots);
    if (more.slots == NULL)
        return expand_no_memory(x);
    for (uint32_t i = 0; i < n->cap; i++) {
        const name_slot *s = &n->slots[i];
        if (s->name != NULL)
            *slot_of(&more, span_of(s->name, s->size), s->hash) = *s;
    }
    free(n->slots);
    *n = more;
    return true;
}

bool expand_names_put(expander *x, names *n, span name, uint32_t index)
{
    if (n->count >= n->cap / 2 && !names_rehash(x, n))
        return false;
    uint32_t   hash = expand_hash(name);
    name_slot *s = slot_of(n, name, hash);
    if (s->name == NULL) {
        if (!expand_hold(x, name.size + sizeof *s))
            return false;
        char *copy = (char *)malloc(name.size + 1);
        if (copy == NULL)
            return expand_no_memory(x);
        memcpy(copy, name.data, name.size);
        copy[name.size] = 0;
        *s = (name_slot){copy, name.size, hash, index};
        n->count++;
    }
    s->index = index;
    return true;
}

void expand_names_free(names *n)
{
    for (uint32_t i = 0; i < n->cap; i++)
        free(n->slots[i].name);
    free(n->slots);
    *n = (names){0};
}

/* ---- errors and limits ----------------------------------------------------------------------------- */

/* "FILE:LINE: what (in macro NAME, FILE:LINE)" and `end` appended to *t, which no limit bounds. */
static bool add_message(expander *x, text *t, place at, const char *what, const char *end)
{
    char line[MESSAGE_BYTES];
    expand_map_format(x->e, at, what, line, sizeof line);
    for (char *c = line; *c; c++) /* names and quoted text may contain any byte; a message is one line */
        if ((unsigned char)*c < ' ')
            *c = ' ';
    size_t size = strlen(line), end_size = strlen(end);
    char  *data = (char *)realloc(t->data, t->size + size + end_size + 1);
    if (data == NULL)
        return expand_no_memory(x);
    memcpy(data + t->size, line, size);
    memcpy(data + t->size + size, end, end_size + 1);
    t->data = data;
    t->size += size + end_size;
    t->cap = t->size + 1;
    return true;
}

void expand_record(expander *x, place at, const char *format, ...)
{
    char    what[512];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (x->status == PTXPACK_OK && add_message(x, &x->e->error, at, what, ""))
        x->status = PTXPACK_E_EXPAND;
}

bool expand_warn(expander *x, const char *format, ...)
{
    char    what[512];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (x->warning_count++ >= MAX_WARNINGS)
        return true;
    return add_message(x, &x->e->warnings, x->here, what, "\n");
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

bool expand_check_steps(expander *x)
{
    x->next_check = x->steps + CHECK_STEPS;
    if (!x->deadline_ms)
        x->deadline_ms = now_ms() + x->options.max_ms;
    if (x->steps > MAX_STEPS)
        return expand_fail(x, "the expansion takes more than %d million steps", MAX_STEPS / 1000000);
    if (now_ms() > x->deadline_ms)
        return expand_fail(x, "the expansion takes more than %u ms", x->options.max_ms);
    return true;
}

bool expand_hold(expander *x, size_t bytes)
{
    x->held += bytes;
    if (x->held > x->options.max_output)
        return expand_fail(x, "macros and their text take more than %zu bytes", x->options.max_output);
    return true;
}

void expand_release(expander *x, size_t bytes) { x->held -= bytes < x->held ? bytes : x->held; }

/* intrinsics.c - functions that kernels declare and the driver defines: vprintf, __assertfail, malloc, free.
 *
 * vprintf prints to the host's standard output immediately, each call in one piece, and returns the number of
 * arguments.  malloc allocates device memory; memory that a kernel does not free stays until the process
 * ends. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include "intrinsics.h"
#include "tools/emu/machine/arena.h"
#include "tools/emu/memory/memory.h"

enum { MOST_ARGUMENTS = 5, MOST_TEXT = 4096, MOST_WIDTH = 4096, MOST_SPECIFIER = 64 };

/* The call of one lane.  False: it failed, and the error was reported. */
typedef bool intrinsic_run(struct emu_warp *w, const struct emu_op *op, int lane, const uint64_t *arguments,
                           uint64_t *result);

struct intrinsic {
    const char    *name;
    intrinsic_run *run;
    uint8_t        result_bytes, argument_count, argument_bytes[MOST_ARGUMENTS];
};

/* ---- memory of the kernel ---------------------------------------------------------------------------- */
static bool load(struct emu_warp *w, const struct emu_op *op, int lane, uint64_t address, uint32_t bytes,
                 uint64_t *value)
{
    uint64_t       addresses[EMU_LANES] = {0};
    struct emu_ref refs[EMU_LANES];
    addresses[lane] = address;
    *value = 0;
    if (!emu_memory(w, op, 1u << lane, EMU_GENERIC, addresses, bytes, bytes, EMU_READ, refs))
        return false;
    memcpy(value, refs[lane].at, bytes);
    return true;
}

/* A string of the kernel, truncated to MOST_TEXT; `cap` must be larger. */
static bool load_text(struct emu_warp *w, const struct emu_op *op, int lane, uint64_t address, char *text)
{
    uint64_t byte = 1;
    size_t   n = 0;
    while (byte && n < MOST_TEXT) {
        if (!load(w, op, lane, address + n, 1, &byte))
            return false;
        text[n++] = (char)byte;
    }
    text[n - (byte == 0)] = '\0';
    return true;
}

/* ---- vprintf ----------------------------------------------------------------------------------------- */
struct printer {
    struct emu_warp     *w;
    const struct emu_op *op;
    int                  lane;
    uint64_t             next;  /* where the next argument is */
    uint32_t             count; /* of arguments taken */
    FILE                *out;
};

/* Arguments follow each other, each aligned to its own size. */
static bool take(struct printer *p, uint32_t bytes, uint64_t *value)
{
    p->next = (p->next + bytes - 1) / bytes * bytes;
    if (!load(p->w, p->op, p->lane, p->next, bytes, value))
        return false;
    p->next += bytes;
    p->count++;
    return true;
}

/* The text between '%' and the letter: flags, width, precision; without the length. */
struct specifier {
    char   text[MOST_SPECIFIER];
    size_t used;
    bool   wide;
    bool   valid;
};

static void add_char(struct specifier *s, char c)
{
    if (s->used + 8 < sizeof s->text) /* room for "ll", the letter and the end */
        s->text[s->used++] = c;
    else
        s->valid = false;
}

/* Digits, or '*' and an argument. */
static bool add_number(struct printer *p, struct specifier *s, const char **at)
{
    char digits[24];
    long number = 0;
    if (**at == '*') {
        uint64_t value;
        if (!take(p, 4, &value))
            return false;
        number = (int32_t)value;
        (*at)++;
    } else if (isdigit((unsigned char)**at)) {
        number = strtol(*at, (char **)(uintptr_t)at, 10);
    } else {
        return true;
    }
    if (number > MOST_WIDTH || number < -MOST_WIDTH)
        s->valid = false;
    snprintf(digits, sizeof digits, "%ld", s->valid ? number : 0);
    for (const char *c = digits; *c; c++)
        add_char(s, *c);
    return true;
}

static bool read_specifier(struct printer *p, struct specifier *s, const char **at)
{
    memset(s, 0, sizeof *s);
    s->valid = true;
    add_char(s, '%');
    while (**at && strchr("-+ #0", **at) != NULL)
        add_char(s, *(*at)++);
    if (!add_number(p, s, at))
        return false;
    if (**at == '.') {
        add_char(s, *(*at)++);
        if (!add_number(p, s, at))
            return false;
    }
    for (; **at && strchr("hljztL", **at) != NULL; (*at)++)
        s->wide = s->wide || (**at != 'h' && **at != 'L');
    return true;
}

static bool print_integer(struct printer *p, struct specifier *s, char letter)
{
    uint64_t value;
    bool     is_signed = letter == 'd' || letter == 'i';
    if (!take(p, s->wide ? 8 : 4, &value))
        return false;
    if (!s->wide)
        value = is_signed ? (uint64_t)(int64_t)(int32_t)value : value & 0xffffffffu;
    snprintf(s->text + s->used, sizeof s->text - s->used, "ll%c", letter);
    if (is_signed)
        fprintf(p->out, s->text, (long long)value);
    else
        fprintf(p->out, s->text, (unsigned long long)value);
    return true;
}

static bool print_text(struct printer *p, struct specifier *s)
{
    char    *text = (char *)malloc(MOST_TEXT + 1);
    uint64_t address;
    bool     done = text != NULL && take(p, 8, &address) && load_text(p->w, p->op, p->lane, address, text);
    s->text[s->used] = 's';
    if (done)
        fprintf(p->out, s->text, text);
    free(text);
    return done;
}

static bool print_other(struct printer *p, struct specifier *s, char letter)
{
    uint64_t value;
    double   number;
    if (letter == 'c') {
        s->text[s->used] = letter;
        if (!take(p, 4, &value))
            return false;
        fprintf(p->out, s->text, (int)(unsigned char)value);
        return true;
    }
    if (!take(p, 8, &value))
        return false;
    s->text[s->used] = letter;
    if (letter == 'p') {
        fprintf(p->out, s->text, (void *)(uintptr_t)value);
    } else {
        memcpy(&number, &value, sizeof number);
        fprintf(p->out, s->text, number);
    }
    return true;
}

static bool print_one(struct printer *p, const char **at)
{
    struct specifier s;
    const char      *from = *at - 1;
    if (!read_specifier(p, &s, at))
        return false;
    char letter = **at;
    if (letter)
        (*at)++;
    if (letter == '%') {
        fputc('%', p->out);
        return true;
    }
    if (s.valid && letter && strchr("diouxX", letter) != NULL)
        return print_integer(p, &s, letter);
    if (s.valid && letter == 's')
        return print_text(p, &s);
    if (s.valid && letter && strchr("cpeEfFgGaA", letter) != NULL)
        return print_other(p, &s, letter);
    fwrite(from, 1, (size_t)(*at - from), p->out); /* not a conversion: print it unchanged */
    return true;
}

static bool print(struct printer *p, const char *format)
{
    for (const char *at = format; *at;) {
        size_t plain = strcspn(at, "%");
        fwrite(at, 1, plain, p->out);
        at += plain;
        if (*at++ == '\0')
            break;
        if (!print_one(p, &at))
            return false;
    }
    return true;
}

static bool run_vprintf(struct emu_warp *w, const struct emu_op *op, int lane, const uint64_t *arguments,
                        uint64_t *result)
{
    char          *format = (char *)malloc(MOST_TEXT + 1), *text = NULL;
    size_t         bytes = 0;
    struct printer p = {w, op, lane, arguments[1], 0, NULL};
    bool           done = false;
    if (format != NULL)
        p.out = open_memstream(&text, &bytes);
    if (p.out == NULL)
        emu_fault(w, op, lane, 2, "no memory on the host to print");
    else
        done = load_text(w, op, lane, arguments[0], format) && print(&p, format);
    if (p.out != NULL && fclose(p.out) == 0 && done)
        fwrite(text, 1, bytes, stdout); /* in one piece, not mixed with the output of other threads */
    free(text);
    free(format);
    *result = p.count;
    return done;
}

/* ---- __assertfail ------------------------------------------------------------------------------------ */
/* (message, file, line, function, size of a character) */
static bool run_assertfail(struct emu_warp *w, const struct emu_op *op, int lane, const uint64_t *arguments,
                           uint64_t *result)
{
    static const int text_at[3] = {0, 1, 3};
    char            *texts = (char *)calloc(3, MOST_TEXT + 1), *text[3];
    bool             done = texts != NULL;
    for (int i = 0; i < 3 && done; i++) {
        text[i] = texts + (size_t)i * (MOST_TEXT + 1);
        done = load_text(w, op, lane, arguments[text_at[i]], text[i]);
        for (char *c = done ? text[i] : NULL; c != NULL && *c; c++)
            if (!isprint((unsigned char)*c))
                *c = '?';
    }
    if (done)
        emu_fault(w, op, lane, 710, "%s:%u: %s: the assertion `%s' failed", text[1], (unsigned int)arguments[2],
                  text[2], text[0]);
    free(texts);
    *result = 0;
    return false;
}

/* ---- malloc and free --------------------------------------------------------------------------------- */
static const char heap[] = "malloc in a kernel"; /* the name of these allocations */

static bool run_malloc(struct emu_warp *w, const struct emu_op *op, int lane, const uint64_t *arguments,
                       uint64_t *result)
{
    (void)w;
    (void)op;
    (void)lane;
    *result = arguments[0] ? emu_arena_alloc(arguments[0], EMU_MEMORY_DEVICE, heap, NULL) : 0;
    return true;
}

static bool run_free(struct emu_warp *w, const struct emu_op *op, int lane, const uint64_t *arguments,
                     uint64_t *result)
{
    struct emu_allocation found;
    *result = 0;
    if (arguments[0] == 0)
        return true;
    if (emu_arena_find(arguments[0], &found) && found.address == arguments[0] && found.name == heap &&
        emu_arena_free(arguments[0]))
        return true;
    emu_fault(w, op, lane, 719, "free of 0x%llx, which malloc did not return",
              (unsigned long long)arguments[0]);
    return false;
}

/* ---- calls ------------------------------------------------------------------------------------------- */
static const struct intrinsic intrinsics[] = {
    {"vprintf", run_vprintf, 4, 2, {8, 8}},
    {"__assertfail", run_assertfail, 0, 5, {8, 8, 4, 8, 8}},
    {"malloc", run_malloc, 8, 1, {8}},
    {"free", run_free, 0, 1, {8}},
};

const struct intrinsic *emu_intrinsic(const char *name)
{
    for (size_t i = 0; i < sizeof intrinsics / sizeof intrinsics[0]; i++)
        if (strcmp(intrinsics[i].name, name) == 0)
            return &intrinsics[i];
    return NULL;
}

/* The bytes of local memory that a call passes, of one lane. */
static size_t place_of(const struct emu_warp *w, int lane, const struct piece *p)
{
    return (size_t)lane * w->local_bytes + w->now->local + p->offset;
}

static void put_result(struct emu_warp *w, int lane, const struct piece *p, uint64_t value)
{
    size_t at = place_of(w, lane, p);
    memcpy(w->local + at, &value, p->bytes);
    for (size_t i = at; i < at + p->bytes; i++)
        w->local_defined[i / 8] |= (unsigned char)(1u << (i % 8));
}

static void exec_intrinsic(struct emu_warp *w, const struct emu_op *op, uint32_t mask)
{
    const struct call *call = (const struct call *)op->data;
    for (uint32_t left = mask; left; left &= left - 1) {
        const int l = __builtin_ctz(left);
        uint64_t  arguments[MOST_ARGUMENTS] = {0}, result = 0;
        for (uint32_t i = 0; i < call->argument_count; i++)
            memcpy(&arguments[i], w->local + place_of(w, l, &call->arguments[i]), call->arguments[i].bytes);
        if (!call->intrinsic->run(w, op, l, arguments, &result))
            return;
        if (call->result_count)
            put_result(w, l, &call->results[0], result);
    }
}

bool emu_intrinsic_decode(struct decoder *d, struct emu_op *op, const struct call *call)
{
    const struct intrinsic *wanted = call->intrinsic;
    bool                    fits = call->argument_count == wanted->argument_count &&
                call->result_count == (wanted->result_bytes != 0);
    for (uint32_t i = 0; i < call->argument_count && fits; i++)
        fits = call->arguments[i].reg == EMU_NO_REG && call->arguments[i].bytes == wanted->argument_bytes[i];
    if (fits && call->result_count)
        fits = call->results[0].reg == EMU_NO_REG && call->results[0].bytes == wanted->result_bytes;
    if (!fits)
        return decode_refuse(d, "%s takes %u arguments in .param variables of other sizes", wanted->name,
                             wanted->argument_count);
    op->exec = exec_intrinsic;
    return true;
}

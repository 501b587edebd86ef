/* hooks.c - the check of the caller's score_mod and mask_mod: macros that may compute and read, and nothing else.
 *
 * A text is spliced into the kernel's own, so it must not be able to change what the kernel does elsewhere: it may define
 * its own macros, declare its own registers, and use instructions of the list below.  What passes here may still be wrong;
 * the expander and the compiler then name the line of the text. */
#include "hooks.h"

#include "cuda.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *const attention_hook_names[HOOK_COUNT] = {"score_mod", "mask_mod"};

static const char *const prefixes[HOOK_COUNT] = {"SCORE_MOD", "MASK_MOD"};
static const struct part {
    const char *ending;
    int         bit;
} parts_known[] = {{"", HOOK_MOD},         {"_REGISTERS", HOOK_REGISTERS}, {"_ROW", HOOK_ROW},
                   {"_BLOCK", HOOK_BLOCK}, {"_UNIT", HOOK_UNIT},           {"_SHIFT", HOOK_SHIFT}};
static const int score_parts = HOOK_UNIT | HOOK_SHIFT; /* which only a score_mod may have */

/* They compute from registers, or read memory; none of them waits, jumps, writes memory, or depends on other threads. */
static const char *const instructions[] = {"abs",  "add",  "and",      "bfe",   "bfi",   "bfind", "brev",
                                           "clz",  "cnot", "copysign", "cos",   "cvt",   "cvta",  "div",
                                           "ex2",  "fma",  "ld",       "lg2",   "lop3",  "mad",   "mad24",
                                           "max",  "min",  "mov",      "mul",   "mul24", "neg",   "not",
                                           "or",   "popc", "prmt",     "rcp",   "rem",   "rsqrt", "sad",
                                           "selp", "set",  "setp",     "shf",   "shl",   "shr",   "sin",
                                           "slct", "sqrt", "sub",      "szext", "tanh",  "testp", "xor"};
static const char *const directives[] = {".reg",  ".macro", ".endm", ".exitm",  ".set",    ".rept",  ".irp",
                                         ".irpc", ".endr",  ".if",   ".elseif", ".else",   ".endif", ".ifb",
                                         ".ifnb", ".ifc",   ".ifnc", ".ifdef",  ".ifndef", ".ifeq",  ".ifne",
                                         ".ifgt", ".ifge",  ".iflt", ".ifle",   ".error"};
static const char        own_register[] = "%my_", own_name[] = "MY_";

/* ---- words ------------------------------------------------------------------------------------------ */
typedef struct word {
    const char *at;
    size_t      size;
} word;

/* What is being read: a text, and where. */
typedef struct reader {
    const char *at;
    int         hook, line, found; /* the macros of parts_known so far */
    const int  *lines;             /* those that are named for them; NULL: the same */
    char       *refusal;           /* PLAN_LINE bytes */
} reader;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

static bool is_word(word w, const char *text)
{
    return w.size == strlen(text) && memcmp(w.at, text, w.size) == 0;
}
static bool begins(word w, const char *text)
{
    return w.size >= strlen(text) && memcmp(w.at, text, strlen(text)) == 0;
}
static bool is_listed(word w, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_word(w, list[i]))
            return true;
    return false;
}
#define LISTED(w, list) is_listed(w, list, sizeof(list) / sizeof((list)[0]))

static bool refuse(const reader *r, const char *what, word w)
{
    const int shown = w.size < 60 ? (int)w.size : 60;
    plan_refuse(r->refusal, PTXPACK_E_ARG, "%s, line %d: %.*s %s", attention_hook_names[r->hook],
                r->lines != NULL ? r->lines[r->line - 1] : r->line, shown, w.at, what);
    return false;
}

static void skip_blanks(const char **at, const char *end)
{
    while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
        ++*at;
}

/* The letters from `at` on, after any of `leading` that come first. */
static word take_word(const char **at, const char *end, const char *leading)
{
    word w = {*at, 0};
    while (*at < end && **at != '\0' && strchr(leading, **at) != NULL)
        ++*at;
    while (*at < end && is_letter(**at))
        ++*at;
    w.size = (size_t)(*at - w.at);
    return w;
}

/* ---- lines -------------------------------------------------------------------------------------------- */
/* A macro: one of the hook's, or one of the text's own. */
static bool read_macro(reader *r, const char *at, const char *end)
{
    const char *prefix = prefixes[r->hook];
    skip_blanks(&at, end);
    const word name = take_word(&at, end, "");
    if (begins(name, own_name))
        return true;
    for (size_t i = 0; i < sizeof parts_known / sizeof parts_known[0] && begins(name, prefix); i++)
        if (is_word((word){name.at + strlen(prefix), name.size - strlen(prefix)}, parts_known[i].ending) &&
            ((parts_known[i].bit & score_parts) == 0 || r->hook == HOOK_SCORE)) {
            r->found |= parts_known[i].bit;
            return true;
        }
    return refuse(r,
                  r->hook == HOOK_SCORE ? "is no macro of a score_mod; names of its own begin with MY_"
                                        : "is no macro of a mask_mod; names of its own begin with MY_",
                  name);
}

/* Registers, and the arguments that a macro may not change: as the first operand they are written. */
static bool read_operands(reader *r, const char *at, const char *end, bool writes)
{
    static const char *const constant[] = {"\\q", "\\kv", "\\b", "\\h", "\\r", "\\c", "\\cf", "\\rows", "\\in"};
    bool                     first = writes;
    while (at < end) {
        skip_blanks(&at, end);
        const char *from = at;
        const word  w = take_word(&at, end, "%\\");
        if (begins(w, "%") && !begins(w, own_register))
            return refuse(r, "is a register of the kernel; those of a hook begin with %my_", w);
        if (first && LISTED(w, constant))
            return refuse(r, "must not be changed", w);
        first = first && (w.size == 0 || w.at[0] == '{');
        at += at == from;
    }
    return true;
}

static bool read_directive(reader *r, word name, const char *at, const char *end)
{
    if (!LISTED(name, directives))
        return refuse(r, "is not a directive that a hook may use", name);
    if (is_word(name, ".macro"))
        return read_macro(r, at, end);
    if (is_word(name, ".set")) {
        skip_blanks(&at, end);
        const word symbol = take_word(&at, end, "");
        return begins(symbol, own_name) ||
               refuse(r, "is a symbol of the kernel; those of a hook begin with MY_", symbol);
    }
    return !is_word(name, ".reg") || read_operands(r, at, end, true);
}

static bool read_instruction(reader *r, word name, const char *at, const char *end)
{
    static const char global[] = ".global";
    const char       *modifiers = at;
    while (at < end && (*at == '.' || *at == ':' || is_letter(*at)))
        at++;
    if (memchr(modifiers, ':', (size_t)(at - modifiers)) != NULL)
        return refuse(r, "is a label; a hook cannot jump", name);
    if (!LISTED(name, instructions))
        return refuse(r, "is not an instruction that a hook may use", name);
    if (is_word(name, "ld") && !begins((word){modifiers, (size_t)(at - modifiers)}, global))
        return refuse(r, "needs .global: a hook reads no other memory", name);
    return read_operands(r, at, end, true);
}

/* AUX_LOAD type, d, ..: one argument after another, neither named nor quoted, so that the second one is what is written.  The expander
 * knows the types. */
static bool read_load(reader *r, const char *at, const char *end)
{
    skip_blanks(&at, end);
    const word type = take_word(&at, end, "");
    if (type.size == 0)
        return refuse(r, "is not followed by a type", (word){"AUX_LOAD", 8});
    for (const char *c = at; c < end; c++)
        if (*c == '"' || *c == '=')
            return refuse(r, "is not for the arguments of AUX_LOAD", (word){c, 1});
    skip_blanks(&at, end);
    if (at == end || *at != ',')
        return refuse(r, "is not followed by what AUX_LOAD loads it to", type);
    return read_operands(r, at, end, true);
}

/* A line without its comment. */
static bool read_line(reader *r, const char *at, const char *end)
{
    skip_blanks(&at, end);
    while (at < end && (*at == '{' || *at == '}'))
        at++, skip_blanks(&at, end);
    if (at < end && *at == '@') { /* a guard, which is a predicate of the text's own */
        const word guard = (at += 1 + (at + 1 < end && at[1] == '!'), take_word(&at, end, "%\\"));
        if (!begins(guard, own_register) && !begins(guard, "\\"))
            return refuse(r, "is no predicate of the hook's own; these begin with %my_", guard);
        skip_blanks(&at, end);
    }
    if (at == end)
        return true;
    const word name = take_word(&at, end, ".\\");
    if (name.size == 0)
        return refuse(r, "begins no instruction", (word){at, 1});
    if (name.at[0] == '.')
        return read_directive(r, name, at, end);
    if (is_word(name, "AUX_LOAD"))
        return read_load(r, at, end);
    if (is_word(name, "AUX") || begins(name, own_name))
        return read_operands(r, at, end, false);
    return read_instruction(r, name, at, end);
}

/* Several statements on a line are read one by one; a macro call takes all of its line. */
static bool read_statements(reader *r, const char *at, const char *end)
{
    while (at < end) {
        const char *stop = (const char *)memchr(at, ';', (size_t)(end - at));
        if (!read_line(r, at, stop != NULL ? stop : end))
            return false;
        at = stop != NULL ? stop + 1 : end;
    }
    return true;
}

ptxpack_status attention_check_hook(const char *text, int hook, int *parts, char line[PLAN_LINE])
{
    *parts = attention_hook_is_cuda(text) ? HOOK_MOD : 0; /* NVRTC checks that */
    return text == NULL || *parts != 0 ? PTXPACK_OK : attention_check_hook_of(text, hook, NULL, parts, line);
}

ptxpack_status attention_check_hook_of(const char *text, int hook, const int *lines, int *parts,
                                       char line[PLAN_LINE])
{
    reader r = {.at = text, .hook = hook, .line = 1, .lines = lines, .refusal = line};
    *parts = 0;
    for (; *r.at != '\0'; r.line++) {
        const char *end = r.at + strcspn(r.at, "\n"), *comment = r.at;
        while (comment < end && !(comment[0] == '/' && (comment[1] == '/' || comment[1] == '*')))
            comment++;
        if (comment < end && comment[1] == '*')
            return plan_refuse(line, PTXPACK_E_ARG, "%s, line %d: comments begin with //",
                               attention_hook_names[hook], r.line);
        if (!read_statements(&r, r.at, comment))
            return PTXPACK_E_ARG;
        r.at = *end != '\0' ? end + 1 : end;
    }
    if ((r.found & HOOK_MOD) == 0)
        return plan_refuse(line, PTXPACK_E_ARG, "%s has no macro %s", attention_hook_names[hook],
                           prefixes[hook]);
    *parts = r.found;
    return PTXPACK_OK;
}

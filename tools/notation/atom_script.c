/* atom_script.c - lines of C++ about atoms: names are replaced by the text that they stand for. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atom_script.h"
#include "layout_calls.h"
#include "layout_script.h"
#include "tools/command.h"

enum { DEFINITIONS = 128, TEXT_BYTES = 16384 };

typedef struct definition {
    char *name, *value;
} definition;

typedef struct script {
    definition        definitions[DEFINITIONS];
    int               count;
    bool              shown;
    atom_script_show *show;
    void             *context;
} script;

bool atom_script_is(const char *text) { return strpbrk(text, ";=\n(") != NULL; }

/* ---- names -------------------------------------------------------------------------------------------- */
static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t name_bytes(const char *text, const char *end)
{
    const char *at = text;
    while (at < end && in_name(*at))
        at++;
    return (size_t)(at - text);
}

/* The latest definition of a name; NULL: there is none. */
static const char *value_of(const script *s, const char *name, size_t bytes)
{
    for (int i = s->count - 1; i >= 0; i--)
        if (strlen(s->definitions[i].name) == bytes && memcmp(s->definitions[i].name, name, bytes) == 0)
            return s->definitions[i].value;
    return NULL;
}

/* ---- the text of an expression ---------------------------------------------------------------------- */
typedef struct text_writer {
    char  *text;
    size_t used;
    bool   full;
} text_writer;

static void put(text_writer *w, const char *text, size_t bytes)
{
    w->full = w->full || w->used + bytes >= TEXT_BYTES;
    if (w->full)
        return;
    memcpy(w->text + w->used, text, bytes);
    w->used += bytes;
    w->text[w->used] = '\0';
}

/* Where the longest name with a value ends that begins here, threadIdx.x among them; `at`: there is none. */
static const char *valued_end(const script *s, const char *at, const char *end)
{
    const char *last = at;
    while (last < end && (in_name(*last) || *last == '.'))
        last++;
    while (last > at && value_of(s, at, (size_t)(last - at)) == NULL)
        last--;
    return last > at && (last == end || !in_name(*last)) ? last : at;
}

/* Writes a name, or its value; of Kernel_traits::NAME the last part may be the one with a value.  Returns where it ends. */
static const char *put_name(const script *s, text_writer *w, const char *at, const char *end, bool member)
{
    const char *begin = at, *last = at;
    at += name_bytes(at, end);
    while (end - at > 2 && at[0] == ':' && at[1] == ':' && in_name(at[2])) {
        last = at + 2;
        at = last + name_bytes(last, end);
    }
    if (at - begin == 8 && memcmp(begin, "typename", 8) == 0)
        return at;
    const char *valued = member ? last : valued_end(s, last, end);
    if (valued == last) {
        put(w, begin, (size_t)(at - begin));
        return at;
    }
    const char *value = value_of(s, last, (size_t)(valued - last));
    size_t      bytes = strlen(value);
    put(w, value, bytes);
    bool called = bytes > 0 && value[bytes - 1] == ')'; /* decltype of a call: a value already */
    return valued + (called && end - valued >= 2 && memcmp(valued, "{}", 2) == 0 ? 2 : 0);
}

/* [at, end) with values in the place of names, and one blank in the place of several; false: it is too long. */
static bool expand(const script *s, const char *at, const char *end, char text[TEXT_BYTES])
{
    text_writer w = {.text = text};
    text[0] = '\0';
    while (at < end) {
        char last = w.used > 0 ? text[w.used - 1] : ' ';
        if (*at == '"') {
            const char *close = (const char *)memchr(at + 1, '"', (size_t)(end - at - 1));
            close = close != NULL ? close + 1 : end;
            put(&w, at, (size_t)(close - at));
            at = close;
        } else if (in_name(*at)) {
            at = put_name(s, &w, at, end, last == '.');
        } else if (isspace((unsigned char)*at)) {
            put(&w, " ", last != ' ');
            at++;
        } else {
            put(&w, at++, 1);
        }
    }
    while (w.used > 0 && text[w.used - 1] == ' ')
        text[--w.used] = '\0';
    return !w.full;
}

/* Where the bracket at *open is closed; NULL: nowhere. */
static char *closing(char *open)
{
    int depth = 0;
    for (char *c = open; *c != '\0'; c++) {
        depth += *c == '(';
        depth -= *c == ')';
        if (depth == 0)
            return c;
    }
    return NULL;
}

/* The text inside of NAME( ), where all of the text is that call; NULL: it is not.  The bracket is cut off. */
static char *inside_of(char *text, const char *name)
{
    size_t bytes = strlen(name);
    if (strncmp(text, "cute::", 6) == 0)
        text += 6;
    if (strncmp(text, name, bytes) != 0 || text[bytes] != '(')
        return NULL;
    char *close = closing(text + bytes);
    if (close == NULL || (close[1] != '\0' && strcmp(close + 1, "{}") != 0))
        return NULL;
    *close = '\0';
    return text + bytes + 1;
}

/* std::conditional_t<true,A,B>, where the condition is a constant, becomes A, and with false B. */
static void choose(char *text)
{
    static const char call[] = "conditional_t<";
    char             *begin = strncmp(text, "std::", 5) == 0 ? text + 5 : text, *part[4];
    int               parts = 0, depth = 0;
    if (strncmp(begin, call, sizeof call - 1) != 0)
        return;
    for (char *c = begin + sizeof call - 2; *c != '\0' && parts < 4; c++) {
        if (depth == 1 && (*c == ',' || *c == '>'))
            part[parts++] = c;
        depth += strchr("([{<", *c) != NULL;
        depth -= strchr(")]}>", *c) != NULL;
        if (depth == 1 && parts == 0)
            part[parts++] = c;
    }
    if (parts != 4 || part[3][1] != '\0')
        return;
    const char *condition = part[0] + 1 + strspn(part[0] + 1, " ");
    bool        yes = strncmp(condition, "true", 4) == 0 || *condition == '1';
    if (!yes && strncmp(condition, "false", 5) != 0 && *condition != '0')
        return;
    char *from = part[yes ? 1 : 2] + 1;
    *part[yes ? 2 : 3] = '\0';
    from += strspn(from, " ");
    memmove(text, from, strlen(from) + 1);
}

/* ---- statements ----------------------------------------------------------------------------------------- */
static int refuse(const char *why, const char *at, size_t bytes)
{
    command_fail("atom", "%s: %.*s", why, (int)(bytes < 60 ? bytes : 60), at);
    return COMMAND_USAGE;
}

static int define(script *s, const char *name, size_t bytes, const char *value)
{
    if (s->count == DEFINITIONS)
        return refuse("more names than can be kept", name, bytes);
    definition *d = &s->definitions[s->count];
    *d = (definition){strndup(name, bytes), strdup(value)};
    s->count++;
    return d->name != NULL && d->value != NULL ? COMMAND_OK : command_fail("atom", "out of memory");
}

/* "print_mma_content("title", mma)": what stands behind the title. */
static char *behind_title(char *text)
{
    char *close = text[0] == '"' ? strchr(text + 1, '"') : NULL;
    if (close == NULL)
        return text;
    close += 1 + strspn(close + 1, " ");
    return close + strspn(close, ", ");
}

/* The first of several members that the text calls, outside of all brackets; *open: its bracket.  NULL: none. */
static char *member_call(char *text, const char *const *names, int count, char **open, int *which)
{
    int depth = 0;
    for (char *c = text; *c != '\0'; c++) {
        depth += strchr("([{<", *c) != NULL;
        depth -= strchr(")]}>", *c) != NULL;
        for (int i = 0; depth == 0 && *c == '.' && i < count; i++) {
            size_t bytes = strlen(names[i]);
            if (strncmp(c + 1, names[i], bytes) != 0 || c[1 + bytes] != '(')
                continue;
            *open = c + 1 + bytes;
            *which = i;
            return c;
        }
    }
    return NULL;
}

/* The tensor in mma.get_slice(t).partition_fragment_A(tensor), or NULL. */
static char *tensor_of_fragment(char *text)
{
    static const char *const names[] = {"partition_fragment_A", "partition_fragment_B", "partition_fragment_C"};
    char                    *open;
    int                      which;
    char                    *close = member_call(text, names, 3, &open, &which) != NULL ? closing(open) : NULL;
    if (close == NULL || close[1] != '\0')
        return NULL;
    *close = '\0';
    return open + 1;
}

/* What follows get_slice(t): nothing, or the member that says which part.  False: something else. */
static bool read_part(char *text, atom_script_part *part)
{
    static const char *const names[] =
        {"partition_S",          "partition_D",          "partition_A",          "partition_B", "partition_C",
         "partition_fragment_A", "partition_fragment_B", "partition_fragment_C", "retile_S",    "retile_D"};
    static const char *const operands[] = {NULL, NULL, "A", "B", "C", "A", "B", "C", NULL, NULL};
    enum { RETILE = 8 };
    char *open;
    int   which;
    if (*text == '\0')
        return true;
    if (member_call(text, names, sizeof names / sizeof names[0], &open, &which) != text)
        return false;
    char *close = closing(open);
    if (close == NULL || close[1] != '\0')
        return false;
    *close = '\0';
    char *tensor = which < RETILE ? open + 1 : tensor_of_fragment(open + 1);
    part->operand = operands[which];
    part->tensor = tensor;
    part->fragment = tensor == NULL ? open + 1 : NULL;
    return true;
}

/* partition_fragment_C(mma, shape): what every thread has.  Cuts the shape off; NULL: it is another expression. */
static char *fragment_of_shape(char *text, atom_script_part *part)
{
    static const struct {
        const char *call, *operand;
    } calls[] = {{"partition_fragment_A", "A"}, {"partition_fragment_B", "B"}, {"partition_fragment_C", "C"}};
    char *mma = NULL;
    int   depth = 0;
    for (size_t i = 0; i < 3 && mma == NULL; i++) {
        mma = inside_of(text, calls[i].call);
        part->operand = calls[i].operand;
    }
    for (char *c = mma; c != NULL && *c != '\0'; c++) {
        depth += strchr("([{<", *c) != NULL;
        depth -= strchr(")]}>", *c) != NULL;
        if (depth == 0 && *c == ',') {
            *c = '\0';
            part->tensor = c + 1 + strspn(c + 1, " ");
            return mma;
        }
    }
    return NULL;
}

/* An expression, perhaps with get_slice(t) behind it, and what that thread has. */
static int show_value(const script *s, const char *value)
{
    static const char *const slices[] = {"get_slice", "get_thread_slice"};
    char                     text[TEXT_BYTES], *open, *end;
    int                      which;
    atom_script_part         part = {.tensor = NULL};
    strcpy(text, value);
    char *mma = fragment_of_shape(text, &part);
    if (mma != NULL)
        return s->show(s->context, mma, &part, false);
    part.operand = NULL;
    char *slice = member_call(text, slices, 2, &open, &which), *close = slice != NULL ? closing(open) : NULL;
    if (close == NULL)
        return s->show(s->context, text, NULL, false);
    *slice = *close = '\0';
    part.thread = strtol(open + 1, &end, 10);
    if (end == open + 1 || *end != '\0')
        return refuse("a thread is a number, such as one that a line gave before, idx = 9", open + 1,
                      strlen(open + 1));
    if (!read_part(close + 1, &part))
        return refuse("this is not a part that a thread has", close + 1, strlen(close + 1));
    return s->show(s->context, text, &part, false);
}

static int show(script *s, char *text)
{
    static const struct {
        const char *name;
        bool        picture;
    } prints[] = {{"print_latex", true}, {"print_mma_content", true}, {"print", false}};
    for (size_t i = 0; i < sizeof prints / sizeof prints[0]; i++) {
        char *inside = inside_of(text, prints[i].name);
        if (inside == NULL)
            continue;
        inside = behind_title(inside);
        s->shown |= *inside != '\0'; /* print("\n") shows nothing */
        if (*inside == '\0' || !prints[i].picture)
            return *inside == '\0' ? COMMAND_OK : show_value(s, inside);
        return s->show(s->context, inside, NULL, true);
    }
    s->shown = true;
    return show_value(s, text);
}

/* TYPE NAME, where TYPE has a value: NAME has the same. */
static const char *declared(const script *s, const char *at, const char *end, const char **name, size_t *bytes)
{
    size_t      type = name_bytes(at, end);
    const char *value = type > 0 ? value_of(s, at, type) : NULL, *behind = at + type;
    while (behind < end && isspace((unsigned char)*behind))
        behind++;
    *name = behind;
    *bytes = name_bytes(behind, end);
    return *bytes > 0 && behind + *bytes == end ? value : NULL;
}

static int run_statement(script *s, const char *text, size_t at, size_t end)
{
    char        expanded[TEXT_BYTES];
    const char *name;
    size_t      bytes, value = statement_name(text, at, end, &name, &bytes);
    while (end > at && isspace((unsigned char)text[end - 1]))
        end--;
    const char *same = value == 0 ? declared(s, text + at, text + end, &name, &bytes) : NULL;
    if (same != NULL)
        return define(s, name, bytes, same);
    while (value > 0 && value < end && isspace((unsigned char)text[value]))
        value++;
    if (!expand(s, text + (value > 0 ? value : at), text + end, expanded))
        return refuse("too long when its names are replaced", text + at, end - at);
    if (value == 0)
        return show(s, expanded);
    choose(expanded);
    char *inside = inside_of(expanded, "decltype");
    return define(s, name, bytes, inside != NULL ? inside : expanded);
}

/* Past what begins no statement: brackets around a block. */
static size_t skip_block(const char *text, size_t bytes, size_t at)
{
    while (at < bytes && (isspace((unsigned char)text[at]) || strchr(";{}", text[at]) != NULL))
        at++;
    return at;
}

int atom_script_run(const char *text, atom_script_show *shows, void *context)
{
    script s = {.show = shows, .context = context};
    char  *copy = strdup(text);
    size_t bytes = strlen(text), at = 0, end = 0;
    bool   inside = false;
    int    status = copy != NULL ? COMMAND_OK : command_fail("atom", "out of memory");
    if (copy != NULL)
        script_blank_comments(copy, bytes, &inside);
    while (status == COMMAND_OK) {
        at = skip_block(copy, bytes, at);
        if (!script_next(copy, bytes, &at, &end))
            break;
        status = run_statement(&s, copy, at, end);
        at = end;
    }
    if (status == COMMAND_OK && !s.shown)
        status = s.count > 0 ? show_value(&s, s.definitions[s.count - 1].value)
                             : refuse("there is nothing to show", text, bytes);
    for (int i = 0; i < s.count; i++) {
        free(s.definitions[i].name);
        free(s.definitions[i].value);
    }
    free(copy);
    return status;
}

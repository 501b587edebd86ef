/* layout_session.c - what outlives an expression: variables, and the memory behind tensors. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "layout_calls.h"
#include "loader/loader.h"

enum { NAME_BYTES = 64 };

/* What a name stands for: a value; a type of elements; or, if its last assignment failed, nothing. */
typedef struct variable {
    struct variable    *next;
    char                name[NAME_BYTES];
    const element_type *type;
    bool                failed;
    expr_value          value;
} variable;

typedef struct block {
    struct block *next;
    void         *memory;
} block;

struct expr_session {
    variable *variables;
    block    *memories, *texts;
};

/* ---- memory ------------------------------------------------------------------------------------------- */
expr_session *expr_open(void) { return (expr_session *)calloc(1, sizeof(expr_session)); }

static void free_blocks(block **list)
{
    while (*list != NULL) {
        block *first = *list;
        *list = first->next;
        free(first->memory);
        free(first);
    }
}

void expr_close(expr_session *s)
{
    if (s == NULL)
        return;
    while (s->variables != NULL) {
        variable *first = s->variables;
        s->variables = first->next;
        free(first);
    }
    free_blocks(&s->memories);
    free_blocks(&s->texts);
    free(s);
}

static bool keep(block **list, void *memory)
{
    block *b = (block *)malloc(sizeof *b);
    if (b == NULL) {
        free(memory);
        return false;
    }
    *b = (block){*list, memory};
    *list = b;
    return true;
}

bool session_keep_memory(expr_session *s, void *memory) { return keep(&s->memories, memory); }

bool session_keep_text(expr_session *s, char *text) { return keep(&s->texts, text); }

void session_drop_texts(expr_session *s) { free_blocks(&s->texts); }

/* ---- variables ---------------------------------------------------------------------------------------- */
static variable *find(const expr_session *s, const char *name, size_t bytes)
{
    for (variable *v = s->variables; v != NULL; v = v->next)
        if (strlen(v->name) == bytes && memcmp(v->name, name, bytes) == 0)
            return v;
    return NULL;
}

const expr_value *session_variable(const expr_session *s, const char *name, size_t bytes)
{
    const variable *v = find(s, name, bytes);
    return v != NULL && v->type == NULL && !v->failed ? &v->value : NULL;
}

/* The variable of this name, made if there is none; NULL and a message where that cannot be. */
static variable *named(expr_session *s, const char *name, size_t bytes)
{
    variable *v = bytes < NAME_BYTES ? find(s, name, bytes) : NULL;
    if (bytes >= NAME_BYTES)
        ptxpack_fail(NULL, PTXPACK_E_ARG, "the name of a variable has more than %d letters", NAME_BYTES - 1);
    if (v != NULL || bytes >= NAME_BYTES)
        return v;
    v = (variable *)calloc(1, sizeof *v);
    if (v == NULL) {
        ptxpack_fail(NULL, PTXPACK_E_MEMORY, "out of memory");
        return NULL;
    }
    memcpy(v->name, name, bytes);
    v->next = s->variables;
    s->variables = v;
    return v;
}

bool session_assign(expr_session *s, const char *name, size_t bytes, const expr_value *value)
{
    if (value->kind == EXPR_TEXT || value->kind == EXPR_VALUES)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%.*s: a text is printed, not kept in a variable",
                            (int)(bytes < NAME_BYTES ? bytes : NAME_BYTES), name) == PTXPACK_OK;
    variable *v = named(s, name, bytes);
    if (v == NULL)
        return false;
    v->value = *value;
    v->type = NULL;
    v->failed = false;
    return true;
}

bool session_assign_type(expr_session *s, const char *name, size_t bytes, const element_type *type)
{
    variable *v = named(s, name, bytes);
    if (v == NULL)
        return false;
    v->type = type;
    v->failed = false;
    return true;
}

void session_forget(expr_session *s, const char *name, size_t bytes)
{
    variable *v = bytes < NAME_BYTES ? named(s, name, bytes) : NULL;
    if (v != NULL)
        v->failed = true;
}

bool session_forgot(const expr_session *s, const char *name, size_t bytes)
{
    const variable *v = find(s, name, bytes);
    return v != NULL && v->failed;
}

const element_type *session_type(const expr_session *s, const char *name, size_t bytes)
{
    const variable *v = find(s, name, bytes);
    return v != NULL && !v->failed && v->type != NULL ? v->type : element_type_of(name, bytes);
}

/* ---- statements ---------------------------------------------------------------------------------------- */
static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Where the first '=' outside of all brackets stands; `bytes`: there is none. */
static size_t assignment_at(const char *text, size_t from, size_t bytes)
{
    int depth = 0;
    for (size_t i = from; i < bytes; i++) {
        char c = text[i];
        if (c == '(' || c == '[' || c == '{' || c == '<')
            depth++;
        else if (c == ')' || c == ']' || c == '}' || c == '>')
            depth--;
        else if (c == '"')
            return bytes;
        else if (c == '=' && depth == 0)
            return i;
    }
    return bytes;
}

/* The '.' of params.seqlen, a name like any other. */
static bool is_member(const char *text, size_t at, size_t from)
{
    return text[at] == '.' && at > from && in_name(text[at - 1]) && in_name(text[at + 1]);
}

size_t statement_name(const char *text, size_t from, size_t bytes, const char **name, size_t *name_bytes)
{
    size_t equals = assignment_at(text, from, bytes), end = equals, begin;
    if (equals == bytes)
        return 0;
    while (end > from && isspace((unsigned char)text[end - 1]))
        end--;
    for (begin = end; begin > from && (in_name(text[begin - 1]) || is_member(text, begin - 1, from));)
        begin--;
    if (begin == end || isdigit((unsigned char)text[begin]))
        return 0;
    for (size_t i = from; i < begin; i++) /* a type, such as "const auto &" or "Layout<Shape<_2>> " */
        if (!in_name(text[i]) && strchr(" \t:<>,&*", text[i]) == NULL)
            return 0;
    *name = text + begin;
    *name_bytes = end - begin;
    return equals + 1;
}

/* find.c - an atom by its name: the patterns of atoms.def read backwards. */
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include "internal.h"
#include "inspect.h"
#include "host/layout/notation.h"
#include "loader/loader.h"

static const struct member unknown = {-1, -1, -1, -1, -1, false};

/* ---- matching ----------------------------------------------------------------------------------------- */
/* The number at *text; -1 when there is none or it is too long to be an extent. */
static int take_number(const char **text)
{
    int number = 0, digits = 0;
    if (**text == '0') /* no extent begins so */
        return -1;
    for (; isdigit((unsigned char)**text) && digits < 5; digits++)
        number = 10 * number + (*(*text)++ - '0');
    return digits > 0 && digits < 5 ? number : -1;
}

/* Is the type at *text one of `set`, and *type if that is known?  No name in a set begins another. */
static bool take_type(const char **text, unsigned set, const char *(*name_of)(ptxpack_value_type), int *type)
{
    for (int t = 0; t < PTXPACK_VALUE_TYPE_COUNT; t++) {
        const char *name = name_of((ptxpack_value_type)t);
        size_t      length = strlen(name);
        if ((set >> t & 1) && strncasecmp(*text, name, length) == 0) {
            *text += length;
            bool fits = *type < 0 || *type == t;
            *type = t;
            return fits;
        }
    }
    return false;
}

/* Match the $.. at *at with *text; both move past what was read. */
static bool match_one(const struct family *f, const char **at, const char **text, struct member *x)
{
    const char *(*name_of)(ptxpack_value_type) = ptxpack_value_name;
    char letter = *++*at;
    if (letter == 'T') {
        name_of = ptxpack_value_cute;
        letter = (char)toupper((unsigned char)*++*at);
    }
    ++*at;
    switch (letter) {
    case 'M':
        x->m = take_number(text);
        return x->m > 0;
    case 'K':
        return take_number(text) == f->k;
    case 'D':
        return take_type(text, f->d, name_of, &x->d);
    case 'A':
        return take_type(text, f->a, name_of, &x->a);
    case 'B':
        return take_type(text, f->b, name_of, &x->b);
    default:
        x->n = take_number(text);
        return x->n > 0;
    }
}

/* Names are found whatever their case. */
static bool same_letter(char a, char b) { return toupper((unsigned char)a) == toupper((unsigned char)b); }

static bool match(const struct family *f, const char *pattern, const char *text, struct member *x)
{
    *x = unknown;
    while (*pattern) {
        if (*pattern == '$' ? !match_one(f, &pattern, &text, x) : !same_letter(*pattern++, *text++))
            return false;
    }
    x->saturate = (f->flags & SATURABLE) && strcasecmp(text, "_SATURATE") == 0;
    x->m = x->m < 0 ? f->m : x->m;
    x->n = x->n < 0 ? f->n : x->n;
    x->d = x->d < 0 ? __builtin_ctz(f->d) : x->d;
    x->a = x->a < 0 ? __builtin_ctz(f->a) : x->a;
    x->b = x->b < 0 ? __builtin_ctz(f->b) : x->b;
    return (*text == '\0' || x->saturate) && atom_has_tile(f, x->m, x->n);
}

static ptxpack_status say_unknown(const char *wanted)
{
    struct near_names    near;
    size_t               count;
    const struct family *families = atom_families(&count);
    bool                 is_template = strchr(wanted, '<') != NULL;
    near_begin(&near, wanted);
    for (const struct family *f = families; f < families + count; f++) {
        size_t      members = atom_members(f);
        const char *pattern = is_template && f->cute != NULL ? f->cute : f->name;
        for (size_t m = 0; m < members; m++) {
            char name[ATOM_NAME_BYTES];
            atom_name(f, atom_member(f, m), pattern, name, sizeof name);
            near_offer(&near, name);
        }
    }
    return ptxpack_fail(NULL, PTXPACK_E_ARG, "no atom is named \"%s\"; near: %s, %s, %s", wanted, near.name[0],
                        near.name[1], near.name[2]);
}

/* ---- by name ------------------------------------------------------------------------------------------ */
/* Values made of such an atom have its status. */
static void mark_error(ptxpack_mma_atom *out)
{
    memset(out, 0, sizeof *out);
    out->thr_id = out->a_layout = out->b_layout = out->c_layout = layout_failed(PTXPACK_E_ARG);
    out->sfa_layout = out->sfb_layout = out->thr_id;
}

ptxpack_status ptxpack_mma_atom_find(const char *name, ptxpack_mma_atom *out)
{
    char   wanted[ATOM_NAME_BYTES];
    size_t count;
    if (out == NULL)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "ptxpack_mma_atom_find: out is NULL");
    if (name == NULL) {
        mark_error(out);
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "ptxpack_mma_atom_find: name is NULL");
    }
    bool                 fits = atom_bare_name(name, wanted);
    const struct family *families = atom_families(&count);
    for (const struct family *f = families; fits && f < families + count; f++) {
        const char *patterns[] = {f->name, f->cute, f->alias};
        for (int i = 0; i < 3; i++) {
            struct member x;
            if (patterns[i] != NULL && match(f, patterns[i], wanted, &x)) {
                atom_make(f, x, out);
                return PTXPACK_OK;
            }
        }
    }
    mark_error(out);
    return say_unknown(fits ? wanted : name);
}

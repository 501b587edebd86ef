/* atom_spelling.c - tiled MMAs and tiled copies as C++ spells them. */
#include <string.h>
#include <strings.h>

#include "atom_spelling.h"
#include "layout_calls.h"

enum { PARTS = 4 };

static bool begins(const char *text, const char *with) { return strncasecmp(text, with, strlen(with)) == 0; }

static char *skip(char *text)
{
    while (*text == ' ' || *text == '\t' || *text == '\n')
        text++;
    return begins(text, "cute::") ? skip(text + strlen("cute::")) : text;
}

/* Cuts the arguments behind `open`, up to the bracket that closes it, into parts; returns how many. */
static int cut(char *open, char *parts[PARTS])
{
    int count = 1, depth = 0;
    parts[0] = skip(open + 1);
    for (char *c = open + 1; *c != '\0'; c++) {
        bool closes = strchr(")>]}", *c) != NULL;
        if (depth == 0 && (closes || (*c == ',' && count < PARTS))) {
            bool more = *c == ',';
            *c = '\0';
            for (char *last = c; last > parts[count - 1] && last[-1] == ' ';)
                *--last = '\0';
            if (!more)
                return count;
            parts[count++] = skip(c + 1);
        }
        depth += strchr("(<[{", *c) != NULL && *c != '\0';
        depth -= closes && depth > 0;
    }
    return count;
}

/* The bits of T in Copy_Atom<NAME, T>{}; 0: there is no type. */
static int bits_of_copy_atom(const char *text)
{
    char  copy[SPELLING_TEXT], *parts[PARTS];
    char *open;
    strncpy(copy, text, sizeof copy - 1);
    copy[sizeof copy - 1] = '\0';
    open = strchr(copy, '<');
    if (!begins(copy, "Copy_Atom<") || cut(open, parts) < 2)
        return 0;
    const element_type *type = element_type_of(parts[1], strcspn(parts[1], " >"));
    return type != NULL ? type->bits : 0;
}

static bool read_mma(char *open, atom_spelling *out)
{
    char *parts[PARTS];
    int   count = cut(open, parts);
    out->name = parts[0];
    out->atoms = count > 1 ? parts[1] : NULL;
    bool layout = count > 2 && (begins(parts[2], "Layout<") || begins(parts[2], "make_layout"));
    out->value_layout = layout ? parts[2] : NULL;
    out->tile = layout ? (count > 3 ? parts[3] : NULL) : count > 2 ? parts[2] : NULL;
    return true;
}

/* Where the arguments of this call or template begin; NULL: it is another one. */
static char *opening(char *text, const char *name)
{
    char *after = begins(text, name) ? text + strlen(name) : NULL;
    return after != NULL && (*after == '(' || *after == '<') ? after : NULL;
}

/* The tiled MMA whose operand is copied. */
static bool read_operand(char *text, atom_spelling *out)
{
    char *open = opening(text, "TiledMMA");
    open = open != NULL ? open : opening(text, "make_tiled_mma");
    if (open == NULL || !read_mma(open, out))
        return false;
    out->mma = out->name;
    return true;
}

/* make_tiled_copy and its like, by what stands behind the copy atom. */
static bool read_copy(char *text, atom_spelling *out)
{
    const struct {
        const char *call, **second, **third, *operand, *side;
    } calls[] = {{"make_tiled_copy", &out->threads, &out->values, NULL, NULL},
                 {"make_tiled_copy_impl", &out->tv, &out->tile, NULL, NULL},
                 {"TiledCopy", &out->tv, &out->tile, NULL, NULL},
                 {"make_cotiled_copy", &out->tv, &out->data, NULL, NULL},
                 {"make_tiled_copy_S", &out->like, NULL, NULL, "S"},
                 {"make_tiled_copy_D", &out->like, NULL, NULL, "D"},
                 {"make_tiled_copy_A", NULL, NULL, "A", NULL},
                 {"make_tiled_copy_B", NULL, NULL, "B", NULL},
                 {"make_tiled_copy_C", NULL, NULL, "C", NULL},
                 {"make_tiled_copy_C_atom", NULL, NULL, "C_atom", NULL}};
    char *parts[PARTS], *open = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0] && open == NULL; i++) {
        open = opening(text, calls[i].call);
        int count = open != NULL ? cut(open, parts) : 0;
        if (count > 1 && calls[i].second != NULL)
            *calls[i].second = parts[1];
        if (count > 2 && calls[i].third != NULL)
            *calls[i].third = parts[2];
        if (open != NULL && calls[i].operand != NULL && !(count > 1 && read_operand(parts[1], out)))
            return false;
        out->operand = open != NULL ? calls[i].operand : NULL;
        out->side = open != NULL ? calls[i].side : NULL;
    }
    if (open == NULL)
        return false;
    out->name = parts[0];
    out->bits = bits_of_copy_atom(parts[0]);
    return true;
}

bool atom_spelling_read(const char *text, atom_spelling *out)
{
    *out = (atom_spelling){.bits = 0};
    if (strlen(text) >= sizeof out->text)
        return false;
    strcpy(out->text, text);
    char *begin = skip(out->text), *open = opening(begin, "TiledMMA");
    open = open != NULL ? open : opening(begin, "make_tiled_mma");
    return open != NULL ? read_mma(open, out) : read_copy(begin, out);
}

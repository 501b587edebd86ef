/* map.c - where an output line came from: runs of lines, and the calls that led to them. */
#include <stdio.h>
#include "internal.h"

enum { SHOWN_ENDS = 6 }; /* of a long chain of calls, that many from each end are written */

bool expand_map_line(expander *x, place at)
{
    ptxpack_expansion *e = x->e;
    uint32_t           out = ++e->out_lines;
    if (e->run_count) {
        const map_run *r = &e->runs[e->run_count - 1];
        if (r->at.file == at.file && r->at.site == at.site && r->at.line + (out - r->out) == at.line)
            return true;
    }
    if (!expand_grow(x, (void **)&e->runs, e->run_count, &e->run_cap, sizeof *e->runs))
        return false;
    e->runs[e->run_count++] = (map_run){out, at};
    return true;
}

bool expand_map_site(expander *x, place at, uint32_t macro_name, uint32_t *index)
{
    ptxpack_expansion *e = x->e;
    if (!e->site_count) /* index 0 means: through no call */
        e->site_count = 1;
    if (!expand_grow(x, (void **)&e->sites, e->site_count, &e->site_cap, sizeof *e->sites))
        return false;
    *index = e->site_count++;
    e->sites[*index] = (call_site){at, macro_name};
    return true;
}

typedef struct writer {
    char  *buf;
    size_t cap, size;
} writer;

static void put(writer *w, const char *s)
{
    for (; *s; s++, w->size++)
        if (w->size + 1 < w->cap)
            w->buf[w->size] = *s;
}

static void put_place(writer *w, const ptxpack_expansion *e, place at)
{
    char line[16];
    put(w, at.file < e->file_count ? e->files[at.file].path : "?");
    if (!at.line) /* the file itself */
        return;
    snprintf(line, sizeof line, ":%u", at.line);
    put(w, line);
}

/* " (in macro NAME, FILE:LINE)" */
static void put_call(writer *w, const ptxpack_expansion *e, uint32_t site_index, place inner)
{
    uint32_t name = e->sites[site_index].macro;
    put(w, " (in ");
    if (name != NAME_NONE) {
        put(w, "macro ");
        put(w, e->macro_texts[name]);
        put(w, ", ");
    }
    put_place(w, e, inner);
    put(w, ")");
}

size_t expand_map_format(const ptxpack_expansion *e, place at, const char *what, char *buf, size_t cap)
{
    writer   w = {buf, cap, 0};
    uint32_t chain[PTXPACK_EXPAND_MAX_DEPTH + 1], count = 0; /* innermost first */
    for (uint32_t s = at.site; s && count <= PTXPACK_EXPAND_MAX_DEPTH; s = e->sites[s].at.site)
        chain[count++] = s;
    put_place(&w, e, count ? e->sites[chain[count - 1]].at : at);
    if (what != NULL) {
        put(&w, ": ");
        put(&w, what);
    }
    for (uint32_t i = count; i-- > 0;) {
        if (count > 2 * SHOWN_ENDS + 1 && i == count - SHOWN_ENDS - 1) {
            char skipped[32];
            snprintf(skipped, sizeof skipped, " (... %u more ...)", i + 1 - SHOWN_ENDS);
            put(&w, skipped);
            i = SHOWN_ENDS;
            continue;
        }
        put_call(&w, e, chain[i], i ? e->sites[chain[i - 1]].at : at);
    }
    if (cap)
        buf[w.size < cap ? w.size : cap - 1] = 0;
    return w.size;
}

const char *ptxpack_expansion_where(const ptxpack_expansion *e, size_t line, char *buf, size_t cap)
{
    if (buf == NULL)
        return "";
    if (cap)
        buf[0] = 0;
    if (e == NULL || !line || line > e->out_lines || !e->run_count)
        return buf;
    uint32_t low = 0, high = e->run_count; /* the last run that starts at or before the line */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(e->runs[middle].out <= line ? &low : &high) = middle;
    }
    place at = e->runs[low].at;
    at.line += (uint32_t)line - e->runs[low].out;
    expand_map_format(e, at, NULL, buf, cap);
    return buf;
}

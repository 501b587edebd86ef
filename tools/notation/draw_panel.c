/* draw_panel.c - the cells of a picture, which are checked before a writer begins. */
#include <stdlib.h>
#include "draw_picture.h"
#include "loader/loader.h"

/* Many pairs of a thread-value layout may share a cell; all of them are checked. */
enum { PAIRS = 1 << 24 };
/* The basis path @1 as the kind of an integer; @0 is 1. */
enum { MODE_1 = 2 };

ptxpack_status draw_check(const ptxpack_layout *l)
{
    if (l->shape.status != PTXPACK_OK)
        return l->shape.status;
    if (ptxpack_is_tiler(l))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "a tiler is not a layout: it has no offsets to draw");
    return PTXPACK_OK;
}

bool draw_is_coordinate(const ptxpack_layout *l)
{
    for (int i = 0; i < l->stride.items; i++)
        if (l->stride.kind[i] != 0 && l->stride.kind[i] != PTXPACK_EMPTY)
            return true;
    return false;
}

static ptxpack_tuple coordinate_at(const ptxpack_layout *l, int64_t m, int64_t n)
{
    const int64_t mode[2] = {m, n};
    ptxpack_tuple at = ptxpack_tuple_of(2, mode);
    return ptxpack_layout_crd2idx(l, &at);
}

static ptxpack_status no_memory(const draw_panel *p)
{
    return ptxpack_fail(NULL, PTXPACK_E_MEMORY, "no memory for a picture of %d x %d cells", p->m, p->n);
}

/* An empty panel of m x n cells; `what` names it in errors. */
static ptxpack_status panel_begin(const char *what, int64_t m, int64_t n, draw_panel *out)
{
    if (m < 1 || n < 1)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s of %lld x %lld has no cells", what, (long long)m,
                            (long long)n);
    if (m > DRAW_CELLS || n > DRAW_CELLS || m * n > DRAW_CELLS)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s of %lld x %lld is too large to draw: at most %d cells",
                            what, (long long)m, (long long)n, (int)DRAW_CELLS);
    out->m = (int)m;
    out->n = (int)n;
    out->cells = (draw_cell *)calloc((size_t)(m * n), sizeof *out->cells);
    if (out->cells == NULL)
        return no_memory(out);
    return PTXPACK_OK;
}

void draw_panel_free(draw_panel *p)
{
    free(p->cells);
    p->cells = NULL;
}

/* ---- plain layouts -------------------------------------------------------------------------------- */
ptxpack_status draw_plain_panel(const ptxpack_layout *l, draw_panel *out)
{
    int64_t m = ptxpack_mode_size(l, 0), n = ptxpack_mode_size(l, 1);
    *out = (draw_panel){.plain = l};
    ptxpack_status status = panel_begin("a layout", m, n, out);
    bool           coordinates = draw_is_coordinate(l);
    for (int64_t i = 0; i < m && status == PTXPACK_OK; i++)
        for (int64_t j = 0; j < n && status == PTXPACK_OK; j++) {
            int64_t offset = coordinates ? 0 : ptxpack_at(l, i + j * m);
            out->cells[out->count++] = (draw_cell){.m = (int)i, .n = (int)j, .thread = offset};
            if (coordinates)
                status = coordinate_at(l, i, j).status;
        }
    return status;
}

int draw_cell_text(const draw_panel *p, const draw_cell *c, char *text)
{
    if (!draw_is_coordinate(p->plain))
        return snprintf(text, PTXPACK_LAYOUT_TEXT, "%lld", (long long)c->thread);
    ptxpack_tuple at = coordinate_at(p->plain, c->m, c->n);
    return (int)ptxpack_tuple_print(&at, text, PTXPACK_LAYOUT_TEXT);
}

int draw_cell_colour(const draw_panel *p, const draw_cell *c)
{
    uint64_t sum = (uint64_t)
                       c->thread; /* modulo 2^64, so that it is right modulo 8 for negative numbers, too */
    if (p->plain != NULL && draw_is_coordinate(p->plain)) {
        ptxpack_tuple at = coordinate_at(p->plain, c->m, c->n);
        for (int i = 0; i < at.items; i++)
            sum += (uint64_t)at.value[i];
    }
    return (int)(sum % DRAW_COLOURS);
}

/* ---- thread-value layouts ------------------------------------------------------------------------ */
/* What thread t and value v map to: an integer or a coordinate. */
static ptxpack_tuple image_of(const ptxpack_layout *tv, int64_t t, int64_t v)
{
    if (draw_is_coordinate(tv))
        return coordinate_at(tv, t, v);
    return ptxpack_int(ptxpack_at(tv, t + v * ptxpack_mode_size(tv, 0)));
}

/* Its cell in the tile: a plain integer counts down the columns, an integer with a basis path counts along that mode.
 * False if it is outside of the tile. */
static bool cell_of(const ptxpack_tuple *image, const draw_panel *p, int64_t *m, int64_t *n)
{
    if (image->status != PTXPACK_OK || ptxpack_depth(image) > 1 || image->items > 2)
        return false;
    if (image->kind[0] > MODE_1)
        return false;
    *m = image->value[0];
    *n = image->items > 1 ? image->value[1] : 0;
    if (!ptxpack_is_tuple(image) && image->kind[0] == 0) {
        *n = *m / p->m;
        *m %= p->m;
    } else if (image->kind[0] == MODE_1) {
        *n = *m;
        *m = 0;
    }
    return *m >= 0 && *m < p->m && *n >= 0 && *n < p->n;
}

static ptxpack_status say_outside(const char *name, const ptxpack_tuple *image, int64_t t, int64_t v,
                                  const draw_panel *p)
{
    char text[PTXPACK_LAYOUT_TEXT];
    if (image->status != PTXPACK_OK)
        return image->status;
    ptxpack_tuple_print(image, text, sizeof text);
    return ptxpack_fail(NULL, PTXPACK_E_ARG,
                        "%s: value %lld of thread %lld is at %s, outside of the %d x %d tile", name,
                        (long long)v, (long long)t, text, p->m, p->n);
}

/* The first pair in each cell is the one that is drawn. */
static ptxpack_status fill_cells(const char *name, const ptxpack_layout *tv, draw_panel *p, bool *filled)
{
    int64_t threads = ptxpack_mode_size(tv, 0), values = ptxpack_mode_size(tv, 1), m, n;
    for (int64_t t = 0; t < threads; t++)
        for (int64_t v = 0; v < values; v++) {
            ptxpack_tuple image = image_of(tv, t, v);
            if (!cell_of(&image, p, &m, &n))
                return say_outside(name, &image, t, v, p);
            if (filled[m + n * p->m])
                continue;
            filled[m + n * p->m] = true;
            p->cells[p->count++] = (draw_cell){.m = (int)m, .n = (int)n, .thread = t, .value = v};
        }
    return PTXPACK_OK;
}

ptxpack_status draw_check_tv(const char *name, const ptxpack_layout *tv)
{
    ptxpack_status status = draw_check(tv);
    if (status != PTXPACK_OK)
        return status;
    if (ptxpack_rank(&tv->shape) != 2)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s: a (thread, value) layout has 2 modes, this one has %d",
                            name, ptxpack_rank(&tv->shape));
    if (ptxpack_size(tv) > PAIRS)
        return ptxpack_fail(NULL, PTXPACK_E_ARG,
                            "%s: %lld (thread, value) pairs are too many to draw: at most %d", name,
                            (long long)ptxpack_size(tv), (int)PAIRS);
    return PTXPACK_OK;
}

ptxpack_status draw_tv_panel(const char *name, const ptxpack_layout *tv, int64_t m, int64_t n, draw_panel *out)
{
    *out = (draw_panel){.plain = NULL};
    ptxpack_status status = draw_check_tv(name, tv);
    if (status == PTXPACK_OK)
        status = panel_begin("a tile", m, n, out);
    if (status != PTXPACK_OK)
        return status;
    bool *filled = (bool *)calloc((size_t)(m * n), sizeof *filled);
    if (filled != NULL)
        status = fill_cells(name, tv, out, filled);
    else
        status = no_memory(out);
    free(filled);
    return status;
}

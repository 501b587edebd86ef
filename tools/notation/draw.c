/* draw.c - pictures of layouts: their panels, the positions of these on the page, and the captions. */
#include "draw.h"

#include <string.h>
#include "draw_picture.h"
#include "loader/loader.h"

/* ---- captions ------------------------------------------------------------------------------------ */
/* CuTe shows a thread-value layout as its map to coordinates, with `prefix` before them.  If that map is not a
 * layout, the caption shows the map to indices. */
static void tv_caption(draw_picture *picture, const char *name, const char *prefix, const ptxpack_layout *tv,
                       int64_t m, int64_t n)
{
    ptxpack_layout shown = *tv;
    bool           mapped = draw_is_coordinate(tv);
    if (!mapped && !tv->composed) {
        const int64_t  extent[2] = {m, n};
        ptxpack_tuple  tile = ptxpack_tuple_of(2, extent);
        ptxpack_layout identity = ptxpack_make_identity_layout(&tile);
        ptxpack_layout map = ptxpack_composition(&identity, tv);
        mapped = map.shape.status == PTXPACK_OK;
        shown = mapped ? map : *tv;
    }
    draw_caption *c = &picture->caption[picture->captions++];
    c->name = name;
    size_t length = mapped ? strlen(prefix) : 0;
    memcpy(c->text, prefix, length);
    ptxpack_layout_print(&shown, c->text + length, sizeof c->text - length);
}

/* How CuTe writes a tensor of coordinates that starts at (0,0). */
static const char tensor[] = "ArithTuple(0,0) o ";

/* Write the picture unless there was an error; free its panels. */
static ptxpack_status finish(FILE *f, draw_format format, draw_picture *picture, ptxpack_status status)
{
    if (status == PTXPACK_OK && format == DRAW_LATEX)
        draw_write_latex(f, picture);
    else if (status == PTXPACK_OK)
        draw_write_svg(f, picture);
    for (int i = 0; i < picture->panels; i++)
        draw_panel_free(&picture->panel[i]);
    return status;
}

/* ---- a layout, a tile ---------------------------------------------------------------------------- */
ptxpack_status draw_layout(FILE *f, draw_format format, const ptxpack_layout *l)
{
    ptxpack_status status = draw_check(l);
    if (status != PTXPACK_OK)
        return status;
    if (ptxpack_rank(&l->shape) > 2)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "a picture shows at most 2 modes, this layout has %d",
                            ptxpack_rank(&l->shape));
    ptxpack_layout two = ptxpack_layout_append_to(l, 2, NULL);
    if (two.shape.status != PTXPACK_OK)
        return two.shape.status;
    draw_picture picture = {.panels = 1, .captions = 1};
    picture.caption[0].name = "Layout";
    ptxpack_layout_print(&two, picture.caption[0].text, sizeof picture.caption[0].text);
    status = draw_plain_panel(&two, &picture.panel[0]);
    return finish(f, format, &picture, status);
}

/* The extents of a tile; one of rank 1 has one column. */
static ptxpack_status tile_extents(const ptxpack_tuple *tile, int64_t *m, int64_t *n)
{
    ptxpack_tuple each = ptxpack_product_each(tile);
    if (each.status != PTXPACK_OK)
        return each.status;
    if (ptxpack_rank(&each) < 1 || ptxpack_rank(&each) > 2)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "a picture shows a tile of 2 modes, this one has %d",
                            ptxpack_rank(&each));
    *m = each.value[0];
    *n = each.items > 1 ? each.value[1] : 1;
    return PTXPACK_OK;
}

ptxpack_status draw_tv(FILE *f, draw_format format, const ptxpack_layout *tv, const ptxpack_tuple *tile)
{
    int64_t        m, n;
    draw_picture   picture = {.panels = 1};
    ptxpack_status status = tile_extents(tile, &m, &n);
    if (status == PTXPACK_OK)
        status = draw_tv_panel("TV layout", tv, m, n, &picture.panel[0]);
    if (status == PTXPACK_OK)
        tv_caption(&picture, "Layout TV", "", tv, m, n);
    return finish(f, format, &picture, status);
}

/* ---- MMA and copy -------------------------------------------------------------------------------- */
/* tv with lanes in place of threads, as CuTe lays out the tiled MMA of this one atom: a lane that is not in
 * the thread map repeats one that is, and the values have a mode for the tiles, of which there is one. */
static ptxpack_layout by_lane(const ptxpack_layout *tv, const ptxpack_layout *thr_id)
{
    ptxpack_layout both[2] = {*thr_id, ptxpack_complement(thr_id, NULL)};
    if (both[1].shape.status != PTXPACK_OK)
        return both[1];
    const int64_t  extent[2] = {ptxpack_size(&both[0]), ptxpack_size(&both[1])}, step[2] = {1, 0};
    ptxpack_tuple  shape = ptxpack_tuple_of(2, extent), stride = ptxpack_tuple_of(2, step);
    ptxpack_layout thread_of = ptxpack_make_layout(&shape, &stride), lanes = ptxpack_layout_join(2, both);
    lanes = ptxpack_right_inverse(&lanes);
    lanes = ptxpack_composition(&thread_of, &lanes);
    const int64_t  ones[2] = {1, 1};
    ptxpack_tuple  tiles = ptxpack_tuple_of(2, ones);
    ptxpack_layout values[2] = {ptxpack_mode(tv, 1), ptxpack_make_layout_left(&tiles)};
    ptxpack_layout mode[2] = {ptxpack_mode(tv, 0), ptxpack_layout_join(2, values)};
    mode[0] = ptxpack_composition(&mode[0], &lanes);
    return ptxpack_layout_join(2, mode);
}

static ptxpack_status check_threads(const char *name, const ptxpack_layout *tv, const ptxpack_layout *thr_id)
{
    ptxpack_status status = draw_check_tv(name, tv);
    if (status != PTXPACK_OK || (status = draw_check(thr_id)) != PTXPACK_OK)
        return status;
    if (ptxpack_mode_size(tv, 0) != ptxpack_size(thr_id))
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "%s has %lld threads, but the thread map has %lld", name,
                            (long long)ptxpack_mode_size(tv, 0), (long long)ptxpack_size(thr_id));
    return PTXPACK_OK;
}

/* One operand of an MMA: the next panel of the picture, and its caption. */
static ptxpack_status add_operand(draw_picture *picture, const char *caption, const ptxpack_layout *tv, int m,
                                  int n, const ptxpack_layout *thr_id)
{
    const char    *name = caption + strlen("Layout");
    ptxpack_layout lanes = *tv;
    ptxpack_status status = thr_id != NULL ? check_threads(name, tv, thr_id) : PTXPACK_OK;
    if (status != PTXPACK_OK)
        return status;
    if (thr_id != NULL)
        lanes = by_lane(tv, thr_id);
    status = draw_tv_panel(name, &lanes, m, n, &picture->panel[picture->panels++]);
    if (status == PTXPACK_OK)
        tv_caption(picture, caption, tensor, &lanes, m, n);
    return status;
}

ptxpack_status draw_mma(FILE *f, draw_format format, const ptxpack_layout *a_tv, const ptxpack_layout *b_tv,
                        const ptxpack_layout *c_tv, int m, int n, int k, const ptxpack_layout *thr_id)
{
    draw_picture   picture = {.panels = 0};
    ptxpack_status status = add_operand(&picture, "LayoutC", c_tv, m, n, thr_id);
    if (status == PTXPACK_OK)
        status = add_operand(&picture, "LayoutA", a_tv, m, k, thr_id);
    if (status == PTXPACK_OK)
        status = add_operand(&picture, "LayoutB", b_tv, n, k, thr_id);
    if (status == PTXPACK_OK) {
        picture.panel[0].label = "C";
        picture.panel[1].label = "A";
        picture.panel[2].label = "B";
        picture.panel[0].bare =
            true; /* its rows and columns are numbered at A and B, one empty column and row away */
        picture.panel[1].col = -k - 1;
        picture.panel[2].row = -k - 1;
        picture.panel[2].transposed = true;
    }
    return finish(f, format, &picture, status);
}

ptxpack_status draw_copy(FILE *f, draw_format format, const ptxpack_layout *src_tv,
                         const ptxpack_layout *dst_tv, const ptxpack_tuple *tile)
{
    int64_t        m, n;
    draw_picture   picture = {.panels = 2};
    ptxpack_status status = tile_extents(tile, &m, &n);
    if (status == PTXPACK_OK)
        status = draw_tv_panel("source", src_tv, m, n, &picture.panel[0]);
    if (status == PTXPACK_OK)
        status = draw_tv_panel("destination", dst_tv, m, n, &picture.panel[1]);
    if (status == PTXPACK_OK) {
        tv_caption(&picture, "Layout S TV", tensor, src_tv, m, n);
        tv_caption(&picture, "Layout D TV", tensor, dst_tv, m, n);
        picture.panel[0].label = "source";
        picture.panel[1].label = "destination";
        picture.panel[1].col = picture.panel[0].n + 3;
        picture.panel[1].right = true;
    }
    return finish(f, format, &picture, status);
}

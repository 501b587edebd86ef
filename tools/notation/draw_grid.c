/* draw_grid.c - a layout as a grid of text: CuTe's print_layout. */
#include "draw_picture.h"
#include "loader/loader.h"

/* The width of a cell.  As in CuTe it is that of the cosize, even if an offset is wider: a negative one, or one that a
 * swizzle or a start moves beyond the layout. */
static int content_width(const draw_panel *p)
{
    char text[PTXPACK_LAYOUT_TEXT];
    if (!draw_is_coordinate(p->plain))
        return snprintf(text, sizeof text, "%lld", (long long)ptxpack_cosize(p->plain));
    int width = 1;
    for (int i = 0; i < p->count; i++) {
        int length = draw_cell_text(p, &p->cells[i], text);
        width = length > width ? length : width;
    }
    return width;
}

static void write_rule(FILE *f, int columns, int width)
{
    fputs("    ", f);
    for (int n = 0; n < columns; n++) {
        fputc('+', f);
        for (int i = 0; i < width + 2; i++)
            fputc('-', f);
    }
    fputs("+\n", f);
}

/* What stands in a cell: the text of the panel, or an element of the tensor. */
typedef struct grid_cells {
    const draw_panel     *panel;
    const ptxpack_tensor *t; /* NULL: the panel's own text */
    const ptxpack_engine *engine;
} grid_cells;

static int cell_text(const grid_cells *g, const draw_cell *c, char *text)
{
    if (g->t == NULL)
        return draw_cell_text(g->panel, c, text);
    const int64_t mode[2] = {c->m, c->n};
    ptxpack_tuple coord = ptxpack_tuple_of(2, mode);
    if (g->t->bits == 0) {
        ptxpack_tuple at = ptxpack_tensor_coord(g->t, &coord);
        return (int)ptxpack_tuple_print(&at, text, PTXPACK_LAYOUT_TEXT);
    }
    int64_t bits = (int64_t)(g->t->address - g->engine->base) * 8 + g->t->bit;
    return snprintf(text, PTXPACK_LAYOUT_TEXT, "%lld", (long long)(bits / g->t->bits + c->thread));
}

static int widest(const grid_cells *g)
{
    char text[PTXPACK_LAYOUT_TEXT];
    int  width = 1;
    for (int i = 0; i < g->panel->count; i++) {
        int length = cell_text(g, &g->panel->cells[i], text);
        width = length > width ? length : width;
    }
    return width;
}

static void write_grid(FILE *f, const char *title, const grid_cells *g, int width)
{
    char              text[PTXPACK_LAYOUT_TEXT];
    const draw_panel *p = g->panel;
    fprintf(f, "%s\n    ", title);
    for (int n = 0; n < p->n; n++)
        fprintf(f, "  %*d ", width, n);
    fputc('\n', f);
    for (int m = 0; m < p->m; m++) {
        write_rule(f, p->n, width);
        fprintf(f, "%2d  ", m);
        for (int n = 0; n < p->n; n++) {
            cell_text(g, &p->cells[m * p->n + n], text);
            fprintf(f, "| %*s ", width, text);
        }
        fputs("|\n", f);
    }
    write_rule(f, p->n, width);
}

/* Two modes are a grid; of more, some may be one. */
static ptxpack_status check_rank(const ptxpack_layout *l)
{
    int rank = ptxpack_rank(&l->shape);
    if (rank < 2)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "a grid shows 2 modes, this layout has %d", rank);
    if (rank > 2)
        return ptxpack_fail(
            NULL, PTXPACK_E_ARG,
            "a grid shows 2 modes, this layout has %d: group_modes<1,%d>(L) makes one of the last %d, "
            "and print_tensor(L) prints %s",
            rank, rank, rank - 1, rank <= 4 ? "matrix after matrix" : "up to 4 modes");
    return PTXPACK_OK;
}

ptxpack_status draw_grid(FILE *f, const ptxpack_layout *l)
{
    char           title[PTXPACK_LAYOUT_TEXT];
    draw_panel     panel = {.plain = NULL};
    grid_cells     cells = {.panel = &panel};
    ptxpack_status status = draw_check(l);
    if (status == PTXPACK_OK)
        status = check_rank(l);
    if (status == PTXPACK_OK)
        status = draw_plain_panel(l, &panel);
    if (status == PTXPACK_OK) {
        ptxpack_layout_print(l, title, sizeof title);
        write_grid(f, title, &cells, content_width(&panel));
    }
    draw_panel_free(&panel);
    return status;
}

ptxpack_status draw_tensor_grid(FILE *f, const ptxpack_tensor *t, const ptxpack_engine *engine)
{
    char           title[PTXPACK_LAYOUT_TEXT + 128];
    draw_panel     panel = {.plain = NULL};
    grid_cells     cells = {.panel = &panel, .t = t, .engine = engine};
    ptxpack_status status = check_rank(&t->layout);
    if (status == PTXPACK_OK)
        status = draw_plain_panel(&t->layout, &panel);
    if (status == PTXPACK_OK) {
        ptxpack_tensor_text(t, engine, title, sizeof title);
        write_grid(f, title, &cells, widest(&cells));
    }
    draw_panel_free(&panel);
    return status;
}

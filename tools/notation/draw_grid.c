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

static void write_grid(FILE *f, const draw_panel *p)
{
    char text[PTXPACK_LAYOUT_TEXT];
    int  width = content_width(p);
    ptxpack_layout_print(p->plain, text, sizeof text);
    fprintf(f, "%s\n    ", text);
    for (int n = 0; n < p->n; n++)
        fprintf(f, "  %*d ", width, n);
    fputc('\n', f);
    for (int m = 0; m < p->m; m++) {
        write_rule(f, p->n, width);
        fprintf(f, "%2d  ", m);
        for (int n = 0; n < p->n; n++) {
            draw_cell_text(p, &p->cells[m * p->n + n], text);
            fprintf(f, "| %*s ", width, text);
        }
        fputs("|\n", f);
    }
    write_rule(f, p->n, width);
}

ptxpack_status draw_grid(FILE *f, const ptxpack_layout *l)
{
    ptxpack_status status = draw_check(l);
    if (status != PTXPACK_OK)
        return status;
    if (ptxpack_rank(&l->shape) != 2)
        return ptxpack_fail(NULL, PTXPACK_E_ARG, "a grid shows 2 modes, this layout has %d",
                            ptxpack_rank(&l->shape));
    draw_panel panel;
    status = draw_plain_panel(l, &panel);
    if (status == PTXPACK_OK)
        write_grid(f, &panel);
    draw_panel_free(&panel);
    return status;
}

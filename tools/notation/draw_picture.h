/* draw_picture.h - private to draw*.c: a complete and checked picture for the writers. */
#ifndef PTXPACK_DRAW_PICTURE_H
#define PTXPACK_DRAW_PICTURE_H
#include "draw.h"

enum { DRAW_PANELS = 3, DRAW_COLOURS = 8 };

typedef struct draw_cell {
    int     m, n;
    int64_t thread, value; /* of a plain panel: the offset, 0 */
} draw_cell;

/* One matrix.  Page positions count cells, rows downwards, columns to the right. */
typedef struct draw_panel {
    const ptxpack_layout *plain; /* its offsets or coordinates fill the cells; NULL: threads and values */

    int         m, n;       /* extents                                     */
    int         count;      /* of cells that hold something                */
    draw_cell  *cells;      /* in the order of writing; owned              */
    int         row, col;   /* where cell (0,0) lies                       */
    bool        transposed; /* m runs to the right                         */
    bool        bare;       /* without the numbers of its rows and columns */
    bool        right;      /* the numbers of the rows stand right of it   */
    const char *label;      /* "A", "source"; NULL: none.  Of SVG only: above the panel, below a bare one */
} draw_panel;

typedef struct draw_caption {
    const char *name;
    char        text[PTXPACK_LAYOUT_TEXT + 32];
} draw_caption;

typedef struct draw_picture {
    int          panels, captions;
    draw_panel   panel[DRAW_PANELS];
    draw_caption caption[DRAW_PANELS];
} draw_picture;

/* ---- panels: draw_panel.c ------------------------------------------------------------------------ */
/* Whether l maps to coordinates: some stride is a basis path. */
bool draw_is_coordinate(const ptxpack_layout *l);

/* Refuse what is not a layout, or not a thread-value layout; `name` stands for it in the message. */
ptxpack_status draw_check(const ptxpack_layout *l);
ptxpack_status draw_check_tv(const char *name, const ptxpack_layout *tv);
/* The offsets of a layout of rank 2, which must outlive the panel. */
ptxpack_status draw_plain_panel(const ptxpack_layout *l, draw_panel *out);
/* Threads and values in an m x n tile. */
ptxpack_status draw_tv_panel(const char *name, const ptxpack_layout *tv, int64_t m, int64_t n, draw_panel *out);
void           draw_panel_free(draw_panel *p);

/* Write the text of a cell of a plain panel, at most PTXPACK_LAYOUT_TEXT bytes; returns its length. */
int draw_cell_text(const draw_panel *p, const draw_cell *c, char *text);
int draw_cell_colour(const draw_panel *p, const draw_cell *c); /* 0 .. DRAW_COLOURS - 1 */

/* The position of (m,n) on the page.  Row or column -1 holds the numbers. */
static inline int draw_row(const draw_panel *p, int m, int n) { return p->row + (p->transposed ? n : m); }
static inline int draw_col(const draw_panel *p, int m, int n) { return p->col + (p->transposed ? m : n); }

/* ---- writers ------------------------------------------------------------------------------------- */
void draw_write_latex(FILE *f, const draw_picture *picture);
void draw_write_svg(FILE *f, const draw_picture *picture);
#endif

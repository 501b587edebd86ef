/* draw_svg.c - a picture as SVG for a browser, in the look of CuTe's print_svg, for light and dark pages.
 *
 * A panel of several warps has one colour a warp.  A picture with many cells, or with operands in shared memory, which one
 * thread stands for (wgmma), is small: numbers stand only at the corners of each 8 x 8 cells, in one line. */
#include <stdlib.h>
#include <string.h>
#include "draw_picture.h"

enum {
    DARK = 6, /* the first grey that needs the other colour of text */
    CELL = 22,
    TEXT_SIZE = 8,
    GLYPH = 5, /* at least the width of one of its digits */
    ROOM = 6,  /* beside a text, so that neighbours do not touch */
    NUMBER_SIZE = 12,
    LABEL_SIZE = 14,
    WARP = 32,
    MANY = 1024, /* cells */
    BLOCK = 8,
    SMALL_CELL = 12,
    SMALL_NUMBER = 9
};

/* Of a light page, then of a dark one. */
static const char *const grey[2][DRAW_COLOURS] = {{"255,255,255", "230,230,230", "205,205,205", "180,180,180",
                                                   "155,155,155", "130,130,130", "105,105,105", "80,80,80"},
                                                  {"28,28,28", "46,46,46", "64,64,64", "82,82,82", "96,96,96",
                                                   "110,110,110", "170,170,170", "205,205,205"}};
static const char *const hue[2][DRAW_COLOURS] = {{"175,175,255", "175,255,175", "255,255,175", "255,175,175",
                                                  "210,210,255", "210,255,210", "255,255,210", "255,210,210"},
                                                 {"60,60,140", "30,100,30", "105,95,20", "130,45,45",
                                                  "40,40,90", "25,65,25", "70,65,15", "85,35,35"}};

/* How the cells of a panel are shown. */
typedef struct look {
    bool warps; /* one colour a warp       */
    bool one;   /* thread 0 has all values */
} look;

/* The page in cells, and how wide a cell is. */
typedef struct svg_page {
    FILE *f;
    int   top, left, bottom, right;
    int   cell;
    bool  small;
} svg_page;

/* A picture of one panel shows all that is in its cells. */
static look look_of(const draw_picture *picture, const draw_panel *p)
{
    int64_t last = 0;
    for (int i = 0; i < p->count; i++)
        last = p->cells[i].thread > last ? p->cells[i].thread : last;
    return (look){.warps = p->plain == NULL && last >= WARP,
                  .one = picture->panels > 1 && last == 0 && p->count > BLOCK * BLOCK};
}

static bool is_small(const draw_picture *picture)
{
    bool small = false;
    for (int i = 0; i < picture->panels && picture->panels > 1; i++) {
        const look l = look_of(picture, &picture->panel[i]);
        small |= l.one || (l.warps && picture->panel[i].count > MANY);
    }
    return small;
}

static void escaped(FILE *f, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        default:
            fputc(*text, f);
        }
}

/* Both lines of a cell; a plain panel, and one of a single thread, has one. */
static int cell_lines(const draw_panel *p, const look *l, const draw_cell *c, char *upper, char *lower)
{
    lower[0] = '\0';
    if (p->plain != NULL)
        return draw_cell_text(p, c, upper);
    if (l->one)
        return snprintf(upper, PTXPACK_LAYOUT_TEXT, "V%lld", (long long)c->value);
    int t = snprintf(upper, PTXPACK_LAYOUT_TEXT, "T%lld", (long long)c->thread);
    int v = snprintf(lower, PTXPACK_LAYOUT_TEXT, "V%lld", (long long)c->value);
    return t > v ? t : v;
}

static svg_page page_of(FILE *f, const draw_picture *picture)
{
    char     upper[PTXPACK_LAYOUT_TEXT], lower[PTXPACK_LAYOUT_TEXT];
    svg_page page = {.f = f, .small = is_small(picture)};
    page.cell = page.small ? SMALL_CELL : CELL;
    for (int i = 0; i < picture->panels; i++) {
        const draw_panel *p = &picture->panel[i];
        const look        l = look_of(picture, p);
        int               numbers = p->bare ? 0 : 1, label = p->label != NULL ? 1 : 0;
        int top = p->row - numbers - (p->bare ? 0 : label), left = p->col - (p->right ? 0 : numbers);
        int bottom = draw_row(p, p->m, p->n) + (p->bare ? label : 0);
        int right = draw_col(p, p->m, p->n) + (p->right ? numbers : 0);
        page.top = top < page.top ? top : page.top;
        page.left = left < page.left ? left : page.left;
        page.bottom = bottom > page.bottom ? bottom : page.bottom;
        page.right = right > page.right ? right : page.right;
        for (int j = 0; j < p->count && !page.small; j++) {
            int width = ROOM + GLYPH * cell_lines(p, &l, &p->cells[j], upper, lower);
            page.cell = width > page.cell ? width : page.cell;
        }
    }
    return page;
}

/* `quarters` of the cell's height below its upper edge. */
static void write_text(const svg_page *page, double row, double col, int quarters, const char *look_text,
                       const char *text)
{
    double x = (col - page->left) * page->cell, y = (row - page->top) * page->cell;
    fprintf(page->f, "<text x=\"%g\" y=\"%g\" dy=\".35em\"%s>", x + page->cell / 2,
            y + quarters * page->cell / 4, look_text);
    escaped(page->f, text);
    fputs("</text>\n", page->f);
}

/* In one line at the corners of each block, from the edge inwards. */
static void write_corner(const svg_page *page, const draw_panel *p, const look *l, const draw_cell *c)
{
    char   upper[PTXPACK_LAYOUT_TEXT], lower[PTXPACK_LAYOUT_TEXT], both[2 * PTXPACK_LAYOUT_TEXT];
    int    row = draw_row(p, c->m, c->n), col = draw_col(p, c->m, c->n);
    int    down = (row - p->row) % BLOCK, across = (col - p->col) % BLOCK;
    bool   left = across == 0, right = across == BLOCK - 1;
    double inset = (double)(SMALL_CELL / 2 - 2) / SMALL_CELL;
    if ((down != 0 && down != BLOCK - 1) || (!left && !right))
        return;
    cell_lines(p, l, c, upper, lower);
    snprintf(both, sizeof both, "%s%s%s", upper, *lower ? " " : "", lower);
    write_text(page, row, left ? col - inset : col + inset, 2,
               left ? " text-anchor=\"start\"" : " text-anchor=\"end\"", both);
}

static void write_cell(const svg_page *page, const draw_panel *p, const look *l, const draw_cell *c)
{
    char upper[PTXPACK_LAYOUT_TEXT], lower[PTXPACK_LAYOUT_TEXT], kind[8];
    int  row = draw_row(p, c->m, c->n), col = draw_col(p, c->m, c->n);
    int  colour = l->warps ? (int)(c->thread / WARP % DRAW_COLOURS) : draw_cell_colour(p, c);
    snprintf(kind, sizeof kind, "%c%d", p->plain != NULL ? 'g' : 'h', colour);
    fprintf(page->f, "<rect x=\"%ld\" y=\"%ld\" width=\"%d\" height=\"%d\" class=\"%s\"/>\n",
            (long)(col - page->left) * page->cell, (long)(row - page->top) * page->cell, page->cell, page->cell,
            l->one ? "m" : kind);
    if (page->small)
        return;
    cell_lines(p, l, c, upper, lower);
    if (*lower == '\0') {
        write_text(page, row, col, 2, p->plain != NULL && colour >= DARK ? " class=\"w\"" : "", upper);
    } else {
        write_text(page, row, col, 1, "", upper);
        write_text(page, row, col, 3, "", lower);
    }
}

static void write_number(const svg_page *page, const draw_panel *p, int m, int n, int number)
{
    char text[16], size[32];
    int  digits = snprintf(text, sizeof text, "%d", number);
    int  fit = (page->cell - ROOM / 2) * TEXT_SIZE / (GLYPH * digits);
    fit = page->small ? SMALL_NUMBER : fit;
    if (page->small && number % BLOCK != 0)
        return;
    snprintf(size, sizeof size, " font-size=\"%d\"", fit < NUMBER_SIZE ? fit : NUMBER_SIZE);
    write_text(page, draw_row(p, m, n), draw_col(p, m, n), 2, size, text);
}

/* The edges of the blocks, and the numbers within, which lie over the cells. */
static void write_blocks(const svg_page *page, const draw_panel *p, const look *l)
{
    int rows = p->transposed ? p->n : p->m, cols = p->transposed ? p->m : p->n;
    for (int row = 0; row < rows; row += BLOCK)
        for (int col = 0; col < cols; col += BLOCK)
            fprintf(page->f, "<rect x=\"%ld\" y=\"%ld\" width=\"%d\" height=\"%d\" class=\"b\"/>\n",
                    (long)(p->col + col - page->left) * page->cell,
                    (long)(p->row + row - page->top) * page->cell,
                    (cols - col < BLOCK ? cols - col : BLOCK) * page->cell,
                    (rows - row < BLOCK ? rows - row : BLOCK) * page->cell);
    for (int i = 0; i < p->count; i++)
        write_corner(page, p, l, &p->cells[i]);
}

/* Above the numbers of the columns, below a panel that has none; over its middle. */
static void write_label(const svg_page *page, const draw_panel *p)
{
    char   size[48];
    double row = p->bare ? draw_row(p, p->m, p->n) : p->row - 2;
    double width = p->transposed ? p->m : p->n;
    snprintf(size, sizeof size, " font-size=\"%d\" font-weight=\"bold\"",
             page->small ? NUMBER_SIZE : LABEL_SIZE);
    write_text(page, row, p->col + (width - 1) / 2, 2, size, p->label);
}

static void write_panel(const svg_page *page, const draw_picture *picture, const draw_panel *p)
{
    const look l = look_of(picture, p);
    for (int i = 0; i < p->count; i++)
        write_cell(page, p, &l, &p->cells[i]);
    if (page->small)
        write_blocks(page, p, &l);
    if (p->label != NULL)
        write_label(page, p);
    if (p->bare)
        return;
    for (int m = 0; m < p->m; m++)
        write_number(page, p, m, p->right ? p->n : -1, m);
    for (int n = 0; n < p->n; n++)
        write_number(page, p, -1, n, n);
}

/* The colours of one kind of page. */
static void write_colours(FILE *f, const draw_picture *picture, int dark)
{
    bool plain = picture->panel[0].plain != NULL; /* m: in shared memory */
    fprintf(f, "svg{background:%s}text{fill:%s}.w{fill:%s}rect{stroke:%s}", dark ? "#161616" : "#fff",
            dark ? "#e6e6e6" : "#000", dark ? "#000" : "#fff", dark ? "#8c8c8c" : "#000");
    if (!plain)
        fprintf(f, ".m{fill:rgb(%s)}", grey[dark][1]);
    for (int i = 0; i < DRAW_COLOURS; i++)
        fprintf(f, ".%c%d{fill:rgb(%s)}", plain ? 'g' : 'h', i, (plain ? grey : hue)[dark][i]);
}

void draw_write_svg(FILE *f, const draw_picture *picture)
{
    svg_page page = page_of(f, picture);
    /* One more than the cells need: half of a line lies outside of its cell. */
    fprintf(f,
            "<svg width=\"100%%\" height=\"100%%\" viewBox=\"0 0 %ld %ld\""
            " preserveAspectRatio=\"xMidYMid meet\" text-anchor=\"middle\""
            " font-family=\"sans-serif\" font-size=\"%d\" xmlns=\"http://www.w3.org/2000/svg\">\n<title>",
            (long)(page.right - page.left) * page.cell + 1, (long)(page.bottom - page.top) * page.cell + 1,
            (int)TEXT_SIZE);
    for (int i = 0; i < picture->captions; i++) {
        fprintf(f, "%s%s: ", i ? "\n" : "", picture->caption[i].name);
        escaped(f, picture->caption[i].text);
    }
    fputs("</title>\n<style>", f);
    if (page.small)
        fputs("rect{stroke-opacity:.2}.b{fill:none;stroke-opacity:1}", f);
    write_colours(f, picture, 0);
    fputs("\n@media (prefers-color-scheme:dark){", f);
    write_colours(f, picture, 1);
    fputs("}</style>\n", f);
    for (int i = 0; i < picture->panels; i++)
        write_panel(&page, picture, &picture->panel[i]);
    fputs("</svg>\n", f);
}

/* draw_svg.c - a picture as SVG for a browser, in the look of CuTe's print_svg. */
#include <string.h>
#include "draw_picture.h"

static const char *const grey[DRAW_COLOURS] = {"255,255,255", "230,230,230", "205,205,205", "180,180,180",
                                               "155,155,155", "130,130,130", "105,105,105", "80,80,80"};
static const char *const hue[DRAW_COLOURS] = {"175,175,255", "175,255,175", "255,255,175", "255,175,175",
                                              "210,210,255", "210,255,210", "255,255,210", "255,210,210"};
enum {
    DARK = 6, /* the first grey that needs white text   */
    CELL = 20,
    TEXT_SIZE = 8,
    GLYPH = 5, /* at least the width of one of its digits */
    NUMBER_SIZE = 12
};

/* The page in cells, and how wide a cell is. */
typedef struct svg_page {
    FILE *f;
    int   top, left, bottom, right;
    int   cell;
} svg_page;

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

/* Both lines of a cell; a plain panel has one. */
static int cell_lines(const draw_panel *p, const draw_cell *c, char *upper, char *lower)
{
    lower[0] = '\0';
    if (p->plain != NULL)
        return draw_cell_text(p, c, upper);
    int t = snprintf(upper, PTXPACK_LAYOUT_TEXT, "T%lld", (long long)c->thread);
    int v = snprintf(lower, PTXPACK_LAYOUT_TEXT, "V%lld", (long long)c->value);
    return t > v ? t : v;
}

static svg_page page_of(FILE *f, const draw_picture *picture)
{
    char     upper[PTXPACK_LAYOUT_TEXT], lower[PTXPACK_LAYOUT_TEXT];
    svg_page page = {.f = f, .cell = CELL};
    for (int i = 0; i < picture->panels; i++) {
        const draw_panel *p = &picture->panel[i];
        int numbers = p->bare ? 0 : 1, top = p->row - numbers, left = p->col - (p->right ? 0 : numbers);
        int bottom = draw_row(p, p->m, p->n), right = draw_col(p, p->m, p->n) + (p->right ? numbers : 0);
        page.top = top < page.top ? top : page.top;
        page.left = left < page.left ? left : page.left;
        page.bottom = bottom > page.bottom ? bottom : page.bottom;
        page.right = right > page.right ? right : page.right;
        for (int j = 0; j < p->count; j++) {
            int width = GLYPH * cell_lines(p, &p->cells[j], upper, lower);
            page.cell = width > page.cell ? width : page.cell;
        }
    }
    return page;
}

/* `quarters` of the cell's height below its upper edge. */
static void write_text(const svg_page *page, int row, int col, int quarters, const char *look, const char *text)
{
    long x = (long)(col - page->left) * page->cell, y = (long)(row - page->top) * page->cell;
    fprintf(page->f, "<text x=\"%ld\" y=\"%ld\" dy=\".35em\"%s>", x + page->cell / 2,
            y + quarters * page->cell / 4, look);
    escaped(page->f, text);
    fputs("</text>\n", page->f);
}

static void write_cell(const svg_page *page, const draw_panel *p, const draw_cell *c)
{
    char upper[PTXPACK_LAYOUT_TEXT], lower[PTXPACK_LAYOUT_TEXT];
    int  row = draw_row(p, c->m, c->n), col = draw_col(p, c->m, c->n), colour = draw_cell_colour(p, c);
    cell_lines(p, c, upper, lower);
    fprintf(page->f,
            "<rect x=\"%ld\" y=\"%ld\" width=\"%d\" height=\"%d\" fill=\"rgb(%s)\" stroke=\"black\"/>\n",
            (long)(col - page->left) * page->cell, (long)(row - page->top) * page->cell, page->cell, page->cell,
            (p->plain != NULL ? grey : hue)[colour]);
    if (p->plain != NULL) {
        write_text(page, row, col, 2, colour >= DARK ? " fill=\"white\"" : "", upper);
    } else {
        write_text(page, row, col, 1, "", upper);
        write_text(page, row, col, 3, "", lower);
    }
}

static void write_number(const svg_page *page, const draw_panel *p, int m, int n, int number)
{
    char text[16], look[32];
    int  digits = snprintf(text, sizeof text, "%d", number), fit = page->cell * TEXT_SIZE / (GLYPH * digits);
    snprintf(look, sizeof look, " font-size=\"%d\"", fit < NUMBER_SIZE ? fit : NUMBER_SIZE);
    write_text(page, draw_row(p, m, n), draw_col(p, m, n), 2, look, text);
}

static void write_panel(const svg_page *page, const draw_panel *p)
{
    for (int i = 0; i < p->count; i++)
        write_cell(page, p, &p->cells[i]);
    if (p->bare)
        return;
    for (int m = 0; m < p->m; m++)
        write_number(page, p, m, p->right ? p->n : -1, m);
    for (int n = 0; n < p->n; n++)
        write_number(page, p, -1, n, n);
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
    fputs("</title>\n", f);
    for (int i = 0; i < picture->panels; i++)
        write_panel(&page, &picture->panel[i]);
    fputs("</svg>\n", f);
}

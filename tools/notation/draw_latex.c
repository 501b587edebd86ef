/* draw_latex.c - a picture as a LaTeX document: CuTe's print_latex. */
#include "draw_picture.h"

static const char *const grey[DRAW_COLOURS] = {"black!00", "black!40", "black!20", "black!60",
                                               "black!10", "black!50", "black!30", "black!70"};
static const char *const hue[DRAW_COLOURS] = {"{rgb,255:red,175;green,175;blue,255}",
                                              "{rgb,255:red,175;green,255;blue,175}",
                                              "{rgb,255:red,255;green,255;blue,175}",
                                              "{rgb,255:red,255;green,175;blue,175}",
                                              "{rgb,255:red,210;green,210;blue,255}",
                                              "{rgb,255:red,210;green,255;blue,210}",
                                              "{rgb,255:red,255;green,255;blue,210}",
                                              "{rgb,255:red,255;green,210;blue,210}"};

static void write_cells(FILE *f, const draw_panel *p)
{
    char text[PTXPACK_LAYOUT_TEXT];
    for (int i = 0; i < p->count; i++) {
        const draw_cell *c = &p->cells[i];
        fprintf(f, "\\node[fill=%s] at (%d,%d) ", (p->plain != NULL ? grey : hue)[draw_cell_colour(p, c)],
                draw_row(p, c->m, c->n), draw_col(p, c->m, c->n));
        if (p->plain != NULL) {
            draw_cell_text(p, c, text);
            fprintf(f, "{%s};\n", text);
        } else {
            fprintf(f, "{\\shortstack{T%lld \\\\ V%lld}};\n", (long long)c->thread, (long long)c->value);
        }
    }
}

static void write_number(FILE *f, const draw_panel *p, int m, int n, int number)
{
    fprintf(f, "\\node at (%d,%d) {\\Large{\\texttt{%d}}};\n", draw_row(p, m, n), draw_col(p, m, n), number);
}

static void write_panel(FILE *f, const draw_panel *p)
{
    write_cells(f, p);
    fprintf(f, "\\draw[color=black,thick,shift={(-0.5,-0.5)}] (%d,%d) grid (%d,%d);\n\n", p->row, p->col,
            draw_row(p, p->m, p->n), draw_col(p, p->m, p->n));
    if (p->bare)
        return;
    for (int m = 0; m < p->m; m++)
        write_number(f, p, m, p->right ? p->n : -1, m);
    for (int n = 0; n < p->n; n++)
        write_number(f, p, -1, n, n);
}

void draw_write_latex(FILE *f, const draw_picture *picture)
{
    for (int i = 0; i < picture->captions; i++)
        fprintf(f, "%% %s: %s\n", picture->caption[i].name, picture->caption[i].text);
    fputs("\\documentclass[convert]{standalone}\n"
          "\\usepackage{tikz}\n\n"
          "\\begin{document}\n"
          "\\begin{tikzpicture}[x={(0cm,-1cm)},y={(1cm,0cm)},"
          "every node/.style={minimum size=1cm, outer sep=0pt}]\n\n",
          f);
    for (int i = 0; i < picture->panels; i++)
        write_panel(f, &picture->panel[i]);
    fputs("\\end{tikzpicture}\n"
          "\\end{document}\n",
          f);
}

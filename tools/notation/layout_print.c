/* layout_print.c - values of expressions as text. */
#include <inttypes.h>
#include <string.h>

#include "layout_expr.h"

static void print_tuple(FILE *f, const ptxpack_tuple *t)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_tuple_print(t, text, sizeof text);
    fputs(text, f);
}

static void print_layout(FILE *f, const ptxpack_layout *l)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    fputs(text, f);
}

/* A pointer is what stands before " o 1:0" in the line of its tensor. */
static void print_line(FILE *f, const expr_tensor *t, bool pointer)
{
    char text[PTXPACK_LAYOUT_TEXT + 128];
    ptxpack_tensor_text(&t->tensor, &t->engine, text, sizeof text);
    char *layout = strstr(text, " o ");
    if (pointer && layout != NULL)
        *layout = '\0';
    fputs(text, f);
}

/* The elements without the blanks before them. */
static void print_elements(FILE *f, const expr_tensor *t)
{
    char    text[PTXPACK_LAYOUT_TEXT];
    int64_t size = ptxpack_size(&t->tensor.layout);
    int64_t start = t->engine.counting ? (int64_t)(t->tensor.address - t->engine.base) : 0;
    for (int64_t i = 0; i < size && !ferror(f); i++) {
        ptxpack_tuple index = ptxpack_int(i);
        if (i > 0)
            putc(',', f);
        if (t->engine.counting)
            fprintf(f, "%" PRId64, start + ptxpack_at(&t->tensor.layout, i));
        else if (ptxpack_print_element(&t->tensor, &t->engine, &index, text, sizeof text) == PTXPACK_OK)
            fputs(text, f);
        else
            fputs("error", f);
    }
}

void expr_print(FILE *f, const expr_value *value)
{
    switch (value->kind) {
    case EXPR_TUPLE:
        print_tuple(f, &value->as.tuple);
        break;
    case EXPR_LAYOUT:
        print_layout(f, &value->as.layout);
        break;
    case EXPR_SWIZZLE:
        fprintf(f, "Sw<%d,%d,%d>", value->as.swizzle.bits, value->as.swizzle.base, value->as.swizzle.shift);
        break;
    case EXPR_SLICE:
        print_layout(f, &value->as.slice.layout);
        fputs(" + ", f);
        print_tuple(f, &value->as.slice.offset);
        break;
    case EXPR_VALUES:
        print_elements(f, &value->as.tensor);
        break;
    case EXPR_ORDER:
        fputs(value->as.right ? "LayoutRight" : "LayoutLeft", f);
        break;
    case EXPR_TENSOR:
    case EXPR_POINTER:
        print_line(f, &value->as.tensor, value->kind == EXPR_POINTER);
        break;
    case EXPR_TEXT:
        fputs(value->as.text, f);
        break;
    }
}

/* compose.c - composition gives a layout exactly where a(b(i)) is one: that is decided here by trying all layouts of b's
 * shape. */
#include "algebra_fixture.h"

enum { LONGEST = 24 };

/* a(x), x below the size of a. */
static int64_t image(const layout *a, int64_t x)
{
    int64_t sum = 0;
    for (int i = 0; i < a->shape.items; i++) {
        sum += x % a->shape.value[i] * a->stride.value[i];
        x /= a->shape.value[i];
    }
    return sum;
}

/* Is f(place i) + ... a layout from `place` on: does some factor of what is left add up? */
static bool is_layout(const int64_t *f, int64_t extent, int64_t place)
{
    if (place == extent)
        return true;
    for (int64_t factor = 2; place * factor <= extent; factor++) {
        bool adds_up = extent % (place * factor) == 0;
        for (int64_t i = 0; adds_up && i < place * factor; i++)
            adds_up = f[i] == f[i % place] + i / place * f[place];
        if (adds_up && is_layout(f, extent, place * factor))
            return true;
    }
    return false;
}

/* Is a(b(i)) the sum of a layout for each mode of b? */
static bool has_composition(const layout *a, const layout *b)
{
    int64_t f[LONGEST * LONGEST], size = 1, place = 1;
    for (int k = 0; k < b->shape.items; k++)
        size *= b->shape.value[k];
    for (int64_t i = 0; i < size; i++)
        f[i] = image(a, image(b, i));
    for (int k = 0; k < b->shape.items; k++) {
        int64_t mode[LONGEST], extent = b->shape.value[k];
        for (int64_t i = 0; i < extent; i++)
            mode[i] = f[i * place];
        for (int64_t i = 0; i < size; i++) /* the mode's own part is added to whatever the others give */
            if (f[i] != f[i - i / place % extent * place] + mode[i / place % extent])
                return false;
        if (!is_layout(mode, extent, 1))
            return false;
        place *= extent;
    }
    return true;
}

/* A layout of some modes whose greatest index is below `limit`; limit 0: any strides. */
static layout random_modes(int modes, int64_t limit)
{
    int64_t shape[3], stride[3];
    for (int k = 0; k < modes; k++) {
        shape[k] = limit > 0 ? 1 + draw(limit < 12 ? (int)limit : 12) : 1 + draw(6);
        int64_t most = limit > 0 && shape[k] > 1 ? (limit - 1) / (shape[k] - 1) : 30;
        stride[k] = draw((int)(most < 30 ? most : 30) + 1);
        if (limit > 0)
            limit -= (shape[k] - 1) * stride[k];
    }
    layout l = must(ptxpack_make_layout(keep_tuple(ptxpack_tuple_of(modes, shape)),
                                        keep_tuple(ptxpack_tuple_of(modes, stride))));
    return l;
}

static void every_composition_is_found(void **state)
{
    int found = 0, refused = 0;
    (void)state;
    for (int round = 0; round < 8 * ROUNDS; round++) {
        layout  a = random_modes(1 + draw(3), 0);
        int64_t size = 1;
        for (int i = 0; i < a.shape.items; i++)
            size *= a.shape.value[i];
        layout b = random_modes(1 + draw(2), size), r = ptxpack_composition(&a, &b);
        bool   exists = has_composition(&a, &b);
        if (ok(&r) != exists)
            fail_msg("composition(%s,%s) %s", text_of(&a), text_of(&b),
                     exists ? "was refused, but is a layout" : "is no layout, but was found");
        found += exists;
        refused += !exists;
        for (int64_t i = 0; exists && i < ptxpack_size(&b); i++)
            if (ptxpack_at(&r, i) != image(&a, image(&b, i)))
                fail_msg("composition(%s,%s) is %s", text_of(&a), text_of(&b), text_of(&r));
    }
    assert_in_range(found, ROUNDS, 8 * ROUNDS);
    assert_in_range(refused, ROUNDS / 8, 8 * ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_composition_is_found)};
    return cmocka_run_group_tests(tests, print_seed, NULL);
}

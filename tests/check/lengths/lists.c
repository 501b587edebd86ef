/* lists.c - random lists of blocks of keys for cases of attention. */
#include "image.h"

/* Of a list's blocks none, all in one list, or a random part in both; in descending order, or in a random one.  The rest of a list is
 * nothing that may be read as a block. */
static void draw_list(const lengths_image *image, random_state *random, int64_t number)
{
    enum { NOTHING = 0x7fffffff };
    const attention_lists *l = &image->geometry.lists;
    int32_t *const        *a = image->arrays;
    const uint64_t         kind = random_below(random, 8);
    int32_t *list[2] = {a[ARRAY_BLOCK_LIST] + number * l->width, a[ARRAY_FULL_LIST] + number * l->width};
    int32_t  count[2] = {0, 0};
    for (int32_t i = 0; i < l->key_blocks; i++) {
        const int  full = kind == 1 || (kind > 2 && random_below(random, 2) != 0);
        const bool here = kind == 1 || kind == 2 || (kind > 2 && random_below(random, 3) != 0);
        list[0][i] = list[1][i] = NOTHING;
        if (!here)
            continue;
        int32_t at = kind % 2 != 0 ? count[full] : (int32_t)random_below(random, (uint64_t)count[full] + 1);
        list[full][count[full]++] = list[full][at];
        list[full][at] = i;
    }
    if (kind > 3 && count[0] > 1)
        list[0][0] = -1; /* no block */
    a[ARRAY_BLOCK_COUNT][number] = count[0];
    a[ARRAY_FULL_COUNT][number] = kind == 3 ? -1 : count[1];
}

void lengths_lists_fill(lengths_image *image, random_state *random)
{
    const attention_lists *l = &image->geometry.lists;
    if (l->rows == 0)
        return;
    const int64_t lists = (int64_t)(image->geometry.array_bytes[ARRAY_BLOCK_COUNT] / sizeof(int32_t));
    for (int64_t i = 0; i < lists; i++)
        draw_list(image, random, i);
}

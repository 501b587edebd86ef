/* memory.c - memory that lives as long as a module: allocated from blocks, and freed all at once. */
#include <stdlib.h>
#include "ptx.h"

enum { FIRST_BLOCK = 16 * 1024, LARGEST_BLOCK = 512 * 1024, ALIGN = 16 };
/* No sensible text needs as much.  A text that does is refused as if memory had run out. */
static const size_t most = (size_t)2 << 30;

struct block {
    struct block *next;
    max_align_t   data[];
};
struct ptx_memory {
    struct block *blocks;
    char         *at; /* the rest of the block in use */
    size_t        left, total;
    size_t block; /* bytes of the last block; each is twice the previous one, so that small texts cost little */
};

struct ptx_memory *ptx_memory_new(void) { return (struct ptx_memory *)calloc(1, sizeof(struct ptx_memory)); }

/* Zeroed by calloc, so that large blocks cost nothing until they are touched. */
static char *add_block(struct ptx_memory *memory, size_t bytes)
{
    if (bytes > most - memory->total)
        return NULL;
    struct block *block = (struct block *)calloc(1, offsetof(struct block, data) + bytes);
    if (block == NULL)
        return NULL;
    block->next = memory->blocks;
    memory->blocks = block;
    memory->total += bytes;
    return (char *)block->data;
}

void *ptx_alloc(struct ptx_memory *memory, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > most)
        return NULL;
    bytes = (bytes + ALIGN) / ALIGN * ALIGN; /* never 0, and one past the end is still the caller's */
    if (bytes > memory->left) {
        size_t block = !memory->block                  ? FIRST_BLOCK
                       : memory->block < LARGEST_BLOCK ? 2 * memory->block
                                                       : LARGEST_BLOCK;
        if (bytes > block / 4) /* a block of its own; the rest of the old block stays in use */
            return add_block(memory, bytes);
        char *at = add_block(memory, block);
        if (at == NULL)
            return NULL;
        memory->at = at;
        memory->left = memory->block = block;
    }
    void *result = memory->at;
    memory->at += bytes;
    memory->left -= bytes;
    return result;
}

void ptx_memory_free(struct ptx_memory *memory)
{
    if (memory == NULL)
        return;
    for (struct block *block = memory->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(memory);
}

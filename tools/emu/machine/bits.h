/* bits.h - which bytes are defined: one bit for each byte.
 *
 * Several host threads set the bits of device memory at once (`common`), so that a byte which holds bits of
 * other accesses is changed atomically.  Shared and local memory belong to one host thread. */
#ifndef EMU_MEMORY_BITS_H
#define EMU_MEMORY_BITS_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline unsigned int bits_some(uint64_t first, uint64_t count) /* within one byte */
{
    return ((1u << count) - 1) << (first & 7);
}

static inline bool bits_has(const unsigned char *map, uint64_t at, unsigned int bits)
{
    return (__atomic_load_n(&map[at], __ATOMIC_RELAXED) & bits) == bits;
}

static inline void bits_put(unsigned char *map, uint64_t at, unsigned int bits, bool value, bool common)
{
    unsigned char old = __atomic_load_n(&map[at], __ATOMIC_RELAXED);
    unsigned char wanted = (unsigned char)(value ? old | bits : old & ~bits);
    if (old == wanted)
        return;
    if (!common)
        map[at] = wanted;
    else if (value)
        __atomic_fetch_or(&map[at], (unsigned char)bits, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(&map[at], (unsigned char)~bits, __ATOMIC_RELAXED);
}

static inline bool bits_all_long(const unsigned char *map, uint64_t first, uint64_t count)
{
    uint64_t     room = 8 - (first & 7);
    uint64_t     at = first >> 3, last = (first + count) >> 3;
    unsigned int tail = (unsigned int)((first + count) & 7);
    if (first & 7 && !bits_has(map, at++, bits_some(first, room)))
        return false;
    for (; at + 8 <= last; at += 8) {
        uint64_t word;
        memcpy(&word, map + at, 8);
        if (word != UINT64_MAX)
            return false;
    }
    for (; at < last; at++)
        if (map[at] != 0xff)
            return false;
    return !tail || bits_has(map, last, (1u << tail) - 1);
}

/* Are all of [first, first + count) set?  Usually they are within one byte of bits. */
static inline __attribute__((always_inline)) bool bits_all(const unsigned char *map, uint64_t first,
                                                           uint64_t count)
{
    if (count <= 8 - (first & 7))
        return bits_has(map, first >> 3, bits_some(first, count));
    return bits_all_long(map, first, count);
}

static inline void bits_set_long(unsigned char *map, uint64_t first, uint64_t count, bool value, bool common)
{
    uint64_t     room = 8 - (first & 7);
    uint64_t     at = first >> 3, last = (first + count) >> 3;
    unsigned int tail = (unsigned int)((first + count) & 7);
    if (first & 7)
        bits_put(map, at++, bits_some(first, room), value, common);
    if (last > at)
        memset(map + at, value ? 0xff : 0, last - at);
    if (tail)
        bits_put(map, last, (1u << tail) - 1, value, common);
}

static inline __attribute__((always_inline)) void bits_set(unsigned char *map, uint64_t first, uint64_t count,
                                                           bool value, bool common)
{
    if (count <= 8 - (first & 7))
        bits_put(map, first >> 3, bits_some(first, count), value, common);
    else
        bits_set_long(map, first, count, value, common);
}

/* Source and destination must not overlap; `common` is about the destination. */
static inline void bits_copy(unsigned char *to, uint64_t first, const unsigned char *from, uint64_t source,
                             uint64_t count, bool common)
{
    if (bits_all(from, source, count)) {
        bits_set(to, first, count, true, common);
        return;
    }
    if ((first & 7) == (source & 7)) /* whole bytes in the middle */
        for (; count && first & 7; first++, source++, count--)
            bits_set(to, first, 1, bits_all(from, source, 1), common);
    if (!(first & 7) && !(source & 7)) {
        memmove(to + (first >> 3), from + (source >> 3), count >> 3);
        first += count & ~7ull;
        source += count & ~7ull;
        count &= 7;
    }
    for (; count; first++, source++, count--)
        bits_set(to, first, 1, bits_all(from, source, 1), common);
}

/* The first undefined byte at or after `first`. */
static inline uint64_t bits_first_hole(const unsigned char *map, uint64_t first, uint64_t count)
{
    uint64_t i = 0;
    while (i < count && bits_all(map, first + i, 1))
        i++;
    return first + i;
}
#endif

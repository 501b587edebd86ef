/* banks.c - the cost of an access to shared memory: 32 banks of 4 bytes, 128 bytes at a time. */
#include "access.h"

enum { BANKS = 32, LINE = 128 };

/* Lanes that are served together. */
static uint32_t phase_lanes(uint32_t bytes)
{
    return bytes <= 4 ? EMU_LANES : bytes >= LINE ? 1 : LINE / bytes;
}

static uint32_t lanes_from(uint32_t first, uint32_t count)
{
    return (count == EMU_LANES ? EMU_ALL : (1u << count) - 1) << first;
}

/* The number of different words in the busiest bank; one word serves all lanes that access it. */
static unsigned int phase_passes(const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    uint64_t     seen[BANKS][EMU_LANES];
    unsigned int count[BANKS] = {0}, most = 0;
    for (; mask; mask &= mask - 1) {
        uint64_t at = address[__builtin_ctz(mask)], last = (at + bytes - 1) / 4;
        for (uint64_t word = at / 4; word <= last; word++) {
            uint32_t bank = word % BANKS, i = 0;
            while (i < count[bank] && seen[bank][i] != word)
                i++;
            if (i < count[bank] || i == EMU_LANES)
                continue;
            seen[bank][count[bank]++] = word;
            most = count[bank] > most ? count[bank] : most;
        }
    }
    return most;
}

unsigned int emu_wavefronts(const uint64_t address[EMU_LANES], uint32_t mask, uint32_t bytes)
{
    unsigned int passes = 0;
    uint32_t     lanes = phase_lanes(bytes);
    for (uint32_t l = 0; l < EMU_LANES; l += lanes)
        if (mask & lanes_from(l, lanes))
            passes += phase_passes(address, mask & lanes_from(l, lanes), bytes);
    return passes;
}

unsigned int memory_least_wavefronts(uint32_t mask, uint32_t bytes)
{
    unsigned int phases = 0;
    uint32_t     lanes = phase_lanes(bytes);
    for (uint32_t l = 0; l < EMU_LANES; l += lanes)
        phases += (mask & lanes_from(l, lanes)) != 0;
    return phases;
}

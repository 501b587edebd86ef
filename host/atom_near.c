/* atom_near.c - which names are nearest to one that is unknown. */
#include "atom_near.h"
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Least number of letters to insert, delete or replace; case does not count. */
static int distance(const char *a, const char *b)
{
    int    row[NEAR_BYTES];
    size_t columns = strlen(b);
    for (size_t j = 0; j <= columns; j++)
        row[j] = (int)j;
    for (int i = 1; *a; a++, i++) {
        int diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            int replaced = diagonal + (toupper((unsigned char)*a) != toupper((unsigned char)b[j - 1]));
            int shifted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shifted ? replaced : shifted;
        }
    }
    return row[columns];
}

void near_begin(struct near_names *near, const char *wanted)
{
    near->wanted = wanted;
    for (int i = 0; i < NEAR_NAMES; i++) {
        near->distance[i] = INT_MAX;
        near->name[i][0] = '\0';
    }
}

void near_offer(struct near_names *near, const char *name)
{
    char offered[NEAR_BYTES];
    int  rank = NEAR_NAMES;
    snprintf(offered, sizeof offered, "%s", name);
    int steps = distance(near->wanted, offered);
    while (rank > 0 && steps < near->distance[rank - 1])
        rank--;
    if (rank == NEAR_NAMES)
        return;
    for (int i = NEAR_NAMES - 1; i > rank; i--) {
        near->distance[i] = near->distance[i - 1];
        memcpy(near->name[i], near->name[i - 1], NEAR_BYTES);
    }
    near->distance[rank] = steps;
    memcpy(near->name[rank], offered, NEAR_BYTES);
}

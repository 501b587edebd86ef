/* near.c - which names are nearest to one that is unknown. */
#include "inspect.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAR = NEAR_BYTES }; /* no two names are further apart than the longer one is long */

/* At most NEAR_BYTES - 1 letters of `name`, in upper case; returns how many. */
static int to_upper(const char *name, char upper[NEAR_BYTES])
{
    int length = 0;
    for (; name[length] != '\0' && length < NEAR_BYTES - 1; length++)
        upper[length] = (char)toupper((unsigned char)name[length]);
    upper[length] = '\0';
    return length;
}

static int least(int a, int b) { return a < b ? a : b; }

/* Least number of letters to insert, delete or replace; `limit` where it is not below that.  Row i, column j
 * of the table is that number for the first i letters of a and j of b.  It is at least |i - j|, and the rest
 * adds at least the difference in the lengths of the rests: only columns near i can lead to less than the
 * limit. */
static int distance(const char *a, int rows, const char *b, int columns, int limit)
{
    int row[NEAR_BYTES];
    if (rows - columns >= limit || columns - rows >= limit)
        return limit;
    for (; rows > 0 && columns > 0 && *a == *b; a++, b++, rows--)
        columns--; /* a common beginning and a common end cost nothing */
    while (rows > 0 && columns > 0 && a[rows - 1] == b[columns - 1])
        rows--, columns--;
    int longer = columns > rows ? columns - rows : 0, shorter = columns < rows ? rows - columns : 0;
    int spare = (limit - 1 - longer - shorter) / 2;
    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; i <= rows; i++) {
        int first = i - shorter - spare < 1 ? 1 : i - shorter - spare;
        int last = least(columns, i + longer + spare), diagonal = row[first - 1], nearest = limit;
        row[first - 1] = first == 1 ? i : limit;
        if (first == 1)
            nearest = i + abs(rows - i - columns);
        for (int j = first; j <= last; j++) {
            int above = row[j]; /* of a column that the row above did not reach: j, no less than it is */
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = above;
            row[j] = least(replaced, least(above, row[j - 1]) + 1);
            nearest = least(nearest, row[j] + abs((rows - i) - (columns - j)));
        }
        if (nearest >= limit)
            return limit;
    }
    return least(row[columns], limit);
}

void near_begin(struct near_names *near, const char *wanted)
{
    near->length = to_upper(wanted, near->wanted);
    for (int i = 0; i < NEAR_NAMES; i++) {
        near->distance[i] = FAR;
        near->name[i][0] = '\0';
    }
}

void near_offer(struct near_names *near, const char *name)
{
    char upper[NEAR_BYTES];
    int  rank = NEAR_NAMES, length = to_upper(name, upper);
    /* "SM80_16x8x16": what a name begins with is nearer to it than any misspelling */
    bool begins = near->length > 0 && strncmp(upper, near->wanted, (size_t)near->length) == 0;
    int  steps = begins ? 0
                        : distance(near->wanted, near->length, upper, length, near->distance[NEAR_NAMES - 1]);
    while (rank > 0 && steps < near->distance[rank - 1])
        rank--;
    if (rank == NEAR_NAMES)
        return;
    for (int i = NEAR_NAMES - 1; i > rank; i--) {
        near->distance[i] = near->distance[i - 1];
        memcpy(near->name[i], near->name[i - 1], NEAR_BYTES);
    }
    near->distance[rank] = steps;
    snprintf(near->name[rank], NEAR_BYTES, "%s", name);
}

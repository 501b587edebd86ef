/* corners.h - of the corner builds of all rows (host/plan/instance.h) a choice that meets every pair of features.
 *
 * A feature is a symbol that differs between the builds of a row; of its values the lowest and the highest one count, that is, off
 * and on.  Of every row these are chosen:
 *   - the build with the most features at their highest value, which needs the most registers;
 *   - builds in which each feature has its lowest and its highest value.
 * For every two rows that follow each other in kernels.def (of one file, for one architecture) there are more, until any two
 * values of two features that are in some build together are in a chosen one.
 */
#ifndef CORNERS_H
#define CORNERS_H
#include <stdbool.h>
/* A value for each build of each row, in the order of ptxpack_variants and ptxpack_instance_get; the caller frees it.  NULL: no
 * memory, or a row has too many features. */
bool *corners_choose(void);
#endif

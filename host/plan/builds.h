/* builds.h - private: the only list of builds.  It holds every build that a plan can ask for, but for those of some
 * features of attention at once (host/attention/op.h); instance.h has the builds that differ most. */
#ifndef PTXPACK_BUILDS_H
#define PTXPACK_BUILDS_H
#include <stdbool.h>
#include "instance.h"

/* Sees one build; false ends the walk. */
typedef bool (*ptxpack_build_visitor)(const ptxpack_instance *build, void *context);

/* Shows every build of a row of kernels.def that some plan asks for, each of them once.  False when the visitor
 * ended the walk, or when something failed: then ptxpack_detail(NULL) says what. */
bool ptxpack_builds(const ptxpack_variant *row, ptxpack_build_visitor visit, void *context);

/* Whether a plan on such a device may take the row: the row runs there, and no other row is better for every
 * problem. */
bool ptxpack_may_be_chosen(const ptxpack_variant *row, const ptxpack_device_caps *caps);
#endif

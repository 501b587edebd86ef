/* builds.h - private: all that plans can ask for: every build of a row, and the rows that may be chosen at
 * all; for filling folders of machine code.  (instance.h walks the builds that differ most.) */
#ifndef PTXPACK_BUILDS_H
#define PTXPACK_BUILDS_H
#include <stdbool.h>
#include "instance.h"

/* Sees one build; false ends the walk. */
typedef bool (*ptxpack_build_visitor)(const ptxpack_instance *build, void *context);

/* Every build of a row of kernels.def that some plan asks for, each once: the symbols are those that the plan
 * itself would make.  False when the visitor ended it, or something failed: then ptxpack_detail(NULL) says
 * what. */
bool ptxpack_builds(const ptxpack_variant *row, ptxpack_build_visitor visit, void *context);

/* Whether a plan on such a device may take the row: it runs there, and no other row comes first whatever the
 * problem. */
bool ptxpack_may_be_chosen(const ptxpack_variant *row, const ptxpack_device_caps *caps);
#endif

/* log.h - the messages of ptxas and of the compilers in the driver: resources, remarks, errors. */
#ifndef PTXPACK_COMPILE_LOG_H
#define PTXPACK_COMPILE_LOG_H
#include <stdbool.h>
#include <stddef.h>
#include "loader/expand/expand.h"
#include "loader/loader.h"

/* Write where a line of PTX came from to buf, and return buf; "" if that is unknown. */
typedef const char *(*ptxpack_line_origin)(const void *context, size_t line, char *buf, size_t cap);

/* Read the resources of `entry` and the remarks from an info log (--verbose). */
void ptxpack_log_resources(const char *log, const char *entry, ptxpack_resources *out);

/* The most telling error of a log as one line that names our source: "FILE:LINE: what", and the number of further
 * errors. `expansion` may be NULL: then line numbers are those of the PTX. */
void ptxpack_log_errors(const char *log, const ptxpack_expansion *expansion, char *buf, size_t cap);
/* The same with any origin of lines.  If it is NULL, line numbers are those of the PTX. */
void ptxpack_log_errors_of(const char *log, ptxpack_line_origin origin, const void *context, char *buf,
                           size_t cap);
/* All of them, one a line, malloc'ed: first words that are neither macro nor instruction, then unknown symbols, then the
 * rest, each in the order of the log.  NULL without memory. */
char *ptxpack_log_error_list(const char *log, ptxpack_line_origin origin, const void *context, size_t *count);
/* The same of an NVRTC log.  An error in a template of another file also names the line that uses the template. */
char *ptxpack_log_cuda_list(const char *log, size_t *count);
/* The first error of an NVRTC log as "FILE:LINE: error: what", and the number of further errors; false
 * when the C++ front end reported none. */
bool ptxpack_log_cuda_errors(const char *log, char *buf, size_t cap);
/* Whether a log reports the resources of `entry`. */
bool ptxpack_log_knows(const char *log, const char *entry);
/* A ptxpack_line_origin, whose context is the ptxpack_expansion. */
const char *ptxpack_log_expanded_from(const void *expansion, size_t line, char *buf, size_t cap);

/* From "current version is '8.4'": 84; 0 when the log does not say. */
int ptxpack_log_isa(const char *log);

/* Write resources as text for the cache (*text is malloc'ed), and read them again.  Reading is strict: it
 * returns false for every text that writing does not produce. */
bool ptxpack_resources_write(const ptxpack_resources *r, char **text, size_t *bytes);
bool ptxpack_resources_read(const char *text, size_t bytes, ptxpack_resources *out);
#endif

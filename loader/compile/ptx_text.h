/* ptx_text.h - facts that can be read from a PTX text without parsing it. */
#ifndef PTXPACK_PTX_TEXT_H
#define PTXPACK_PTX_TEXT_H
#include <stdbool.h>
#include <stddef.h>

/* The PTX ISA * 10 of the text's .version; 0 if it has none. */
int ptxpack_ptx_isa(const char *text);
/* The first word of the text's .target ("sm_90a"); false if there is none, or if it does not fit into buf. */
bool ptxpack_ptx_target(const char *text, char *buf, size_t cap);
/* The name of the first entry at or after `at`, *bytes long, not NUL-terminated; NULL if there is none. */
const char *ptxpack_ptx_entry(const char *at, size_t *bytes);
/* A ptxpack_line_origin that reads the .loc and .file directives of a PTX text, which is the context:
 * "k.cu:12", or for inlined code "k.cu:12 (in lib.h:3)". */
const char *ptxpack_ptx_origin(const void *text, size_t line, char *buf, size_t cap);
/* Whether a word stands in a text, outside of comments. */
bool ptxpack_text_uses(const char *text, const char *word);
/* Remove the current folder from the paths of the text's .file directives. */
void ptxpack_ptx_strip_folder(char *text);
#endif

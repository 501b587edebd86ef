/* attention_mask.h - the options --causal, --window and --align as a descriptor's mask, and in words. */
#ifndef PTXPACK_ATTENTION_MASK_H
#define PTXPACK_ATTENTION_MASK_H
#include <stdbool.h>
#include "host/attention/attention.h"
#include "tools/command.h"
#include "tools/report.h"

#define WINDOW_OPTION_HELP  "LEFT,RIGHT  keys that a query sees left and right of its own; none: no limit"
#define ALIGN_OPTION_HELP   "top-left|bottom-right  --window puts query 0 on key 0, or last on last (default)"
#define CHUNK_OPTION_HELP   "N  with --causal: queries see the keys of their own chunk of N positions alone"
#define SOFTCAP_OPTION_HELP "X  scores s become X tanh(s / X)"
#define UNNORMALIZED_OPTION_HELP \
    "o = sum e^s v, not divided by sum e^s; with a --score-mod of log-weights: any weights"

typedef struct attention_mask_words {
    const char *causal; /* NULL: not given; "": alone */
    const char *window, *align;
} attention_mask_words;

/* Sets the mask and the window; returns false after a line on stderr that names the option. */
bool attention_mask_parse(const char *subcommand, const attention_mask_words *words,
                          ptxpack_attention_desc *desc);

/* Such as "full", "causal top-left, softcap 15", "causal bottom-right, chunk 8192", "window 1023,0 bottom-right, sinks", "window none,0 top-left". */
typedef struct attention_mask_text {
    char text[96];
} attention_mask_text;
attention_mask_text attention_mask_name(const ptxpack_attention_desc *desc);
/* Reports the mask, its window, chunk, softcap, sinks and ALiBi as values; {mask_name} is the words above. */
void attention_mask_report(report *r, const ptxpack_attention_desc *desc);
#endif

/* help.c - the manual page of the command and its completion in shells, made from the tables of options. */
#include "help.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "command.h"
#include "loader/version.h"

void help_summary(FILE *file, const subcommand *all)
{
    fputs("usage: ptxpack SUBCOMMAND [options]\n", file);
    for (; all->word != NULL; all++)
        fprintf(file, "  %-12s %s\n", all->word, all->summary);
    fputs("\"ptxpack SUBCOMMAND --help\" lists the options of one, \"ptxpack --version\" tells the version\n",
          file);
}

/* ---- the tables --------------------------------------------------------------------------------------- */
/* The parts of a row's help: "N  query heads (default 16)" is a value and what it does; a flag has no value. */
typedef struct parts {
    const char *value, *text;
    int         value_bytes;
    bool        choices; /* the value is one of those between the '|' */
} parts;

static parts parts_of(const option *row)
{
    parts       p = {.value = row->help, .text = row->help};
    const char *end = strstr(row->help, "  ");
    if (row->kind == OPTION_FLAG || end == NULL)
        return p;
    p.value_bytes = (int)(end - row->help);
    p.text = end + strspn(end, " ");
    p.choices = memchr(p.value, '|', (size_t)p.value_bytes) != NULL;
    for (int i = 0; i < p.value_bytes; i++)
        p.choices &= islower((unsigned char)p.value[i]) || isdigit((unsigned char)p.value[i]) ||
                     strchr("|-_", p.value[i]) != NULL;
    return p;
}

static bool is_letter(const option *row) { return row->name[1] == '\0'; }

/* Subcommands with another table for a second word, which without one are described for their first. */
static const char *const others[][2] = {{"plan", "gemm"}};
enum { OTHERS = sizeof others / sizeof others[0] };

/* Call `visit` with the options of one subcommand and second word (NULL: none). */
static void visit_options(const subcommand *of, const char *word, command_visit *visit)
{
    char  name[32], second[32];
    char *argv[] = {name, second, NULL};
    snprintf(name, sizeof name, "%s", of->word);
    snprintf(second, sizeof second, "%s", word != NULL ? word : "");
    command_describe(visit);
    of->run(word != NULL ? 2 : 1, argv);
    command_describe(NULL);
}

/* Call `each` for all tables; those with a second word come first. */
static void for_all(const subcommand *all, void (*each)(const subcommand *one, const char *word))
{
    for (; all->word != NULL; all++) {
        for (int i = 0; i < OTHERS; i++)
            if (strcmp(others[i][0], all->word) == 0)
                each(all, others[i][1]);
        each(all, NULL);
    }
}

/* ---- the manual page ------------------------------------------------------------------------------------ */
static void put_roff(const char *text, size_t bytes)
{
    if (bytes > 0 && (*text == '.' || *text == '\''))
        fputs("\\&", stdout);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\\')
            fputs("\\e", stdout);
        else if (text[i] == '-')
            fputs("\\-", stdout);
        else
            putchar(text[i]);
}

static void man_options(const char *synopsis, const option *rows)
{
    fputs(".nf\n", stdout);
    for (const char *at = synopsis; *at != '\0'; at += strspn(at, "\n")) {
        size_t bytes = strcspn(at, "\n");
        put_roff(at, bytes);
        putchar('\n');
        at += bytes;
    }
    fputs(".fi\n", stdout);
    for (const option *row = rows; row->name != NULL; row++) {
        const parts p = parts_of(row);
        printf(".TP\n\\fB%s", is_letter(row) ? "\\-" : "\\-\\-");
        put_roff(row->name, strlen(row->name));
        fputs("\\fR", stdout);
        if (p.value_bytes > 0) {
            fputs(" \\fI", stdout);
            put_roff(p.value, (size_t)p.value_bytes);
            fputs("\\fR", stdout);
        }
        putchar('\n');
        put_roff(p.text, strlen(p.text));
        putchar('\n');
    }
}

static void man_subcommand(const subcommand *one, const char *word)
{
    printf(".SS %s%s%s\n", one->word, word != NULL ? " " : "", word != NULL ? word : "");
    put_roff(one->summary, strlen(one->summary));
    fputs("\n.PP\n", stdout);
    visit_options(one, word, man_options);
}

static void print_man(const subcommand *all)
{
    fputs(".TH PTXPACK 1 \"\" \"ptxpack " PTXPACK_VERSION "\"\n.SH NAME\n"
          "ptxpack \\- attention and matrix products as hand\\-written PTX, and a workbench for kernels\n"
          ".SH SYNOPSIS\n.B ptxpack\n.I SUBCOMMAND\n[options]\n.SH DESCRIPTION\n"
          "Runs, measures and explains the kernels of the library ptxpack, and compiles, runs and times "
          "kernels of your "
          "own in PTX or CUDA C++. Without a GPU kernels run on the emulated driver.\n"
          "An option\\(aqs value follows it as a word of its own or after a \\(aq=\\(aq. Every subcommand has\n"
          ".BR \\-\\-help ;\n"
          "most have\n.BR \\-\\-json .\n.SH SUBCOMMANDS\n",
          stdout);
    for_all(all, man_subcommand);
    fputs(
        ".SH EXIT STATUS\n.TP\n0\nIt is done.\n.TP\n1\nIt failed; a line on standard error says why.\n.TP\n2\n"
        "The usage is wrong; a line names the culprit.\n.SH ENVIRONMENT\n.BR ptxpack\\-environment (7)\n"
        ".SH SEE ALSO\n.BR ptxpack\\-environment (7),\n.BR ptxpack\\-ptx (7)\n",
        stdout);
}

/* ---- bash ----------------------------------------------------------------------------------------------- */
static void put_name(const option *row) { printf("%s%s", is_letter(row) ? "-" : "--", row->name); }

static void put_choices(const parts *p)
{
    for (int i = 0; i < p->value_bytes; i++)
        putchar(p->value[i] == '|' ? ' ' : p->value[i]);
}

/* The words between the brackets or bars of "ptxpack cache [stats|list] [options]", if it has such. */
static void put_words(const char *synopsis)
{
    const char *at = strchr(synopsis, ' ');
    at = at != NULL ? strchr(at + 1, ' ') : NULL;
    if (at == NULL)
        return;
    at += 1 + (at[1] == '[');
    size_t bytes = strcspn(at, " ]\n");
    if (bytes == strlen("options") && strncmp(at, "options", bytes) == 0)
        return;
    for (size_t i = 0; i < bytes; i++)
        if (!islower((unsigned char)at[i]) && strchr("|-", at[i]) == NULL)
            return;
    for (size_t i = 0; i < bytes; i++)
        putchar(at[i] == '|' ? ' ' : at[i]);
}

static void bash_options(const char *synopsis, const option *rows)
{
    fputs("        words='", stdout);
    put_words(synopsis);
    fputs(" --help", stdout);
    for (const option *row = rows; row->name != NULL; row++) {
        putchar(' ');
        put_name(row);
    }
    fputs("'\n        case $before in\n", stdout);
    for (const option *row = rows; row->name != NULL; row++) {
        const parts p = parts_of(row);
        if (p.value_bytes == 0)
            continue;
        fputs("        ", stdout);
        put_name(row);
        fputs(") words='", stdout);
        if (p.choices)
            put_choices(&p);
        fputs("' ;;\n", stdout);
    }
    fputs("        esac ;;\n", stdout);
}

static void bash_subcommand(const subcommand *one, const char *word)
{
    printf("    *,%s,%s)\n", one->word, word != NULL ? word : "*");
    visit_options(one, word, bash_options);
}

static void print_bash(const subcommand *all)
{
    fputs("# bash completion of ptxpack; made by `ptxpack help --bash`\n_ptxpack()\n{\n"
          "    local words='' now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    [ \"$COMP_CWORD\" -gt 1 ] || before=\n"
          "    case $COMP_CWORD,${COMP_WORDS[1]},${COMP_WORDS[2]} in\n    1,*)\n        words='help --help "
          "--version",
          stdout);
    for (const subcommand *one = all; one->word != NULL; one++)
        printf(" %s", one->word);
    fputs("' ;;\n    *,help,*)\n        words='--man --bash --zsh --fish", stdout);
    for (const subcommand *one = all; one->word != NULL; one++)
        printf(" %s", one->word);
    fputs("' ;;\n", stdout);
    for_all(all, bash_subcommand);
    fputs("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$now\"))\n}\ncomplete -o default -F _ptxpack "
          "ptxpack\n",
          stdout);
}

/* ---- zsh ------------------------------------------------------------------------------------------------ */
/* In single quotes, without what _arguments and fish take for syntax. */
static void put_quoted(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (*text == '[' || *text == ']' || *text == ':' || *text == '\\')
            putchar(*text == '[' ? '(' : *text == ']' ? ')' : *text == ':' ? ',' : '/');
        else
            putchar(*text);
}

static void zsh_options(const char *synopsis, const option *rows)
{
    fputs("        _arguments -s '--help[list the options]'", stdout);
    for (const option *row = rows; row->name != NULL; row++) {
        const parts p = parts_of(row);
        printf(" \\\n            '%s", row->kind == OPTION_LIST ? "*" : "");
        put_name(row);
        putchar('[');
        put_quoted(p.text);
        putchar(']');
        if (p.value_bytes > 0) {
            fputs(p.choices ? ":value:(" : ":value:_files", stdout);
            if (p.choices)
                put_choices(&p);
            fputs(p.choices ? ")" : "", stdout);
        }
        putchar('\'');
    }
    fputs(" \\\n            '1:word:(", stdout);
    put_words(synopsis);
    fputs(")' '*:file:_files' ;;\n", stdout);
}

static void zsh_subcommand(const subcommand *one, const char *word)
{
    printf("    %s,%s)\n", one->word, word != NULL ? word : "*");
    visit_options(one, word, zsh_options);
}

static void print_zsh(const subcommand *all)
{
    fputs("#compdef ptxpack\n# zsh completion of ptxpack; made by `ptxpack help --zsh`\n"
          "if (( CURRENT == 2 )); then\n    local -a words=(\n        'help:list the subcommands'\n",
          stdout);
    for (const subcommand *one = all; one->word != NULL; one++) {
        printf("        '%s:", one->word);
        put_quoted(one->summary);
        fputs("'\n", stdout);
    }
    fputs("    )\n    _describe subcommand words\nelse\n    shift words; (( CURRENT-- ))\n    case "
          "$words[1],$words[2] in\n",
          stdout);
    for_all(all, zsh_subcommand);
    fputs("    esac\nfi\n", stdout);
}

/* ---- fish ----------------------------------------------------------------------------------------------- */
static char fish_when[128]; /* the condition of a table */

static void fish_options(const char *synopsis, const option *rows)
{
    printf("complete -c ptxpack -n '%s' -a '", fish_when);
    put_words(synopsis);
    fputs("'\n", stdout);
    for (const option *row = rows; row->name != NULL; row++) {
        const parts p = parts_of(row);
        printf("complete -c ptxpack -n '%s' -%c %s", fish_when, is_letter(row) ? 's' : 'l', row->name);
        fputs(p.value_bytes > 0 ? p.choices ? " -x -a '" : " -r" : "", stdout);
        if (p.choices)
            put_choices(&p);
        fputs(p.choices ? "' -d '" : " -d '", stdout);
        put_quoted(p.text);
        fputs("'\n", stdout);
    }
}

static void fish_table(const subcommand *one, const char *word)
{
    snprintf(fish_when, sizeof fish_when, "__fish_seen_subcommand_from %s%s%s", one->word,
             word != NULL ? "; and __fish_seen_subcommand_from " : "", word != NULL ? word : "");
    visit_options(one, word, fish_options);
}

static void print_fish(const subcommand *all)
{
    fputs("# fish completion of ptxpack; made by `ptxpack help --fish`\n", stdout);
    for (const subcommand *one = all; one->word != NULL; one++) {
        printf("complete -c ptxpack -n __fish_use_subcommand -a %s -d '", one->word);
        put_quoted(one->summary);
        fputs("'\n", stdout);
    }
    for_all(all, fish_table);
}

/* ---- the command ---------------------------------------------------------------------------------------- */
int help(int argc, char **argv, const subcommand *all)
{
    bool         man = false, bash = false, zsh = false, fish = false;
    const option rows[] = {
        {"man", OPTION_FLAG, &man, "the manual page, as `man -l` takes it"},
        {"bash", OPTION_FLAG, &bash, "completion for bash"},
        {"zsh", OPTION_FLAG, &zsh, "completion for zsh"},
        {"fish", OPTION_FLAG, &fish, "completion for fish"},
        {NULL, OPTION_FLAG, NULL, NULL},
    };
    int words = 0, status = command_options(argc, argv, "ptxpack help [SUBCOMMAND] [options]", rows, &words);
    if (status >= 0)
        return status;
    if (words > 1 || man + bash + zsh + fish + words > 1)
        return command_fail("help", "expected one SUBCOMMAND or one option"), COMMAND_USAGE;
    if (man)
        print_man(all);
    else if (bash)
        print_bash(all);
    else if (zsh)
        print_zsh(all);
    else if (fish)
        print_fish(all);
    else if (words == 0)
        help_summary(stdout, all);
    for (const subcommand *one = all; words == 1; one++) {
        char  option_text[] = "--help";
        char *of_one[] = {argv[1], option_text, NULL};
        if (one->word == NULL)
            return command_fail("help", "unknown subcommand \"%s\"", argv[1]), COMMAND_USAGE;
        if (strcmp(one->word, argv[1]) == 0)
            return one->run(2, of_one);
    }
    return COMMAND_OK;
}

/* recover.c - after an error: where the parser goes on.
 *
 * The text from the statement that failed on is looked at again, character by character, because the rest of it may
 * have no tokens.  Within a function the next statement begins behind the next ';', at the '}' of the block, or in a
 * line that begins like a statement; a line that begins like another function ends this one.  Between functions it
 * begins at the next declaration that is not within braces. */
#include "parse.h"

enum { LONGEST_NAME = 256 };

/* A piece of the text: a word with its dots, a string, or one character. */
struct piece {
    const char *text;
    size_t      bytes;
    uint32_t    line;
    bool        first; /* of its line or of a statement */
};

struct search {
    struct ptx_parser *p;
    const char        *at, *begin, *failed; /* where the statement began, and where it was found to be wrong */
    uint32_t           line;
    char               before; /* the last character of the piece before */
    unsigned int       braces, nesting;
};

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           c == '%' || c == '.';
}

/* ---- pieces -------------------------------------------------------------------------------------------- */
/* Skip one blank, or one comment.  False: there is none. */
static bool skip_blank(struct search *s)
{
    const char *end = s->p->lex.end;
    if (strchr(" \t\r\f\v\n", *s->at) != NULL && *s->at) {
        s->line += *s->at++ == '\n';
    } else if (end - s->at > 1 &&
               ((s->at[0] == '/' && s->at[1] == '/') || (s->at[0] == '@' && s->at[1] == '@'))) {
        while (s->at < end && *s->at != '\n')
            s->at++;
    } else if (end - s->at > 1 && s->at[0] == '/' && s->at[1] == '*') {
        for (s->at += 2; end - s->at > 1 && !(s->at[0] == '*' && s->at[1] == '/'); s->at++)
            s->line += *s->at == '\n';
        s->at = end - s->at > 1 ? s->at + 2 : end;
    } else {
        return false;
    }
    return true;
}

static bool next_piece(struct search *s, struct piece *piece)
{
    const char    *end = s->p->lex.end;
    const uint32_t line = s->line;
    while (s->at < end && skip_blank(s))
        ;
    piece->text = s->at;
    piece->line = s->line;
    piece->first = s->at == s->begin || s->line > line || s->before == ';' || s->before == '}';
    if (s->at == end)
        return false;
    if (in_word(*s->at)) {
        while (s->at < end && in_word(*s->at))
            s->at++;
    } else if (*s->at++ == '"') {
        while (s->at < end && *s->at != '"' && *s->at != '\n')
            s->at++;
        s->at += s->at < end && *s->at == '"';
    }
    piece->bytes = (size_t)(s->at - piece->text);
    return true;
}

static bool is_one_of(const struct piece *piece, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strlen(*words) == piece->bytes && memcmp(*words, piece->text, piece->bytes) == 0)
            return true;
    return false;
}

static bool begins_function(const struct piece *piece)
{
    static const char *const words[] = {".visible", ".entry", ".func", ".weak", NULL};
    return piece->first && is_one_of(piece, words);
}

static bool begins_declaration(const struct piece *piece)
{
    static const char *const words[] = {".extern", ".common", ".global", ".const",   ".shared",
                                        ".alias",  ".tex",    ".file",   ".section", NULL};
    return piece->first && is_one_of(piece, words);
}

static bool begins_statement(const struct search *s, const struct piece *piece, char before)
{
    const char c = *piece->text;
    return piece->first && s->nesting == 0 && before != ',' && (c == '@' || (in_word(c) && c != '%'));
}

/* ---- names that an error leaves without a declaration -------------------------------------------------- */
static void spoil(struct ptx_parser *p, const struct piece *piece)
{
    if (in_word(*piece->text) && *piece->text != '.' && piece->bytes <= LONGEST_NAME)
        ptx_intern(p, piece->text, piece->bytes)->spoiled = true;
}

/* Whether a declaration ends in front of this piece. */
static bool ends_names(const struct ptx_parser *p, const struct piece *piece)
{
    return *piece->text == ';' || *piece->text == '{' ||
           (piece->first && (p->function != NULL || begins_function(piece) || begins_declaration(piece)));
}

/* The words of a declaration up to its ';' or '{' (in a function: of its line), or the name in front of a ':'. */
static void spoil_names(struct ptx_parser *p, struct search s)
{
    struct piece piece, next;
    if (!next_piece(&s, &piece))
        return;
    const bool declares = *piece.text == '.';
    bool       more = next_piece(&s, &next);
    if (more && !declares && *next.text == ':')
        spoil(p, &piece);
    for (; more && declares && !ends_names(p, &next); more = next_piece(&s, &next))
        spoil(p, &next);
}

/* ---- going on ------------------------------------------------------------------------------------------ */
static struct search search_from_statement(struct ptx_parser *p)
{
    struct search s = {.p = p, .at = p->begin, .begin = p->begin, .failed = p->lex.text, .line = p->begin_line};
    if (s.failed < s.begin)
        s.failed = s.begin;
    p->depth = 0;
    p->operands.count = p->modifiers.count = 0;
    spoil_names(p, s);
    return s;
}

static void go_on(struct ptx_parser *p, const char *at, uint32_t line)
{
    p->begin = p->lex.text = p->lex.at = at;
    p->begin_line = p->lex.line = line;
    p->restart = true; /* the token there may be wrong, too */
}

static void end_body(struct ptx_parser *p)
{
    while (p->scope->depth > 1)
        ptx_scope_close(p);
    p->blocks = 0;
}

/* Whether the search in a function ends in front of this piece. */
static bool stops(struct search *s, const struct piece *piece, char before)
{
    if (piece->text < s->failed)
        return false;
    if (begins_function(piece)) {
        end_body(s->p);
        return true;
    }
    return piece->text > s->begin &&
           (begins_statement(s, piece, before) || (*piece->text == '}' && s->nesting == 0));
}

void ptx_skip_statement(struct ptx_parser *p)
{
    struct search s = search_from_statement(p);
    struct piece  piece;
    while (next_piece(&s, &piece)) {
        const char c = *piece.text, before = s.before;
        if (stops(&s, &piece, before)) {
            go_on(p, piece.text, piece.line);
            return;
        }
        s.before = c;
        if (c == ';' && piece.text >= s.failed) {
            go_on(p, s.at, s.line);
            return;
        }
        if (c == '{' || c == '(' || c == '[')
            s.nesting++;
        else if (c == ';')
            s.nesting = 0;
        else if ((c == '}' || c == ')' || c == ']') && s.nesting > 0)
            s.nesting--;
    }
    p->lost = true;
    end_body(p);
    go_on(p, s.at, s.line);
}

void ptx_skip_declaration(struct ptx_parser *p)
{
    struct search s = search_from_statement(p);
    struct piece  piece;
    while (p->scope->depth > 0)
        ptx_scope_drop(p);
    p->function = NULL;
    p->pending.count = p->variables.count = p->labels.count = p->code.count = 0;
    p->file = p->file_line = p->caller = 0;
    while (next_piece(&s, &piece)) {
        s.before = *piece.text;
        if (piece.text > s.begin && piece.text >= s.failed &&
            (begins_function(&piece) || (s.braces == 0 && begins_declaration(&piece))))
            break;
        if (*piece.text == '{')
            s.braces++;
        else if (*piece.text == '}' && s.braces > 0)
            s.braces--;
    }
    go_on(p, piece.text, piece.line);
}

bool ptx_attempt(struct ptx_parser *p, void (*part)(struct ptx_parser *))
{
    jmp_buf *const outer = p->again;
    jmp_buf        here;
    p->again = &here;
    if (setjmp(here)) {
        p->again = outer;
        return false;
    }
    if (p->restart) {
        p->restart = false;
        ptx_next(p);
    }
    part(p);
    p->again = outer;
    return true;
}

void ptx_leave_attempt(struct ptx_parser *p)
{
    if (p->again != NULL)
        longjmp(*p->again, 1);
    longjmp(p->out, 1);
}

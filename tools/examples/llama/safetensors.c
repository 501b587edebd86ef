/* safetensors.c - the tensors of a folder, memory-mapped.
 *
 * A file is the length of the header (8 bytes, little-endian), the header in JSON, and the data.  The header gives each tensor's
 * dtype, shape and data_offsets [begin, end) in the data, which the tensors cover without gaps and without overlap.  All of this
 * is checked before a tensor is looked at. */
#include "llama.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 100 * 1000 * 1000 /* the format's own limit */ };
typedef struct file {
    char       *path;
    const char *map;
    size_t      bytes;
    json       *header;
} file;
typedef struct stored {
    const char    *name, *dtype, *path;
    const uint8_t *data;
    uint64_t       shape[4], bytes;
    int            rank;
    bool           taken;
} stored;
struct checkpoint {
    file   *files;
    stored *tensors, *like; /* like: the first one that was taken */
    size_t  file_count, count;
};

const char *map_file(const char *path, size_t *bytes)
{
    struct stat about;
    int         at = open(path, O_RDONLY | O_CLOEXEC);
    NEED(at >= 0 && fstat(at, &about) == 0, "%s: %s", path, strerror(errno));
    NEED(S_ISREG(about.st_mode) && about.st_size > 0, "%s: no regular file, or an empty one", path);
    const char *map = (const char *)mmap(NULL, *bytes = (size_t)about.st_size, PROT_READ, MAP_PRIVATE, at, 0);
    NEED(map != MAP_FAILED, "%s: %s", path, strerror(errno));
    close(at);
    return map;
}

static void read_tensor(const file *f, const json *entry, const uint8_t *data, uint64_t data_bytes, stored *t)
{
    static const char sizes[] = " BF16:2 F16:2 F32:4 F64:8 I64:8 I32:4 I16:2 I8:1 U64:8 U32:4 U16:2 U8:1 BOOL:1 F8_E4M3:1 F8_E5M2:1 ";
    const json *dtype = json_member(entry, "dtype"), *shape = json_member(entry, "shape");
    const json *offsets = json_member(entry, "data_offsets");
    uint64_t    begin, end, elements = 1;
    char        word[16];
    NEED(dtype != NULL && dtype->kind == JSON_STRING && shape != NULL && shape->kind == JSON_ARRAY,
         "%s: %s: dtype and shape are expected", f->path, entry->name);
    snprintf(word, sizeof word, " %.10s:", dtype->text);
    const char *size_at = strstr(sizes, word);
    NEED(size_at != NULL, "%s: %s: the dtype %s is not known", f->path, entry->name, dtype->text);
    uint64_t size = (uint64_t)(size_at[strlen(word)] - '0');
    *t = (stored){.name = entry->name, .dtype = dtype->text, .path = f->path};
    for (const json *extent = shape->first; extent != NULL; extent = extent->next) {
        NEED(t->rank < 4 && json_whole(extent, &t->shape[t->rank]) &&
                 !__builtin_mul_overflow(elements, t->shape[t->rank], &elements),
             "%s: %s: the shape is not up to 4 whole numbers with a product below 2^64", f->path, entry->name);
        t->rank++;
    }
    NEED(offsets != NULL && offsets->kind == JSON_ARRAY && json_whole(offsets->first, &begin) &&
             json_whole(offsets->first->next, &end) && offsets->first->next->next == NULL,
         "%s: %s: data_offsets is not two whole numbers", f->path, entry->name);
    NEED(begin <= end && end <= data_bytes, "%s: %s: data_offsets are not within the data", f->path, entry->name);
    NEED(!__builtin_mul_overflow(elements, size, &t->bytes) && end - begin == t->bytes,
         "%s: %s: data_offsets do not hold as many bytes as dtype and shape say", f->path, entry->name);
    t->data = data + begin;
    NEED((uintptr_t)t->data % size == 0, "%s: %s: the data is not aligned to its elements", f->path, entry->name);
}

static int by_name(const void *a, const void *b) { return strcmp(((const stored *)a)->name, ((const stored *)b)->name); }

static int by_place(const void *a, const void *b)
{
    const stored *s = (const stored *)a, *t = (const stored *)b;
    return s->data != t->data ? (s->data > t->data) - (s->data < t->data) : (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

static void read_file(checkpoint *c, const char *folder, const char *name)
{
    size_t   first = c->count;
    uint64_t length = 0, covered = 0;
    c->files = (file *)enlarge(c->files, c->file_count + 1, sizeof *c->files);
    file *f = &c->files[c->file_count++];
    *f = (file){.path = (char *)allocate(strlen(folder) + strlen(name) + 2, 1)};
    sprintf(f->path, "%s/%s", folder, name);
    f->map = map_file(f->path, &f->bytes);
    for (int i = 7; i >= 0 && f->bytes >= 8; i--)
        length = length << 8 | (uint8_t)f->map[i];
    NEED(f->bytes >= 8 && length <= HEADER_BYTES && length <= f->bytes - 8, "%s: the header does not fit in the file", f->path);
    f->header = json_read(f->map + 8, length, f->path);
    NEED(f->header->kind == JSON_OBJECT, "%s: the header is no object", f->path);
    const uint8_t *data = (const uint8_t *)f->map + 8 + length;
    for (const json *entry = f->header->first; entry != NULL; entry = entry->next)
        if (strcmp(entry->name, "__metadata__") != 0) {
            c->tensors = (stored *)enlarge(c->tensors, c->count + 1, sizeof *c->tensors);
            read_tensor(f, entry, data, f->bytes - 8 - length, &c->tensors[c->count++]);
        }
    NEED(c->count > first, "%s: there are no tensors", f->path);
    qsort(c->tensors + first, c->count - first, sizeof *c->tensors, by_place);
    for (size_t i = first; i < c->count; covered += c->tensors[i++].bytes)
        NEED(c->tensors[i].data == data + covered, "%s: a gap or an overlap before %s", f->path, c->tensors[i].name);
    NEED(covered == f->bytes - 8 - length, "%s: bytes at the end belong to no tensor", f->path);
}

/* The files that an index names, each once. */
static void read_index(checkpoint *c, const char *folder, const char *path)
{
    size_t      bytes;
    const char *text = map_file(path, &bytes);
    json       *index = json_read(text, bytes, path);
    const json *map = json_member(index, "weight_map"), *other;
    NEED(map != NULL && map->kind == JSON_OBJECT, "%s: weight_map is expected", path);
    for (const json *entry = map->first; entry != NULL; entry = entry->next) {
        NEED(entry->kind == JSON_STRING && strchr(entry->text, '/') == NULL,
             "%s: %s: the name of a file in this folder is expected", path, entry->name);
        for (other = map->first; other != entry && strcmp(other->text, entry->text) != 0; )
            other = other->next;
        if (other == entry)
            read_file(c, folder, entry->text);
    }
    free(index);
    munmap((void *)(uintptr_t)text, bytes);
}

checkpoint *checkpoint_open(const char *folder)
{
    checkpoint *c = (checkpoint *)allocate(1, sizeof *c);
    char        path[4096];
    NEED(snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder) < (int)sizeof path, "the path is too long");
    if (access(path, F_OK) == 0)
        read_index(c, folder, path);
    else
        read_file(c, folder, "model.safetensors");
    NEED(c->count > 0, "%s: weight_map names no tensors", path);
    qsort(c->tensors, c->count, sizeof *c->tensors, by_name);
    for (size_t i = 1; i < c->count; i++)
        NEED(by_name(&c->tensors[i - 1], &c->tensors[i]) != 0, "%s: %s is in %s, too", c->tensors[i].path, c->tensors[i].name,
             c->tensors[i - 1].path);
    return c;
}

void checkpoint_close(checkpoint *c)
{
    for (file *f = c->files; f < c->files + c->file_count; f++) {
        munmap((void *)(uintptr_t)f->map, f->bytes);
        free(f->header);
        free(f->path);
    }
    free(c->files);
    free(c->tensors);
    free(c);
}

static stored *find(const checkpoint *c, const char *name)
{
    stored key = {.name = name};
    return (stored *)bsearch(&key, c->tensors, c->count, sizeof *c->tensors, by_name);
}

bool checkpoint_has(const checkpoint *c, const char *name) { return find(c, name) != NULL; }

ptxpack_dtype checkpoint_dtype(const checkpoint *c) { return strcmp(c->like->dtype, "F16") == 0 ? PTXPACK_F16 : PTXPACK_BF16; }

const void *checkpoint_take(checkpoint *c, const char *name, int rows, int columns)
{
    stored *t = find(c, name);
    NEED(t != NULL, "the checkpoint has no tensor %s", name);
    c->like = c->like != NULL ? c->like : t;
    NEED(strcmp(t->dtype, "BF16") == 0 || strcmp(t->dtype, "F16") == 0, "%s: %s: dtype %s is not supported, BF16 and F16 are", t->path,
         name, t->dtype);
    NEED(strcmp(t->dtype, c->like->dtype) == 0, "%s: %s is of %s, but %s of %s: mixed dtypes are not supported", t->path, name,
         t->dtype, c->like->name, c->like->dtype);
    NEED(t->rank == (columns != 0 ? 2 : 1) && t->shape[0] == (uint64_t)rows && t->shape[1] == (uint64_t)columns,
         "%s: %s: config.json makes it %d x %d", t->path, name, rows, columns != 0 ? columns : 1);
    t->taken = true;
    return t->data;
}

/* Old checkpoints have the frequencies of the rotary embedding, which follow from config.json. */
void checkpoint_all_taken(const checkpoint *c)
{
    for (const stored *t = c->tensors; t < c->tensors + c->count; t++)
        NEED(t->taken || strstr(t->name, "rotary_emb.inv_freq") != NULL, "%s: %s has no place in such a model", t->path, t->name);
}

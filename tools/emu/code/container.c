/* container.c - writing and checking containers. */
#include "container.h"
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CUDA_MACHINE = 190, OS_ABI = 0x33, SECTIONS = 4, NAMES = 1, INFO = 2, PTX = 3, IDENT_CHECK = 8 };
enum { MOST = 1 << 30 }; /* bytes of PTX */
static const char names[] = "\0.shstrtab\0.ptxpack.emu.info\0.ptxpack.emu.ptx";
struct info {
    char     target[16];
    uint64_t checksum;
};

/* FNV-1a, 64 bits, with a final mix so that small changes reach all bits. */
static uint64_t checksum_of(const unsigned char *bytes, size_t count, uint64_t h)
{
    for (size_t i = 0; i < count; i++)
        h = (h ^ bytes[i]) * 0x100000001b3ull;
    return (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9ull;
}
#define CHECKSUM_START 0xcbf29ce484222325ull

static uint64_t header_check(const Elf64_Ehdr *header)
{
    Elf64_Ehdr copy = *header;
    memset(copy.e_ident + IDENT_CHECK, 0, EI_NIDENT - IDENT_CHECK);
    return checksum_of((const unsigned char *)&copy, sizeof copy, CHECKSUM_START);
}

static size_t round_up(size_t n) { return (n + 7) & ~(size_t)7; }

/* All offsets depend only on the length of the text. */
struct plan {
    size_t sections, names, info, ptx, size;
};
static struct plan plan_of(size_t ptx_bytes)
{
    struct plan p;
    p.sections = sizeof(Elf64_Ehdr);
    p.names = p.sections + SECTIONS * sizeof(Elf64_Shdr);
    p.info = round_up(p.names + sizeof names);
    p.ptx = p.info + sizeof(struct info);
    p.size = round_up(p.ptx + ptx_bytes + 1);
    return p;
}

static Elf64_Ehdr make_header(const struct plan *p, const char *target)
{
    Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT,
                                OS_ABI},
                    .e_type = ET_EXEC,
                    .e_machine = CUDA_MACHINE,
                    .e_version = EV_CURRENT,
                    .e_entry = p->size,
                    .e_shoff = p->sections,
                    .e_flags = (Elf64_Word)strtoul(target + 3, NULL, 10),
                    .e_ehsize = sizeof h,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = SECTIONS,
                    .e_shstrndx = NAMES};
    uint64_t   check = header_check(&h);
    memcpy(h.e_ident + IDENT_CHECK, &check, sizeof check);
    return h;
}

static void make_sections(Elf64_Shdr *s, const struct plan *p, size_t ptx_bytes)
{
    s[NAMES] =
        (Elf64_Shdr){.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = p->names, .sh_size = sizeof names};
    s[INFO] = (Elf64_Shdr){.sh_name = 11,
                           .sh_type = SHT_PROGBITS,
                           .sh_offset = p->info,
                           .sh_size = sizeof(struct info)};
    s[PTX] =
        (Elf64_Shdr){.sh_name = 29, .sh_type = SHT_PROGBITS, .sh_offset = p->ptx, .sh_size = ptx_bytes + 1};
    s[NAMES].sh_addralign = s[PTX].sh_addralign = 1;
    s[INFO].sh_addralign = 8;
}

void *container_make(const char *ptx, size_t bytes, const char *target, size_t *size)
{
    struct info info = {{0}, 0};
    *size = 0;
    if (bytes > MOST || strlen(target) >= sizeof info.target)
        return NULL;
    struct plan    p = plan_of(bytes);
    unsigned char *image = (unsigned char *)calloc(1, p.size);
    if (image == NULL)
        return NULL;
    Elf64_Ehdr header = make_header(&p, target);
    Elf64_Shdr sections[SECTIONS] = {{0}};
    make_sections(sections, &p, bytes);
    strcpy(info.target, target);
    memcpy(image, &header, sizeof header);
    memcpy(image + p.sections, sections, sizeof sections);
    memcpy(image + p.names, names, sizeof names);
    memcpy(image + p.info, &info, sizeof info);
    memcpy(image + p.ptx, ptx, bytes);
    info.checksum = checksum_of(image, p.size, CHECKSUM_START);
    memcpy(image + p.info, &info, sizeof info);
    *size = p.size;
    return image;
}

/* The checksum of the file with zeros in place of the checksum. */
static bool whole(const unsigned char *image, const struct plan *p, const struct info *info)
{
    static const unsigned char zeros[8] = {0};
    size_t   at = p->info + offsetof(struct info, checksum), after = at + sizeof info->checksum;
    uint64_t h = CHECKSUM_START;
    for (size_t i = 0; i < at; i++)
        h = (h ^ image[i]) * 0x100000001b3ull;
    for (size_t i = 0; i < sizeof zeros; i++)
        h = (h ^ zeros[i]) * 0x100000001b3ull;
    return checksum_of(image + after, p->size - after, h) == info->checksum;
}

/* A real cubin has zeros where a container has the checksum of its header (after one byte of ABI version). */
static bool is_foreign(const Elf64_Ehdr *h)
{
    static const unsigned char zeros[EI_NIDENT] = {0};
    return h->e_ident[EI_OSABI] != OS_ABI || h->e_machine != CUDA_MACHINE ||
           memcmp(h->e_ident + IDENT_CHECK + 1, zeros, EI_NIDENT - IDENT_CHECK - 1) == 0;
}

/* Is the header one that container_make wrote, so that its sizes can be trusted? */
static bool good_header(const Elf64_Ehdr *h, size_t bytes)
{
    uint64_t check = header_check(h);
    return memcmp(h->e_ident + IDENT_CHECK, &check, sizeof check) == 0 && h->e_entry >= plan_of(0).size &&
           h->e_entry <= plan_of(MOST).size && (bytes == 0 || h->e_entry <= bytes);
}

enum container_state container_open(const void *image, size_t bytes, struct container *out)
{
    const unsigned char *at = (const unsigned char *)image;
    Elf64_Ehdr           header;
    Elf64_Shdr           ptx;
    struct info          info;
    memset(out, 0, sizeof *out);
    /* A text may be shorter than the bytes that are compared. */
    if ((bytes && bytes < SELFMAG) || strncmp((const char *)at, ELFMAG, SELFMAG) != 0)
        return CONTAINER_NONE;
    if (bytes && bytes < sizeof header)
        return CONTAINER_DAMAGED;
    memcpy(&header, at, sizeof header);
    if (is_foreign(&header))
        return CONTAINER_FOREIGN;
    if (!good_header(&header, bytes))
        return CONTAINER_DAMAGED;
    memcpy(&ptx, at + sizeof header + PTX * sizeof ptx, sizeof ptx);
    if (ptx.sh_size == 0 || ptx.sh_size > header.e_entry || plan_of(ptx.sh_size - 1).size != header.e_entry)
        return CONTAINER_DAMAGED;
    struct plan p = plan_of(ptx.sh_size - 1);
    memcpy(&info, at + p.info, sizeof info);
    if (!whole(at, &p, &info) || at[p.ptx + ptx.sh_size - 1] != '\0' ||
        (memchr(info.target, '\0', sizeof info.target) == NULL))
        return CONTAINER_DAMAGED;
    out->ptx = (const char *)at + p.ptx;
    out->bytes = ptx.sh_size - 1;
    out->size = p.size;
    memcpy(out->target, info.target, sizeof out->target);
    return CONTAINER_GOOD;
}

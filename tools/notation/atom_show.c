/* atom_show.c - how "ptxpack atom" describes an atom, a tiled MMA and a descriptor. */
#include "atom_show.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"

/* ---- fields ----------------------------------------------------------------------------------------- */
/* "Title: text", or the JSON member "key": "text". */
static void show(bool json, const char *title, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void show(bool json, const char *title, const char *key, const char *format, ...)
{
    char    text[PTXPACK_LAYOUT_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (json)
        json_text(key, text);
    else
        printf("%s: %s\n", title, text);
}

static void show_layout(bool json, const char *title, const char *key, const ptxpack_layout *l)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    show(json, title, key, "%s", text);
}

/* A layout and where it starts; a swizzled one holds its start itself. */
static void show_slice(bool json, const char *title, const char *key, const ptxpack_slice *slice)
{
    char layout[PTXPACK_LAYOUT_TEXT], offset[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(&slice->layout, layout, sizeof layout);
    ptxpack_tuple_print(&slice->offset, offset, sizeof offset);
    if (!json) {
        printf("%s: %s + %s\n", title, layout, offset);
        return;
    }
    json_open(key, '{');
    json_text("layout", layout);
    json_text("offset", offset);
    json_close();
}

/* The first architecture that has the instruction. */
static void show_support(bool json, int arch, int isa, const char *and_later)
{
    if (json) {
        json_int("arch", arch);
        json_int("isa", isa);
        return;
    }
    printf("Architecture: sm_%d%s\n", arch, and_later);
    printf("PTX ISA: %d.%d\n", isa / 10, isa % 10);
}

/* Operands that are not in registers are in a memory, which `place` names. */
static void json_place(const char *key, const char *place, int registers, int bits, char major)
{
    json_open(key, '{');
    json_text("place", registers ? "registers" : place);
    if (registers) {
        json_int("registers", registers);
        json_int("register_bits", bits);
    }
    if (major)
        json_text("major", (const char[]){major, '\0'});
    json_close();
}

/* ---- MMA -------------------------------------------------------------------------------------------- */
/* `other` is M for A and N for B. */
static const char *major_text(char major, char other)
{
    switch (major) {
    case 'K':
        return "K-major";
    case 'M':
        return "M-major";
    case 'N':
        return "N-major";
    default:
        return other == 'M' ? "K-major or M-major" : "K-major or N-major";
    }
}

static void registers_text(int registers, int bits, char *text, size_t cap)
{
    snprintf(text, cap, "%d register%s of %d bits a thread", registers, registers == 1 ? "" : "s", bits);
}

/* Where an operand is, such as "4 registers of 32 bits a thread, K-major"; major 0: there is no order. */
static void show_place(bool json, const char *title, const char *key, int registers, bool shared, int bits,
                       char major, char other)
{
    char text[64];
    bits = bits >= 64 ? 64 : 32;
    if (json) {
        json_place(key, shared ? "shared" : "tensor", registers, bits, major);
        return;
    }
    if (registers)
        registers_text(registers, bits, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s memory", shared ? "shared" : "tensor");
    printf("%s: %s%s%s\n", title, text, major ? ", " : "", major ? major_text(major, other) : "");
}

static void show_types(const ptxpack_mma_atom *x, bool json)
{
    show(json, "ValTypeD", "d", "%s", ptxpack_value_name(x->d));
    show(json, "ValTypeA", "a", "%s", ptxpack_value_name(x->a));
    show(json, "ValTypeB", "b", "%s", ptxpack_value_name(x->b));
    show(json, "ValTypeC", "c", "%s", ptxpack_value_name(x->c));
    if (x->scale_vector) {
        show(json, "ValTypeSF", "sf", "%s", ptxpack_value_name(x->scale));
        if (!json)
            printf("SFVecSize: %d\n", x->scale_vector);
    }
    if (json) {
        if (x->scale_vector)
            json_int("sf_vec_size", x->scale_vector);
        json_int("a_bits", x->a_bits);
        json_int("b_bits", x->b_bits);
        json_bool("sparse", x->sparse);
        return;
    }
    if (x->a_bits != ptxpack_value_bits(x->a) || x->b_bits != ptxpack_value_bits(x->b))
        printf("Padding: a value of A takes %d bits, one of B %d\n", x->a_bits, x->b_bits);
    if (x->sparse)
        puts("Sparse: A keeps half of every row");
}

static void show_places(const ptxpack_mma_atom *x, bool json)
{
    show_place(json, "D", "d_place", x->registers_d, !x->d_tensor, ptxpack_value_bits(x->d), 0, 0);
    show_place(json, "A", "a_place", x->registers_a, x->a_shared, x->a_bits, x->a_major, 'M');
    show_place(json, "B", "b_place", x->registers_b, x->b_shared, x->b_bits, x->b_major, 'N');
}

static void show_instruction(const ptxpack_mma_atom *x, bool json)
{
    char often[32] = "";
    if (x->instructions > 1 && !json)
        snprintf(often, sizeof often, ", %d times", x->instructions);
    show(json, "Instruction", "ptx", "%s%s", x->ptx, often);
    if (json) {
        json_int("instructions", x->instructions);
        json_bool("arch_specific", x->arch_specific);
    }
    show_support(json, x->arch, x->isa, x->arch_specific ? "a, not all later ones" : " and later");
}

static void show_mma(const ptxpack_mma_atom *x, bool json)
{
    if (json)
        json_text("name", x->name);
    show(json, "Shape_MNK", "shape_mnk", "(%d,%d,%d)", x->m, x->n, x->k);
    show_layout(json, "ThrID", "thr_id", &x->thr_id);
    show_layout(json, "ALayout", "a_layout", &x->a_layout);
    show_layout(json, "BLayout", "b_layout", &x->b_layout);
    show_layout(json, "CLayout", "c_layout", &x->c_layout);
    if (x->sfa_layout.shape.items) {
        show_layout(json, "SFALayout", "sfa_layout", &x->sfa_layout);
        show_layout(json, "SFBLayout", "sfb_layout", &x->sfb_layout);
    }
    show_types(x, json);
    show(json, "CuTe", "cute", "%s", x->cute);
    show_instruction(x, json);
    show_places(x, json);
}

void atom_show_mma(const ptxpack_mma_atom *x, bool json)
{
    if (json)
        json_open(NULL, '{');
    show_mma(x, json);
    if (json)
        json_close();
}

/* ---- copy ------------------------------------------------------------------------------------------- */
static void show_space(bool json, const char *title, const char *key, ptxpack_space space, int registers)
{
    char text[64];
    if (json) {
        json_place(key, ptxpack_space_name(space), registers, 32, 0);
        return;
    }
    if (registers)
        registers_text(registers, 32, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s%s", ptxpack_space_name(space),
                 space == PTXPACK_SPACE_REGISTERS ? "" : " memory");
    printf("%s: %s\n", title, text);
}

static void show_copy(const ptxpack_copy_atom *x, bool json)
{
    if (json)
        json_text("name", x->name);
    show_layout(json, "ThrID", "thr_id", &x->thr_id);
    show_layout(json, "SrcLayout", "src_layout", &x->src);
    show_layout(json, "DstLayout", "dst_layout", &x->dst);
    show_layout(json, "RefLayout", "ref_layout", &x->ref);
    if (json)
        json_bool("sized", x->sized);
    else if (x->sized)
        puts("Size: as many bits as it is told, a multiple of 128");
    show(json, "Instruction", "ptx", "%s", x->ptx);
    if (json) {
        json_bool("arch_specific", x->arch_specific);
        json_int("packed_bits", x->packed_bits);
    }
    show_support(json, x->arch, x->isa, x->arch_specific ? " and later, with the suffix a or f" : " and later");
    if (x->packed_bits && !json)
        printf("Unpacks: 16 elements of %d bits and padding in a row of 16 bytes, to bytes\n", x->packed_bits);
    show_space(json, "From", "src_place", x->src_space, x->registers_src);
    show_space(json, "To", "dst_place", x->dst_space, x->registers_dst);
}

void atom_show_copy(const ptxpack_copy_atom *x, bool json)
{
    if (json)
        json_open(NULL, '{');
    show_copy(x, json);
    if (json)
        json_close();
}

/* ---- tiled MMA -------------------------------------------------------------------------------------- */
static const char *const fragment_titles[3] = {"partition_fragment_A", "partition_fragment_B",
                                               "partition_fragment_C"};
static const char *const fragment_keys[3] = {"fragment_a", "fragment_b", "fragment_c"};

static void show_mma_part(const atom_mma_part *part, bool json)
{
    static const char *const titles[3] = {"partition_A", "partition_B", "partition_C"};
    static const char *const keys[3] = {"partition_a", "partition_b", "partition_c"};
    if (json)
        json_int("thread", part->thread);
    else
        printf("Thread: %" PRId64 "\n", part->thread);
    show_slice(json, titles[part->operand], keys[part->operand], &part->partition);
    show_layout(json, fragment_titles[part->operand], fragment_keys[part->operand], &part->fragment);
}

ptxpack_status atom_show_tiled(const ptxpack_tiled_mma *mma, const atom_mma_part *part, bool json)
{
    static const struct {
        ptxpack_operand operand;
        const char     *title, *key;
    } rows[] = {{PTXPACK_A, "ALayout", "a_layout"},
                {PTXPACK_B, "BLayout", "b_layout"},
                {PTXPACK_C, "CLayout", "c_layout"}};
    ptxpack_layout tv[3];
    char           text[PTXPACK_LAYOUT_TEXT];
    for (int i = 0; i < 3; i++) {
        tv[i] = ptxpack_mma_layout_tv(mma, rows[i].operand);
        if (tv[i].shape.status != PTXPACK_OK)
            return tv[i].shape.status;
    }
    ptxpack_tuple_print(&mma->tile_size_mnk, text, sizeof text);
    if (json)
        json_open(NULL, '{');
    show(json, "Shape_MNK", "shape_mnk", "%s", text);
    show_layout(json, "ThrLayoutVMNK", "thr_layout_vmnk", &mma->thr_layout_vmnk);
    show_layout(json, "PermutationMNK", "permutation_mnk", &mma->permutation_mnk);
    for (int i = 0; i < 3; i++)
        show_layout(json, rows[i].title, rows[i].key, &tv[i]);
    if (part != NULL)
        show_mma_part(part, json);
    if (json) {
        json_int("threads", ptxpack_mma_threads(mma));
        json_open("atom", '{');
    } else {
        printf("Threads: %" PRId64 "\n\nAtom: %s\n", ptxpack_mma_threads(mma), mma->atom.name);
    }
    show_mma(&mma->atom, json);
    if (json) {
        json_close();
        json_close();
    }
    return PTXPACK_OK;
}

/* ---- tiled copy ------------------------------------------------------------------------------------- */
/* A tiler in CuTe's parentheses: (16,64), or ((4,8):(1,16),32:1). */
static void tiler_text(const ptxpack_layout *tiler, char *text, size_t cap)
{
    size_t length = ptxpack_layout_print(tiler, text, cap);
    if (length > 1 && length < cap && text[0] == '<') {
        text[0] = '(';
        text[length - 1] = ')';
    }
}

/* One line of CuTe's print of a copy. */
static void print_field(const char *title, const ptxpack_layout *l)
{
    char text[PTXPACK_LAYOUT_TEXT];
    ptxpack_layout_print(l, text, sizeof text);
    printf("  %s%s\n", title, text);
}

/* CuTe's print of a TiledCopy or a ThrCopy, without the underscores of its static integers. */
static void print_copy(const atom_copy_part *part)
{
    const ptxpack_tiled_copy *copy = &part->copy;
    char                      text[PTXPACK_LAYOUT_TEXT];
    if (part->threads)
        printf("ThrCopy\n  ThrIdx: %" PRId64 "\n", part->thread);
    tiler_text(&copy->tiler, text, sizeof text);
    printf("TiledCopy\n  Tiler_MN:       %s\n", text);
    print_field("TiledLayout_TV: ", &copy->layout_tv);
    puts("Copy_Atom");
    print_field("ThrID:        ", &copy->atom.thr_id);
    print_field("ValLayoutSrc: ", &copy->src);
    print_field("ValLayoutDst: ", &copy->dst);
    print_field("ValLayoutRef: ", &copy->ref);
    printf("  ValueType:    %" PRId64 "b\n", copy->value_bits);
}

static void json_copy(const atom_copy_part *part)
{
    const ptxpack_tiled_copy *copy = &part->copy;
    char                      text[PTXPACK_LAYOUT_TEXT];
    tiler_text(&copy->tiler, text, sizeof text);
    json_text("tiler_mn", text);
    show_layout(true, NULL, "tiled_layout_tv", &copy->layout_tv);
    show_layout(true, NULL, "val_layout_src", &copy->src);
    show_layout(true, NULL, "val_layout_dst", &copy->dst);
    show_layout(true, NULL, "val_layout_ref", &copy->ref);
    json_int("value_bits", copy->value_bits);
    if (part->threads)
        json_int("thread", part->thread);
}

static void show_banks(const atom_copy_part *part, int side, bool json)
{
    const ptxpack_banks   *banks = &part->banks[side];
    const ptxpack_swizzle *free_of = &part->swizzle[side];
    char                   swizzle[40] = "";
    if (part->free_swizzle[side])
        snprintf(swizzle, sizeof swizzle, "Sw<%d,%d,%d>", free_of->bits, free_of->base, free_of->shift);
    if (!json) {
        printf("Bank conflicts of partition_%c: %lld in %lld phases, %lld wavefronts%s%s%s\n", "SD"[side],
               (long long)banks -> conflicts, (long long)banks -> phases, (long long)banks -> wavefronts,
               *swizzle ? "; 0 with " : "", swizzle, *swizzle ? " o 0 o the tensor" : "");
        return;
    }
    json_open(side == PTXPACK_SRC ? "banks_s" : "banks_d", '{');
    json_int("conflicts", banks->conflicts);
    json_int("phases", banks->phases);
    json_int("wavefronts", banks->wavefronts);
    if (*swizzle)
        json_text("swizzle", swizzle);
    json_close();
}

static void show_parts(const atom_copy_part *part, bool json)
{
    static const char *const titles[2] = {"partition_S", "partition_D"}, *const keys[2] = {"partition_s",
                                                                                           "partition_d"};
    static const char *const retile[2] = {"retile_S", "retile_D"}, *const retile_keys[2] = {"retile_s",
                                                                                            "retile_d"};
    for (int side = PTXPACK_SRC; side <= PTXPACK_DST && part->tensor; side++)
        show_slice(json, titles[side], keys[side], &part->partition[side]);
    if (part->fragment.layout.shape.items) {
        const ptxpack_slice retiled = {part->retiled, part->fragment.offset};
        show_layout(json, part->of_mma ? fragment_titles[part->operand] : "Fragment",
                    part->of_mma ? fragment_keys[part->operand] : "fragment", &part->fragment.layout);
        for (int side = PTXPACK_SRC; side <= PTXPACK_DST; side++)
            show_slice(json, retile[side], retile_keys[side], &retiled);
    }
    for (int side = PTXPACK_SRC; side <= PTXPACK_DST; side++)
        if (part->shared[side])
            show_banks(part, side, json);
}

void atom_show_tiled_copy(const atom_copy_part *part, bool json)
{
    if (json) {
        json_open(NULL, '{');
        json_copy(part);
    } else {
        print_copy(part);
    }
    show_layout(json, "LayoutS_TV", "layout_s_tv", &part->tv[PTXPACK_SRC]);
    show_layout(json, "LayoutD_TV", "layout_d_tv", &part->tv[PTXPACK_DST]);
    show_parts(part, json);
    if (json) {
        json_int("threads", ptxpack_copy_threads(&part->copy));
        json_open("atom", '{');
    } else {
        printf("Threads: %" PRId64 "\n\nAtom: %s\n", ptxpack_copy_threads(&part->copy), part->copy.atom.name);
    }
    show_copy(&part->copy.atom, json);
    if (json) {
        json_close();
        json_close();
    }
}

/* ---- descriptors ------------------------------------------------------------------------------------ */
static void show_fields(const ptxpack_wgmma_operand *operand, bool json)
{
    const ptxpack_wgmma_fields *f = &operand->fields;
    if (json) {
        json_int("start_address", f->address);
        json_int("leading_bytes", f->leading);
        json_int("stride_bytes", f->stride);
        json_int("base_offset", f->base_offset);
        json_int("layout_type", f->swizzle);
    } else {
        printf("Start address: %u (%u bytes)\n", f->address / 16, f->address);
        printf("LBO: %u (%u bytes)\n", f->leading / 16, f->leading);
        printf("SBO: %u (%u bytes)\n", f->stride / 16, f->stride);
        printf("Base offset: %u\n", f->base_offset);
        printf("Layout type: %d (%s)\n", (int)f->swizzle, ptxpack_wgmma_swizzle_name(f->swizzle));
    }
    show(json, "Descriptor", "descriptor", "0x%016" PRIx64, operand->word);
}

ptxpack_status atom_show_descriptor(const ptxpack_layout *tile, ptxpack_wgmma_major major,
                                    ptxpack_value_type type, int64_t rows, bool json)
{
    ptxpack_wgmma_operand operand = ptxpack_wgmma_descriptor(tile, major, ptxpack_value_bits(type), rows);
    if (operand.status != PTXPACK_OK)
        return operand.status;
    if (json)
        json_open(NULL, '{');
    show_layout(json, "Tile", "tile", tile);
    show(json, "Type", "type", "%s", ptxpack_value_name(type));
    show(json, "Major", "major", "%s", major == PTXPACK_WGMMA_K ? "K" : "MN");
    show(json, "Instruction reads", "instruction_shape", "(%" PRId64 ",%" PRId64 ")", operand.mn, operand.k);
    show_fields(&operand, json);
    show_layout(json, "Steps", "steps", &operand.steps);
    if (json) {
        json_int("align", operand.align);
        json_close();
    } else {
        printf("Alignment: %" PRId64 " bytes\n", operand.align);
    }
    return PTXPACK_OK;
}

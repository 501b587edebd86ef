/* layout.h - CuTe's layout algebra at run time: nested integer tuples, layouts, swizzles, tilers.
 *
 * A layout is a function from coordinates to offsets, written shape:stride.  (4,(2,3)):(1,(12,4)) maps the
 * coordinate (c0,(c1,c2)) to c0 + 12 c1 + 4 c2.  An integer in place of a tuple counts through the tuple, first
 * mode fastest.  host/README.md explains the operations; their names are CuTe's with the prefix ptxpack_.
 *
 * Values   Values are plain structs and can be copied.  Nothing is allocated.  A tuple has up to 32 integers,
 *          nested up to 8 deep.
 * Forms    A result has the form that CuTe gives when every integer is a compile-time constant.  If such a
 *          result would break the operation's own definition, the operation is an error instead.
 * Errors   A call that fails returns a value whose `status` is not PTXPACK_OK, and leaves one line, which names
 *          the culprit, in ptxpack_detail(NULL) of this thread.  The other members of that value are
 *          meaningless.  Operations pass such a value on, so a whole derivation needs only one check, at its
 *          end.
 * Range    Integers have 64 bits, and overflow is an error.  The size and the cosize of a layout always fit.
 * Threads  There is no shared state.
 * Source   Cecka, CuTe Layout Representation and Algebra (arXiv 2603.02298), and the CuTe headers. */
#ifndef PTXPACK_LAYOUT_H
#define PTXPACK_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "loader/status.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { PTXPACK_TUPLE_ITEMS = 32, PTXPACK_TUPLE_DEPTH = 8, PTXPACK_LAYOUT_TEXT = 4096 };

/* ---- values -------------------------------------------------------------------------------------- */
/* The kind of an item of a tuple: 0 is an integer; otherwise it is one of these, or a basis path. */
#define PTXPACK_UNDERSCORE UINT64_MAX       /* `_`: the whole mode, in coordinates and tilers */
#define PTXPACK_EMPTY      (UINT64_MAX - 1) /* (): a tuple without modes */
/* A basis path says along which mode an integer steps: 3@0@1 is 3 steps in mode 0 of mode 1.  It has one byte
 * for each @, which holds the mode's number plus 1; the last one (the outermost mode) is in the lowest byte. */

/* A nested tuple in a flat form: its items from left to right, and the parentheses around them.
 *   7              one item, depth 0: an integer is a tuple of rank 1
 *   (4,(2,3))      items 4 2 3, depth 1 2 2, shared 1 2 0
 *   (())           one item of kind PTXPACK_EMPTY, depth 1 */
typedef struct ptxpack_tuple {
    ptxpack_status status;
    uint8_t        items;
    uint8_t        depth[PTXPACK_TUPLE_ITEMS];  /* the parentheses around item i */
    uint8_t        shared[PTXPACK_TUPLE_ITEMS]; /* those around both item i and item i+1; 0 for the last */
    int64_t        value[PTXPACK_TUPLE_ITEMS];
    uint64_t       kind[PTXPACK_TUPLE_ITEMS];
} ptxpack_tuple;

/* Sw<B,M,S>: x ^ ((x & Y) shifted right by S), Y = (2^B - 1) << (M + max(S, 0)); B = 0 changes nothing. */
typedef struct ptxpack_swizzle {
    int8_t bits, base, shift;
} ptxpack_swizzle;

/* shape:stride; or composed, Sw o offset o shape:stride, the function swizzle(offset + inner(c)); or a tiler,
 * <...>, whose modes are tilers, layouts, `_`, or integers n that mean n:1.  Its status is shape.status. */
typedef struct ptxpack_layout {
    ptxpack_tuple   shape, stride; /* congruent; a stride's kind may be a basis path */
    bool            composed;
    ptxpack_swizzle swizzle; /* of a composed layout */
    int64_t         offset;  /* of a composed layout */
    /* How many parentheses around item i, counted from outside, are <>.  The stride of an integer mode of a
     * tiler has the kind PTXPACK_UNDERSCORE. */
    uint8_t tiler[PTXPACK_TUPLE_ITEMS];
} ptxpack_layout;

/* A layout and the place where it starts. */
typedef struct ptxpack_slice {
    ptxpack_layout layout;
    ptxpack_tuple  offset; /* an integer; a tuple of integers where strides are basis paths */
} ptxpack_slice;

/* ---- text ----------------------------------------------------------------------------------------- */
/* CuTe's notation: "(4,(2,3))", "(4,8):(8,1)", "Sw<3,4,3> o 0 o (8,64):(64,1)", "<4:2,_,8>", "(1@0,1@1)";
 * a shape alone is the compact layout, first mode fastest.  `_8` reads as 8.  The whole text must be one
 * value. */
PTXPACK_API ptxpack_tuple  ptxpack_tuple_parse(const char *text);
PTXPACK_API ptxpack_layout ptxpack_layout_parse(const char *text);
/* Like snprintf: writes at most cap - 1 bytes of the text and a NUL byte, and returns the length of the whole
 * text.
 * PTXPACK_LAYOUT_TEXT bytes are always enough. */
PTXPACK_API size_t ptxpack_tuple_print(const ptxpack_tuple *t, char *text, size_t cap);
PTXPACK_API size_t ptxpack_layout_print(const ptxpack_layout *l, char *text, size_t cap);

/* ---- tuples: making, structure -------------------------------------------------------------------- */
PTXPACK_API ptxpack_tuple ptxpack_int(int64_t value);
PTXPACK_API ptxpack_tuple ptxpack_underscore(void);
/* A basis value: `value` steps in mode modes[0], in mode modes[1] of that, and so on; count 0: an integer. */
PTXPACK_API ptxpack_tuple ptxpack_basis(int64_t value, int count, const int *modes);
PTXPACK_API ptxpack_tuple ptxpack_tuple_of(int count, const int64_t *values);        /* (v0,v1,...), flat */
PTXPACK_API ptxpack_tuple ptxpack_tuple_join(int count, const ptxpack_tuple *modes); /* (m0,m1,...) */

PTXPACK_API bool          ptxpack_is_tuple(const ptxpack_tuple *t); /* false: an integer or `_` */
PTXPACK_API int           ptxpack_rank(const ptxpack_tuple *t);     /* modes; 1 of an integer */
PTXPACK_API int           ptxpack_depth(const ptxpack_tuple *t);    /* 0 of an integer */
PTXPACK_API bool          ptxpack_has_underscore(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_get(const ptxpack_tuple *t, int mode);
/* The mode of t that a basis value steps along. */
PTXPACK_API ptxpack_tuple ptxpack_basis_get(const ptxpack_tuple *basis, const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_flatten(const ptxpack_tuple *t);          /* an integer stays one */
PTXPACK_API ptxpack_tuple ptxpack_flatten_to_tuple(const ptxpack_tuple *t); /* an integer becomes (n) */
PTXPACK_API ptxpack_tuple ptxpack_unflatten(const ptxpack_tuple *flat, const ptxpack_tuple *profile);
PTXPACK_API ptxpack_tuple ptxpack_wrap(const ptxpack_tuple *t);   /* n -> (n); a tuple stays */
PTXPACK_API ptxpack_tuple ptxpack_unwrap(const ptxpack_tuple *t); /* ((n)) -> n; (a,b) stays */
/* For the modes [begin, end), where end -1 means up to the last: take keeps only these, group makes them one
 * mode. */
PTXPACK_API ptxpack_tuple ptxpack_take(const ptxpack_tuple *t, int begin, int end);
PTXPACK_API ptxpack_tuple ptxpack_group(const ptxpack_tuple *t, int begin, int end);
PTXPACK_API ptxpack_tuple ptxpack_select(const ptxpack_tuple *t, int count, const int *modes);
PTXPACK_API ptxpack_tuple ptxpack_append(const ptxpack_tuple *t, const ptxpack_tuple *x);
PTXPACK_API ptxpack_tuple ptxpack_prepend(const ptxpack_tuple *t, const ptxpack_tuple *x);
/* Append or prepend x until the rank is n; a greater rank is an error. */
PTXPACK_API ptxpack_tuple ptxpack_append_to(const ptxpack_tuple *t, int n, const ptxpack_tuple *x);
PTXPACK_API ptxpack_tuple ptxpack_prepend_to(const ptxpack_tuple *t, int n, const ptxpack_tuple *x);
PTXPACK_API ptxpack_tuple ptxpack_insert(const ptxpack_tuple *t, int before, const ptxpack_tuple *x);
PTXPACK_API ptxpack_tuple ptxpack_remove(const ptxpack_tuple *t, int mode);
PTXPACK_API ptxpack_tuple ptxpack_replace(const ptxpack_tuple *t, int mode, const ptxpack_tuple *x);
PTXPACK_API ptxpack_tuple ptxpack_front(const ptxpack_tuple *t); /* the first leaf's integer */
PTXPACK_API ptxpack_tuple ptxpack_back(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_reverse(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_repeat(const ptxpack_tuple *x, int n); /* n = 1: x itself, not (x) */
PTXPACK_API ptxpack_tuple ptxpack_repeat_like(const ptxpack_tuple *profile, const ptxpack_tuple *x);
PTXPACK_API ptxpack_tuple ptxpack_zip(const ptxpack_tuple *t); /* ((a,b),(c,d)) -> ((a,c),(b,d)) */
/* At the terminals of `guide` t has rank 2: gather all the first modes, then all the second modes. */
PTXPACK_API ptxpack_tuple ptxpack_zip2_by(const ptxpack_tuple *t, const ptxpack_tuple *guide);
/* transform puts f(mode) in the place of every mode, transform_leaf does so with every leaf, and fold gives
 * f(..f(f(start, m0), m1)..).  If f returns a value with an error, that value is the result. */
typedef ptxpack_tuple (*ptxpack_map)(void *user, const ptxpack_tuple *mode);
typedef ptxpack_tuple (*ptxpack_folder)(void *user, const ptxpack_tuple *so_far, const ptxpack_tuple *mode);
PTXPACK_API ptxpack_tuple ptxpack_transform(const ptxpack_tuple *t, ptxpack_map f, void *user);
PTXPACK_API ptxpack_tuple ptxpack_transform_leaf(const ptxpack_tuple *t, ptxpack_map f, void *user);
PTXPACK_API ptxpack_tuple ptxpack_fold(const ptxpack_tuple *t, const ptxpack_tuple *start, ptxpack_folder f,
                                       void *user);

/* ---- tuples: arithmetic --------------------------------------------------------------------------- */
PTXPACK_API ptxpack_tuple ptxpack_product(const ptxpack_tuple *t); /* of all leaves; of (): 1 */
PTXPACK_API ptxpack_tuple ptxpack_product_each(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_product_like(const ptxpack_tuple *t, const ptxpack_tuple *guide);
PTXPACK_API ptxpack_tuple ptxpack_sum(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_max(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_min(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_gcd(const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_abs(const ptxpack_tuple *t);                 /* of every leaf */
PTXPACK_API ptxpack_tuple ptxpack_signum(const ptxpack_tuple *t);              /* of every leaf: -1, 0 or 1 */
PTXPACK_API ptxpack_tuple ptxpack_as_arithmetic_tuple(const ptxpack_tuple *t); /* 3@1 -> (0,3) */
PTXPACK_API ptxpack_tuple ptxpack_inner_product(const ptxpack_tuple *x, const ptxpack_tuple *y);
PTXPACK_API ptxpack_tuple ptxpack_elem_scale(const ptxpack_tuple *x, const ptxpack_tuple *y);
PTXPACK_API ptxpack_tuple ptxpack_ceil_div(const ptxpack_tuple *x, const ptxpack_tuple *y);
PTXPACK_API ptxpack_tuple ptxpack_round_up(const ptxpack_tuple *x, const ptxpack_tuple *y);
PTXPACK_API ptxpack_tuple ptxpack_shape_div(const ptxpack_tuple *x, const ptxpack_tuple *y);
PTXPACK_API ptxpack_tuple ptxpack_filter_zeros_by(const ptxpack_tuple *guide, const ptxpack_tuple *t);
/* All of these are false if a value is an error.  a <= b is !less(b, a). */
PTXPACK_API bool ptxpack_tuple_equal(const ptxpack_tuple *a, const ptxpack_tuple *b);
PTXPACK_API bool ptxpack_congruent(const ptxpack_tuple *a, const ptxpack_tuple *b);
PTXPACK_API bool ptxpack_weakly_congruent(const ptxpack_tuple *a, const ptxpack_tuple *b);
PTXPACK_API bool ptxpack_compatible(const ptxpack_tuple *a, const ptxpack_tuple *b);
PTXPACK_API bool ptxpack_evenly_divides(const ptxpack_tuple *shape, const ptxpack_tuple *tiler);
PTXPACK_API bool ptxpack_lex_less(const ptxpack_tuple *a, const ptxpack_tuple *b);   /* last mode fastest */
PTXPACK_API bool ptxpack_colex_less(const ptxpack_tuple *a, const ptxpack_tuple *b); /* first mode fastest */
PTXPACK_API bool ptxpack_elem_less(const ptxpack_tuple *a, const ptxpack_tuple *b);  /* in every mode */

/* ---- coordinates ---------------------------------------------------------------------------------- */
/* The offset of a coordinate.  An integer counts through the shape, whose last mode has no limit.  With basis
 * strides the result is a tuple. */
PTXPACK_API ptxpack_tuple ptxpack_crd2idx(const ptxpack_tuple *coord, const ptxpack_tuple *shape,
                                          const ptxpack_tuple *stride);
PTXPACK_API ptxpack_tuple ptxpack_crd2idx_compact(const ptxpack_tuple *coord, const ptxpack_tuple *shape);
/* The coordinate of an index: for a compact stride, or for the compact order, first mode fastest. */
PTXPACK_API ptxpack_tuple ptxpack_idx2crd(const ptxpack_tuple *index, const ptxpack_tuple *shape,
                                          const ptxpack_tuple *stride);
PTXPACK_API ptxpack_tuple ptxpack_idx2crd_compact(const ptxpack_tuple *index, const ptxpack_tuple *shape);
PTXPACK_API ptxpack_tuple ptxpack_crd2crd(const ptxpack_tuple *coord, const ptxpack_tuple *from,
                                          const ptxpack_tuple *to);
/* The compact strides of a shape.  An extent of 1 gets stride 0.  `start` is the first stride, NULL means 1. */
PTXPACK_API ptxpack_tuple ptxpack_compact_col_major(const ptxpack_tuple *shape, const ptxpack_tuple *start);
PTXPACK_API ptxpack_tuple ptxpack_compact_row_major(const ptxpack_tuple *shape, const ptxpack_tuple *start);
/* The mode with the smallest number in `order` gets stride 1, and so on.  Equal numbers are an error, because
 * those modes would alias (CuTe allows them). */
PTXPACK_API ptxpack_tuple ptxpack_compact_order(const ptxpack_tuple *shape, const ptxpack_tuple *order);
PTXPACK_API ptxpack_tuple ptxpack_make_basis_like(const ptxpack_tuple *shape);
/* The next coordinate of `shape`, first mode fastest.  After the last coordinate the last mode exceeds its
 * extent, as in CuTe. */
PTXPACK_API ptxpack_tuple ptxpack_increment(const ptxpack_tuple *coord, const ptxpack_tuple *shape);
/* slice keeps the parts of t that meet `_` in coord, dice those that meet integers. */
PTXPACK_API ptxpack_tuple ptxpack_tuple_slice(const ptxpack_tuple *coord, const ptxpack_tuple *t);
PTXPACK_API ptxpack_tuple ptxpack_tuple_dice(const ptxpack_tuple *coord, const ptxpack_tuple *t);

/* ---- layouts: making, reading ----------------------------------------------------------------------- */
PTXPACK_API ptxpack_layout ptxpack_make_layout(const ptxpack_tuple *shape, const ptxpack_tuple *stride);
PTXPACK_API ptxpack_layout ptxpack_make_layout_left(const ptxpack_tuple *shape);  /* first mode fastest */
PTXPACK_API ptxpack_layout ptxpack_make_layout_right(const ptxpack_tuple *shape); /* last mode fastest */
PTXPACK_API ptxpack_layout ptxpack_make_ordered_layout(const ptxpack_tuple *shape, const ptxpack_tuple *order);
PTXPACK_API ptxpack_layout ptxpack_make_identity_layout(const ptxpack_tuple *shape);
PTXPACK_API ptxpack_layout ptxpack_make_layout_like(const ptxpack_layout *l);
PTXPACK_API ptxpack_layout ptxpack_make_fragment_like(const ptxpack_layout *l);
PTXPACK_API ptxpack_layout ptxpack_layout_join(int count, const ptxpack_layout *modes); /* (l0,l1,...) */
PTXPACK_API ptxpack_layout ptxpack_make_tiler(int count, const ptxpack_layout *modes);  /* <l0,l1,...> */
PTXPACK_API ptxpack_layout ptxpack_tiler_of(const ptxpack_tuple *t); /* <...> from integers and `_` */
/* swizzle(offset + l(c)), strides integers.  A swizzle of no bits with offset 0 gives l itself. */
PTXPACK_API ptxpack_layout ptxpack_make_composed(ptxpack_swizzle swizzle, int64_t offset,
                                                 const ptxpack_layout *l);

PTXPACK_API bool    ptxpack_is_tiler(const ptxpack_layout *l); /* <...>, not a bare n or `_` */
PTXPACK_API bool    ptxpack_layout_equal(const ptxpack_layout *a, const ptxpack_layout *b);
PTXPACK_API int64_t ptxpack_size(const ptxpack_layout *l); /* of the domain; 0 of an error */
/* 1 + the greatest offset, with the absolute values of the strides and without the swizzle.  0 of an error, and
 * if strides are basis paths. */
PTXPACK_API int64_t        ptxpack_cosize(const ptxpack_layout *l);
PTXPACK_API ptxpack_tuple  ptxpack_coshape(const ptxpack_layout *l);
PTXPACK_API ptxpack_tuple  ptxpack_coprofile(const ptxpack_layout *l);
PTXPACK_API ptxpack_layout ptxpack_mode(const ptxpack_layout *l, int mode); /* layout<mode>(l) */
PTXPACK_API int64_t        ptxpack_mode_size(const ptxpack_layout *l, int mode);
/* The offset of an index, or of a coordinate.  `ptxpack_at` is the fast path for layouts without basis strides
 * and 0 <= index < size; outside of that range its value is meaningless. */
PTXPACK_API int64_t       ptxpack_at(const ptxpack_layout *l, int64_t index);
PTXPACK_API ptxpack_tuple ptxpack_layout_crd2idx(const ptxpack_layout *l, const ptxpack_tuple *coord);
/* The inverse of a compact layout: the coordinate of an offset, either nested as the shape, or with one integer
 * for each mode, or as one integer.  An offset that the layout does not reach is an error. */
PTXPACK_API ptxpack_tuple ptxpack_get_hier_coord(const ptxpack_layout *l, int64_t offset);
PTXPACK_API ptxpack_tuple ptxpack_get_flat_coord(const ptxpack_layout *l, int64_t offset);
PTXPACK_API ptxpack_tuple ptxpack_get_1d_coord(const ptxpack_layout *l, int64_t offset);
/* For a swizzle with 0 <= B <= |S|, 0 <= M and B + M + |S| <= 62, as in every layout; for others the value is
 * meaningless. */
PTXPACK_API int64_t ptxpack_swizzle_apply(ptxpack_swizzle s, int64_t x);

/* ---- layouts: structure (of shape and stride alike) -------------------------------------------------- */
PTXPACK_API ptxpack_layout ptxpack_layout_flatten(const ptxpack_layout *l);
PTXPACK_API ptxpack_layout ptxpack_layout_unflatten(const ptxpack_layout *l, const ptxpack_tuple *profile);
PTXPACK_API ptxpack_layout ptxpack_layout_take(const ptxpack_layout *l, int begin, int end);
PTXPACK_API ptxpack_layout ptxpack_layout_group(const ptxpack_layout *l, int begin, int end);
PTXPACK_API ptxpack_layout ptxpack_layout_select(const ptxpack_layout *l, int count, const int *modes);
/* Append or prepend x; NULL means 1:0. */
PTXPACK_API ptxpack_layout ptxpack_layout_append(const ptxpack_layout *l, const ptxpack_layout *x);
PTXPACK_API ptxpack_layout ptxpack_layout_prepend(const ptxpack_layout *l, const ptxpack_layout *x);
PTXPACK_API ptxpack_layout ptxpack_layout_append_to(const ptxpack_layout *l, int n, const ptxpack_layout *x);
PTXPACK_API ptxpack_layout ptxpack_layout_prepend_to(const ptxpack_layout *l, int n, const ptxpack_layout *x);
PTXPACK_API ptxpack_layout ptxpack_layout_replace(const ptxpack_layout *l, int mode, const ptxpack_layout *x);
PTXPACK_API ptxpack_layout ptxpack_layout_reverse(const ptxpack_layout *l);
PTXPACK_API ptxpack_layout ptxpack_layout_zip(const ptxpack_layout *a, const ptxpack_layout *b);
PTXPACK_API ptxpack_layout ptxpack_tile_unzip(const ptxpack_layout *l, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_layout_slice(const ptxpack_tuple *coord, const ptxpack_layout *l);
PTXPACK_API ptxpack_layout ptxpack_layout_dice(const ptxpack_tuple *coord, const ptxpack_layout *l);
PTXPACK_API ptxpack_slice  ptxpack_slice_and_offset(const ptxpack_tuple *coord, const ptxpack_layout *l);
PTXPACK_API ptxpack_slice  ptxpack_domain_offset(const ptxpack_tuple *coord, const ptxpack_layout *l);

/* ---- layouts: algebra --------------------------------------------------------------------------------- */
/* The same function with as few modes as possible; with a profile, at its terminals. */
PTXPACK_API ptxpack_layout ptxpack_coalesce(const ptxpack_layout *l, const ptxpack_tuple *profile);
PTXPACK_API ptxpack_layout ptxpack_filter_zeros(const ptxpack_layout *l, const ptxpack_tuple *profile);
PTXPACK_API ptxpack_layout ptxpack_filter(const ptxpack_layout *l, const ptxpack_tuple *profile);
/* R(i) = a(b(i)), where the shape of R is compatible with that of b.  A tiler b acts mode by mode, and drops
 * the modes of a that it does not reach. */
PTXPACK_API ptxpack_layout ptxpack_composition(const ptxpack_layout *a, const ptxpack_layout *b);
PTXPACK_API ptxpack_layout ptxpack_with_shape(const ptxpack_layout *l, const ptxpack_tuple *shape);
/* The offsets of [0, cotarget) that l leaves out: disjoint, ordered, with size * size(filter(l)) >= cotarget.
 * cotarget NULL means cosize(filter(l)). */
PTXPACK_API ptxpack_layout ptxpack_complement(const ptxpack_layout *l, const ptxpack_tuple *cotarget);
PTXPACK_API ptxpack_layout ptxpack_right_inverse(const ptxpack_layout *l); /* l(R(i)) = i for i < size(R) */
PTXPACK_API ptxpack_layout ptxpack_left_inverse(const ptxpack_layout *l);  /* l(R(l(i))) = l(i) */
PTXPACK_API ptxpack_layout ptxpack_nullspace(const ptxpack_layout *l);     /* l(R(i)) = 0 */
/* The longest run that is contiguous in both a and b: a(R(i)) - a(0) = b(R(i)) - b(0) = i. */
PTXPACK_API ptxpack_layout ptxpack_max_common_layout(const ptxpack_layout *a, const ptxpack_layout *b);
/* The length of that run; 0 is an error. */
PTXPACK_API int64_t        ptxpack_max_common_vector(const ptxpack_layout *a, const ptxpack_layout *b);
PTXPACK_API ptxpack_layout ptxpack_domain_distribute(const ptxpack_tuple *shape, int64_t n);
/* The largest vector, in elements, in which l can be accessed: its length divides the runs of l and all
 * distances between them.  0 is an error. */
PTXPACK_API int64_t ptxpack_max_alignment(const ptxpack_layout *l);
/* The shape of complement(tiler, shape): how many tiles. */
PTXPACK_API ptxpack_tuple ptxpack_ceil_div_layout(const ptxpack_tuple *shape, const ptxpack_layout *tiler);

/* Divide l into tiles of `tiler`.  The forms of the result are logical ((Tile,Rest),..), zipped
 * ((Tile..),(Rest..)), tiled ((Tile..),Rest..) and flat (Tile..,Rest..).  A layout divides l as a whole, a
 * tiler divides it mode by mode. */
PTXPACK_API ptxpack_layout ptxpack_logical_divide(const ptxpack_layout *l, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_zipped_divide(const ptxpack_layout *l, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_tiled_divide(const ptxpack_layout *l, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_flat_divide(const ptxpack_layout *l, const ptxpack_layout *tiler);
/* Repeat `block` as `tiler` says, in the same four forms, or blocked ((Block,Tile),..), or raked
 * ((Tile,Block),..). */
PTXPACK_API ptxpack_layout ptxpack_logical_product(const ptxpack_layout *block, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_zipped_product(const ptxpack_layout *block, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_tiled_product(const ptxpack_layout *block, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_flat_product(const ptxpack_layout *block, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_blocked_product(const ptxpack_layout *block, const ptxpack_layout *tiler);
PTXPACK_API ptxpack_layout ptxpack_raked_product(const ptxpack_layout *block, const ptxpack_layout *tiler);
/* Repeat `block` to fill `shape`; order NULL means along mode 0 first. */
PTXPACK_API ptxpack_layout ptxpack_tile_to_shape(const ptxpack_layout *block, const ptxpack_tuple *shape,
                                                 const ptxpack_tuple *order);

/* The layout of the same memory in elements that are n times as wide (upcast) or n times as narrow (downcast).
 * recast goes from elements of `from` bits to elements of `to` bits.  It is an error if that would split an
 * element. */
PTXPACK_API ptxpack_layout ptxpack_upcast(const ptxpack_layout *l, int64_t n);
PTXPACK_API ptxpack_layout ptxpack_downcast(const ptxpack_layout *l, int64_t n);
PTXPACK_API ptxpack_layout ptxpack_recast_layout(const ptxpack_layout *l, int64_t from, int64_t to);
#ifdef __cplusplus
}
#endif
#endif

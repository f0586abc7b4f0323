/* Bootstrap kernel: the Python face of the loops in lanes.h.
 *
 * Limited API, so one binary serves every Python from 3.11 on; arrays arrive through the buffer
 * protocol, so numpy is not needed to build. The GIL is released around every loop. _numpy.py
 * implements the same functions; eval_toolkit._kernel chooses between them.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "arrays.h"
#include "draws.h"

#define PREFETCH_AHEAD 16 /* index arrays end with this many spare entries */
#define N_COMPARED 6 /* thresholds that all codes are compared with; few reach the last of them */
#define TOP_UP_BATCH 32   /* even: one hash serves two draws */
#define MOST_MISSES 8192  /* (31/32)^8192 is 1e-113 */
#define PAGE 4096         /* hardware prefetching stops at page ends: reach over them */

#if defined(__GNUC__) && defined(__x86_64__)
#define X86_DISPATCH 1
#include <immintrin.h>
#else
#define X86_DISPATCH 0
#endif

/* A code above the thresholds compared so far is compared with the others. One above them all
 * (probability about 1e-4) is resolved from the residual probabilities with fresh bits, which makes
 * the distribution exact to 2^-53. */
static int resolve_escapes(uint8_t *rows, int64_t size, int64_t block, const int32_t *order,
                           const uint64_t *key, const uint16_t *thresholds,
                           const double *residual) {
    int largest = 0;
    uint8_t *at = rows, *end = rows + size;
    while ((at = memchr(at, N_THRESHOLDS, (size_t)(end - at)))) {
        int64_t i = block + (at - rows) / LANES, l = (at - rows) % LANES;
        uint64_t counter = ((order ? (uint64_t)order[i] : (uint64_t)i) + 1) * GAMMA;
        uint16_t codes[4];
        uint64_t h = mix64(key[l >> 2] + counter);
        int k = N_COMPARED;
        memcpy(codes, &h, sizeof codes);
        while (k < N_THRESHOLDS && codes[l & 3] >= thresholds[k]) k++;
        if (k == N_THRESHOLDS) {
            h = mix64(key[l >> 2] ^ (counter + ESCAPE_STREAM + ESCAPE_STEP * (uint64_t)(l & 3)));
            double u = (double)(h >> 11) * 0x1p-53;
            for (k = 0; k < N_RESIDUAL - 1 && u >= residual[k];) k++;
        }
        *at++ = (uint8_t)k;
        largest = k > largest ? k : largest;
    }
    return largest;
}

/* INVERT: counts of 64 random codes, one for each threshold reached; the last one compared lifts
 * a count to N_THRESHOLDS, for `resolve_escapes`. AVX-512 adds to bytes under a mask.
 * STRIP: lanes whose sums fit into the registers; WIDE_REGISTERS hold those of two columns.
 * WIDEN: counts to doubles; compilers take a detour over 16 and 32 bits. */
#define STEP(k) ((k) < N_COMPARED - 1 ? 1 : N_THRESHOLDS - N_COMPARED + 1)
#define INVERT_PLAIN(row, bits, t)                                                        \
    do {                                                                                  \
        uint16_t count[LANES];                                                            \
        for (int l = 0; l < LANES; l++) {                                                 \
            uint16_t c = 0;                                                               \
            for (int k = 0; k < N_COMPARED; k++)                                          \
                c = (uint16_t)(c + STEP(k) * ((bits)[l] >= (t)[k]));                      \
            count[l] = c;                                                                 \
        }                                                                                 \
        for (int l = 0; l < LANES; l++) (row)[l] = (uint8_t)count[l];                     \
    } while (0)
#define INVERT_AVX512(row, bits, t)                                                       \
    do {                                                                                  \
        __m512i low = _mm512_loadu_si512(bits), high = _mm512_loadu_si512((bits) + 32);   \
        __m512i count = _mm512_setzero_si512();                                           \
        for (int k = 0; k < N_COMPARED; k++) {                                            \
            __m512i at = _mm512_set1_epi16((int16_t)(t)[k]);                              \
            __mmask64 reached = _mm512_kunpackd(_mm512_cmpge_epu16_mask(high, at),        \
                                                _mm512_cmpge_epu16_mask(low, at));        \
            count = _mm512_mask_add_epi8(count, reached, count, _mm512_set1_epi8(STEP(k))); \
        }                                                                                 \
        _mm512_storeu_si512(row, count);                                                  \
    } while (0)
#define WIDEN_PLAIN(to, from) \
    for (int l = 0; l < LANES; l++) (to)[l] = (double)(from)[l]
#define WIDEN_AVX512(to, from)                                                            \
    for (int l = 0; l < LANES; l += 8)                                                    \
        _mm512_storeu_pd((to) + l, _mm512_cvtepu64_pd(_mm512_cvtepu8_epi64(               \
                                       _mm_loadl_epi64((const __m128i *)((from) + l)))))
#define ISA(name) name##_base
#define INVERT INVERT_PLAIN
#define WIDEN WIDEN_PLAIN
#define STRIP 16
#include "lanes.h"
#undef STRIP
#undef WIDEN
#undef INVERT
#undef ISA

#if X86_DISPATCH
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#define ISA(name) name##_avx2
#define INVERT INVERT_PLAIN
#define WIDEN WIDEN_PLAIN
#define STRIP 16
#include "lanes.h"
#undef STRIP
#undef WIDEN
#undef INVERT
#undef ISA
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#define ISA(name) name##_avx512
#define INVERT INVERT_AVX512
#define WIDEN WIDEN_AVX512
#define WIDE_REGISTERS 1
#include "lanes.h"
#undef WIDE_REGISTERS
#undef WIDEN
#undef INVERT
#undef ISA
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

typedef struct {
    const char *name;
    int (*fill)(int64_t, int64_t, const int32_t *, const uint64_t *, const uint16_t *,
                const double *, uint8_t *, uint32_t *);
    void (*rank)(const uint8_t *, int64_t, const int32_t *, int64_t, int64_t, const int32_t *,
                 double *);
    void (*recall)(const uint8_t *, int64_t, const int32_t *, int64_t, const int32_t *,
                   const double *, const double *, double, double *);
    void (*sums)(const uint8_t *, int64_t, const uint8_t *, const double *, int64_t, const int64_t *,
                 int64_t, const int32_t *, double *);
    void (*masses)(const uint8_t *, const uint8_t *, const double *, const uint8_t *, int64_t,
                   const double *, int64_t, const int32_t *, double *);
} loops;

#define LOOPS(label, isa) {label, fill_##isa, rank_##isa, recall_##isa, sums_##isa, masses_##isa}

static const loops available[] = {
    LOOPS("base", base),
#if X86_DISPATCH
    LOOPS("avx2", avx2),
    LOOPS("avx512", avx512),
#endif
};
static const loops *chosen = &available[0];

#include "dispatch.h"

/* Bring the total of each lane to exactly n: a Poisson sample given its total is multinomial, and
 * stays so when uniform draws are added or uniformly chosen ones are taken away. */
static int top_up(int64_t start, int64_t n, uint64_t seed, uint64_t first, const int32_t *position,
                  uint8_t *counts, const uint32_t *totals, int largest) {
    for (int l = 0; l < LANES; l++) {
        uint64_t state = stream_key(seed ^ TOP_UP_STREAM, first + (uint64_t)l) +
                         (uint64_t)start * STRATUM_STEP;
        int64_t missing = n - (int64_t)totals[l];
        for (int64_t k = 0; k < missing; k += TOP_UP_BATCH) { /* addresses first: they miss caches */
            uint8_t *cells[TOP_UP_BATCH];
            int64_t m = missing - k < TOP_UP_BATCH ? missing - k : TOP_UP_BATCH;
            for (int64_t j = 0; j < m; j += 2) {
                uint64_t bits = mix64(state += GAMMA);
                for (int half = 0; half < 2; half++) {
                    int64_t unit = start + below((half ? bits >> 32 : bits) & 0xFFFFFFFFu, n);
                    cells[j + half] =
                        counts + (position ? (int64_t)position[unit] : unit) * LANES + l;
                    PREFETCH(cells[j + half]);
                }
            }
            for (int64_t j = 0; j < m; j++) {
                if (*cells[j] < 255) ++*cells[j]; /* 255 has no measurable probability */
                if (*cells[j] > largest) largest = *cells[j];
            }
        }
        /* Accept with probability count / 32: every draw equally likely. The counts exceed one on
         * average, so a run of misses means that `position` does not lead to the rows filled. */
        for (int misses = 0; missing < 0; misses++) {
            if (misses == MOST_MISSES) return -1;
            uint64_t bits = mix64(state += GAMMA);
            int64_t unit = start + below(bits & 0xFFFFFFFFu, n);
            uint8_t *count = counts + (position ? (int64_t)position[unit] : unit) * LANES + l;
            if (((bits >> 32) & 31) < *count) {
                --*count;
                missing++;
                misses = 0;
            }
        }
    }
    return largest;
}

/* Second level: each copy of a group redraws the group's members with replacement. */
static int redraw(const uint8_t *group_counts, const int64_t *offsets, int64_t n_groups,
                  uint64_t seed, uint64_t first, uint8_t *counts) {
    int largest = 0;
    memset(counts, 0, (size_t)(offsets[n_groups] * LANES));
    for (int l = 0; l < LANES; l++) {
        uint64_t key = stream_key(seed ^ WITHIN_STREAM, first + (uint64_t)l);
        for (int64_t g = 0; g < n_groups; g++) {
            int64_t size = offsets[g + 1] - offsets[g];
            int64_t draws = size * (int64_t)group_counts[g * LANES + l];
            uint64_t state = mix64(key + (uint64_t)(g + 1) * GAMMA);
            for (int64_t k = 0; k < draws; k++) {
                uint64_t bits = mix64(state += GAMMA);
                uint8_t *count = counts + (offsets[g] + below(bits >> 32, size)) * LANES + l;
                if (*count < 255) ++*count;
                if (*count > largest) largest = *count;
            }
        }
    }
    return largest;
}

/* Digits of a key in a radix sort: 6 passes over 64 bits, counters that fit the first cache. */
#define DIGIT_BITS 11
#define N_DIGITS 6
#define N_VALUES (1 << DIGIT_BITS)

typedef struct {
    uint64_t key;
    int64_t row;
} keyed;

/* Bits whose order as a number is that of descending scores; 0.0 and -0.0 are one score. */
static uint64_t descending_key(double score) {
    uint64_t bits;
    score += 0.0;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 63 ? bits : ~bits & INT64_MAX;
}

/* Sort by key, stable; digits that all keys share are passed over. Returns a or b. */
static keyed *sort_keyed(keyed *a, keyed *b, int64_t n) {
    for (int d = 0; n && d < N_DIGITS; d++) {
        int64_t place[N_VALUES] = {0}, next = 0;
        int shift = d * DIGIT_BITS;
        for (int64_t i = 0; i < n; i++) place[a[i].key >> shift & (N_VALUES - 1)]++;
        if (place[a[0].key >> shift & (N_VALUES - 1)] == n) continue;
        for (int v = 0; v < N_VALUES; v++) {
            int64_t count = place[v];
            place[v] = next;
            next += count;
        }
        for (int64_t i = 0; i < n; i++) b[place[a[i].key >> shift & (N_VALUES - 1)]++] = a[i];
        keyed *sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}

static int64_t chunk_of(int largest) { return largest > 0 ? 255 / largest : 255; }

/* ---- Python functions: parse, check, run without the GIL, release --------------------------- */

static int is_bound(char *wrong, int largest) { /* 255 / largest rows are added at a time */
    return (largest >= 0 && largest <= 255) ||
           refuse(wrong, "kernel: `largest` is %d; it must be from 0 to 255", largest);
}

static int is_table(char *wrong, const array *thresholds, const array *residual) {
    const uint16_t *threshold = thresholds->view.buf;
    const double *share = residual->view.buf;
    if (!holds(wrong, thresholds, N_THRESHOLDS) || !holds(wrong, residual, N_RESIDUAL)) return 0;
    for (int k = 1; k < N_THRESHOLDS; k++)
        if (threshold[k] < threshold[k - 1])
            return wrong_entry(wrong, thresholds, k, threshold[k],
                               "it is smaller than the entry before it");
    for (int k = 1; k < N_RESIDUAL; k++)
        if (!(share[k] >= share[k - 1]))
            return refuse(wrong, "kernel: `residual[%d]` is %g; it must not be smaller than %g", k,
                          share[k], share[k - 1]);
    return 1;
}

/* Rows [start, stop) of the counts, and units that stay among themselves. */
static int is_stratum(char *wrong, const array *counts, Py_ssize_t start, Py_ssize_t stop,
                      const array *order, const array *position) {
    if (start < 0 || stop <= start || stop > INT32_MAX || counts->n % LANES ||
        counts->n / LANES < stop)
        return wrong_size(wrong, counts);
    if (!order->view.buf && !position->view.buf) return 1;
    if (!order->view.buf || order->n < stop) return wrong_size(wrong, order);
    if (!position->view.buf || position->n < stop) return wrong_size(wrong, position);
    return lie_within(wrong, order, start, stop, start, stop - 1) &&
           lie_within(wrong, position, start, stop, start, stop - 1);
}

static PyObject *py_draw(PyObject *self, PyObject *args) {
    (void)self;
    array counts = {"counts", U8, .written = 1}, thresholds = {"thresholds", U16};
    array residual = {"residual", F64}, order = {"order", I32, .optional = 1};
    array position = {"position", I32, .optional = 1};
    unsigned long long seed, first;
    Py_ssize_t start, stop;
    if (!PyArg_ParseTuple(args, "O&KKnnO&O&O&O&", array_from, &counts, &seed, &first, &start,
                          &stop, array_from, &thresholds, array_from, &residual, array_from,
                          &order, array_from, &position))
        return NULL;
    array *all[] = {&counts, &thresholds, &residual, &order, &position, NULL};
    fault wrong = "";
    int largest = -1;
    Py_BEGIN_ALLOW_THREADS
    if (lie_apart(wrong, all) && is_table(wrong, &thresholds, &residual) &&
        is_stratum(wrong, &counts, start, stop, &order, &position)) {
        uint64_t keys[GROUPS];
        uint32_t totals[LANES];
        for (int g = 0; g < GROUPS; g++) keys[g] = stream_key(seed, (first >> 2) + (uint64_t)g);
        largest = chosen->fill(start, stop, order.view.buf, keys, thresholds.view.buf,
                               residual.view.buf, counts.view.buf, totals);
        largest = top_up(start, stop - start, seed, first, position.view.buf, counts.view.buf,
                         totals, largest);
        if (largest < 0) refuse(wrong, "kernel: `position` is not the inverse of `order`");
    }
    Py_END_ALLOW_THREADS
    return release(all, wrong) ? PyLong_FromLong(largest) : NULL;
}

static PyObject *py_redraw(PyObject *self, PyObject *args) {
    (void)self;
    array counts = {"counts", U8, .written = 1}, group_counts = {"group_counts", U8};
    array offsets = {"offsets", I64};
    unsigned long long seed, first;
    if (!PyArg_ParseTuple(args, "O&O&O&KK", array_from, &counts, array_from, &group_counts,
                          array_from, &offsets, &seed, &first))
        return NULL;
    array *all[] = {&counts, &group_counts, &offsets, NULL};
    fault wrong = "";
    int largest = -1;
    Py_BEGIN_ALLOW_THREADS
    int64_t n_groups = offsets.n - 1, n = counts.n / LANES;
    if (lie_apart(wrong, all) && (n_groups > 0 || wrong_size(wrong, &offsets)) &&
        ((counts.n % LANES == 0 && n <= INT32_MAX) || wrong_size(wrong, &counts)) &&
        holds_product(wrong, &group_counts, n_groups, LANES) && ascend(wrong, &offsets, 0, n))
        largest = redraw(group_counts.view.buf, offsets.view.buf, n_groups, seed, first,
                         counts.view.buf);
    Py_END_ALLOW_THREADS
    return release(all, wrong) ? PyLong_FromLong(largest) : NULL;
}

/* Rows a layout walks over, -1 if it cannot: those of the index, which ends with spare entries that
 * lead somewhere too, or the units. */
static int64_t rows_walked(char *wrong, const array *counts, const array *index) {
    int64_t units = counts->n / LANES, rows = index->view.buf ? index->n - PREFETCH_AHEAD : units;
    if (counts->n % LANES || units > INT32_MAX) return wrong_size(wrong, counts) - 1;
    if (rows < 0) return wrong_size(wrong, index) - 1;
    if (index->view.buf && rows && !lie_within(wrong, index, 0, index->n, 0, units - 1)) return -1;
    return rows;
}

/* Lengths of parts of the rows: none is negative. Their sum, -1 if something is wrong. */
static int64_t rows_of_segments(char *wrong, const array *segments) {
    const int32_t *length = segments->view.buf;
    int64_t rows = 0;
    if (segments->n % 3) return wrong_size(wrong, segments) - 1;
    if (!lie_within(wrong, segments, 0, segments->n, 0, INT32_MAX)) return -1;
    for (int64_t i = 0; i < segments->n; i++) rows += length[i];
    return rows;
}

static PyObject *py_rank(PyObject *self, PyObject *args) {
    (void)self;
    array out = {"out", F64, .written = 1}, counts = {"counts", U8};
    array segments = {"segments", I32}, index = {"index", I32, .optional = 1};
    int largest;
    Py_ssize_t n_trailing;
    if (!PyArg_ParseTuple(args, "O&O&iO&nO&", array_from, &out, array_from, &counts, &largest,
                          array_from, &segments, &n_trailing, array_from, &index))
        return NULL;
    array *all[] = {&out, &counts, &segments, &index, NULL};
    fault wrong = "";
    Py_BEGIN_ALLOW_THREADS
    int64_t rows = rows_walked(wrong, &counts, &index), ranked = rows_of_segments(wrong, &segments);
    if (!*wrong && (n_trailing < 0 || n_trailing > rows || ranked != rows - n_trailing))
        wrong_size(wrong, &segments);
    if (!*wrong && lie_apart(wrong, all) && is_bound(wrong, largest) &&
        holds(wrong, &out, 4 * LANES))
        chosen->rank(counts.view.buf, chunk_of(largest), segments.view.buf, segments.n / 3,
                     n_trailing, index.view.buf, out.view.buf);
    Py_END_ALLOW_THREADS
    if (!release(all, wrong)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_recall(PyObject *self, PyObject *args) {
    (void)self;
    array out = {"out", F64, .written = 1}, counts = {"counts", U8}, totals = {"totals", F64};
    array segments = {"segments", I32}, index = {"index", I32, .optional = 1};
    double target;
    int largest;
    if (!PyArg_ParseTuple(args, "O&O&iO&O&O&d", array_from, &out, array_from, &counts, &largest,
                          array_from, &segments, array_from, &index, array_from, &totals, &target))
        return NULL;
    array *all[] = {&out, &counts, &segments, &index, &totals, NULL};
    fault wrong = "";
    Py_BEGIN_ALLOW_THREADS
    int64_t rows = rows_walked(wrong, &counts, &index), ranked = rows_of_segments(wrong, &segments);
    if (!*wrong && ranked > rows) wrong_size(wrong, &segments);
    if (!*wrong && lie_apart(wrong, all) && is_bound(wrong, largest) && holds(wrong, &out, LANES) &&
        holds(wrong, &totals, 2 * LANES)) {
        const double *total = totals.view.buf;
        chosen->recall(counts.view.buf, chunk_of(largest), segments.view.buf, segments.n / 3,
                       index.view.buf, total, total + LANES, target, out.view.buf);
    }
    Py_END_ALLOW_THREADS
    if (!release(all, wrong)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_sums(PyObject *self, PyObject *args) {
    (void)self;
    array out = {"out", F64, .written = 1}, counts = {"counts", U8}, labels = {"labels", U8};
    array columns = {"columns", F64}, cuts = {"cuts", I64}, index = {"index", I32, .optional = 1};
    int largest;
    if (!PyArg_ParseTuple(args, "O&O&iO&O&O&O&", array_from, &out, array_from, &counts, &largest,
                          array_from, &labels, array_from, &columns, array_from, &cuts, array_from,
                          &index))
        return NULL;
    array *all[] = {&out, &counts, &labels, &columns, &cuts, &index, NULL};
    fault wrong = "";
    Py_BEGIN_ALLOW_THREADS
    int64_t rows = rows_walked(wrong, &counts, &index), n_columns = rows > 0 ? columns.n / rows : 0;
    if (!*wrong && lie_apart(wrong, all) && is_bound(wrong, largest) &&
        holds(wrong, &labels, rows) && are_flags(wrong, &labels) &&
        holds_product(wrong, &columns, n_columns, rows) && ascend(wrong, &cuts, 0, rows) &&
        (out.n % LANES == 0 || wrong_size(wrong, &out))) {
        array sums = {.name = out.name, .n = out.n / LANES};
        if (holds_product(wrong, &sums, cuts.n, 2 + n_columns))
            chosen->sums(counts.view.buf, chunk_of(largest), labels.view.buf, columns.view.buf,
                         n_columns, cuts.view.buf, cuts.n, index.view.buf, out.view.buf);
    }
    Py_END_ALLOW_THREADS
    if (!release(all, wrong)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_masses(PyObject *self, PyObject *args) {
    (void)self;
    array out = {"out", F64, .written = 1}, counts = {"counts", U8}, labels = {"labels", U8};
    array scores = {"scores", F64}, group_ends = {"group_ends", U8}, cuts = {"cuts", F64};
    array index = {"index", I32, .optional = 1};
    if (!PyArg_ParseTuple(args, "O&O&O&O&O&O&O&", array_from, &out, array_from, &counts, array_from,
                          &labels, array_from, &scores, array_from, &group_ends, array_from, &cuts,
                          array_from, &index))
        return NULL;
    array *all[] = {&out, &counts, &labels, &scores, &group_ends, &cuts, &index, NULL};
    fault wrong = "";
    Py_BEGIN_ALLOW_THREADS
    int64_t rows = rows_walked(wrong, &counts, &index), n_cuts = cuts.n / LANES;
    if (!*wrong && lie_apart(wrong, all) && holds(wrong, &labels, rows) &&
        holds(wrong, &scores, rows) && holds(wrong, &group_ends, rows) &&
        are_flags(wrong, &labels) && are_flags(wrong, &group_ends) &&
        ((n_cuts > 0 && cuts.n % LANES == 0) || wrong_size(wrong, &cuts)) &&
        holds_product(wrong, &out, n_cuts, 2 * LANES)) {
        double *sum = out.view.buf; /* a cut that no resample reaches keeps NaN */
        for (int64_t i = 0; i < out.n; i++) sum[i] = NAN;
        chosen->masses(counts.view.buf, labels.view.buf, scores.view.buf, group_ends.view.buf, rows,
                       cuts.view.buf, n_cuts, index.view.buf, sum);
    }
    Py_END_ALLOW_THREADS
    if (!release(all, wrong)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_rank_order(PyObject *self, PyObject *args) {
    (void)self;
    array out = {"out", I64, .written = 1}, labels = {"labels", U8}, scores = {"scores", F64};
    if (!PyArg_ParseTuple(args, "O&O&O&", array_from, &out, array_from, &labels, array_from,
                          &scores))
        return NULL;
    array *all[] = {&out, &labels, &scores, NULL};
    fault wrong = "";
    int64_t n = labels.n;
    int fits = lie_apart(wrong, all) && holds(wrong, &out, n) && holds(wrong, &scores, n) &&
               are_flags(wrong, &labels);
    keyed *space = fits && n <= PY_SSIZE_T_MAX / 2 / (Py_ssize_t)sizeof *space
                       ? PyMem_Malloc((size_t)n * 2 * sizeof *space)
                       : NULL;
    int made = space != NULL;
    if (made) {
        const uint8_t *label = labels.view.buf;
        const double *score = scores.view.buf;
        int64_t *order = out.view.buf, filled = 0;
        Py_BEGIN_ALLOW_THREADS
        for (int positive = 1; positive >= 0; positive--) /* positives first within ties */
            for (int64_t i = 0; i < n; i++)
                if (label[i] == positive) space[filled++] = (keyed){descending_key(score[i]), i};
        const keyed *sorted = sort_keyed(space, space + n, n);
        for (int64_t i = 0; i < n; i++) order[i] = sorted[i].row;
        Py_END_ALLOW_THREADS
    }
    PyMem_Free(space);
    if (!release(all, wrong)) return NULL;
    if (!made) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"rank_order", py_rank_order, METH_VARARGS, "Rows by descending score, positives first."},
    {"draw", py_draw, METH_VARARGS, "Multinomial counts of one stratum for 64 resamples."},
    {"redraw", py_redraw, METH_VARARGS, "Counts of group members, given counts of groups."},
    {"rank", py_rank, METH_VARARGS, "Average precision, ROC-AUC and class totals."},
    {"recall", py_recall, METH_VARARGS, "Largest recall at a bounded false-positive rate."},
    {"sums", py_sums, METH_VARARGS, "Weighted sums per bin: positives, negatives, columns."},
    {"masses", py_masses, METH_VARARGS, "Positives and score sums among the top rows."},
    {"instruction_sets", py_instruction_sets, METH_NOARGS, "Names this machine can run."},
    {"use", py_use, METH_O, "Choose an instruction set by name (tests)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "Bootstrap kernel; see eval_toolkit._kernel.", -1,
    methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    chosen = &available[n_supported() - 1];
    return PyModule_Create(&module);
}

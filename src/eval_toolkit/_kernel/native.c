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

#include "draws.h"

#define PREFETCH_AHEAD 16 /* index arrays end with this many spare entries */
#define N_COMPARED 6 /* thresholds that all codes are compared with; few reach the last of them */
#define TOP_UP_BATCH 32   /* even: one hash serves two draws */
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
        while (missing < 0) { /* accept with probability count / 32: every draw equally likely */
            uint64_t bits = mix64(state += GAMMA);
            int64_t unit = start + below(bits & 0xFFFFFFFFu, n);
            uint8_t *count = counts + (position ? (int64_t)position[unit] : unit) * LANES + l;
            if (((bits >> 32) & 31) < *count) {
                --*count;
                missing++;
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

static int wrong_size(const char *what) {
    PyErr_Format(PyExc_ValueError, "kernel: buffer `%s` has the wrong size", what);
    return -1;
}

/* ---- Python functions: parse, check sizes, run without the GIL, release ------------------- */

static PyObject *py_draw(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer counts, thresholds, residual, order, position;
    unsigned long long seed, first;
    Py_ssize_t start, stop;
    if (!PyArg_ParseTuple(args, "w*KKnny*y*z*z*", &counts, &seed, &first, &start, &stop,
                          &thresholds, &residual, &order, &position))
        return NULL;
    int largest = -1;
    if (start < 0 || stop <= start || stop > INT32_MAX || counts.len < stop * LANES)
        wrong_size("counts");
    else if (thresholds.len != N_THRESHOLDS * 2 || residual.len != N_RESIDUAL * 8)
        wrong_size("table");
    else if ((order.buf == NULL) != (position.buf == NULL) ||
             (order.buf && (order.len < stop * 4 || position.len < stop * 4)))
        wrong_size("order");
    else {
        Py_BEGIN_ALLOW_THREADS
        uint64_t keys[GROUPS];
        uint32_t totals[LANES];
        for (int g = 0; g < GROUPS; g++) keys[g] = stream_key(seed, (first >> 2) + (uint64_t)g);
        largest = chosen->fill(start, stop, order.buf, keys, thresholds.buf, residual.buf,
                               counts.buf, totals);
        largest = top_up(start, stop - start, seed, first, position.buf, counts.buf, totals,
                         largest);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&counts);
    PyBuffer_Release(&thresholds);
    PyBuffer_Release(&residual);
    PyBuffer_Release(&order);
    PyBuffer_Release(&position);
    return largest < 0 ? NULL : PyLong_FromLong(largest);
}

static PyObject *py_redraw(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer counts, group_counts, offsets;
    unsigned long long seed, first;
    if (!PyArg_ParseTuple(args, "w*y*y*KK", &counts, &group_counts, &offsets, &seed, &first))
        return NULL;
    int largest = -1;
    Py_ssize_t n_groups = offsets.len / 8 - 1;
    if (n_groups < 1 || group_counts.len != n_groups * LANES ||
        counts.len != ((const int64_t *)offsets.buf)[n_groups] * LANES)
        wrong_size("counts");
    else {
        Py_BEGIN_ALLOW_THREADS
        largest = redraw(group_counts.buf, offsets.buf, n_groups, seed, first, counts.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&counts);
    PyBuffer_Release(&group_counts);
    PyBuffer_Release(&offsets);
    return largest < 0 ? NULL : PyLong_FromLong(largest);
}

/* Rows a layout walks over: the index's length without its spare entries, or the units. */
static Py_ssize_t rows_walked(const Py_buffer *counts, const Py_buffer *index) {
    return index->buf ? index->len / 4 - PREFETCH_AHEAD : counts->len / LANES;
}

static PyObject *py_rank(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer out, counts, segments, index;
    int largest, ok = 0;
    Py_ssize_t n_trailing;
    if (!PyArg_ParseTuple(args, "w*y*iy*nz*", &out, &counts, &largest, &segments, &n_trailing,
                          &index))
        return NULL;
    const int32_t *segment = segments.buf;
    Py_ssize_t n_segments = segments.len / 12, rows = n_trailing;
    for (Py_ssize_t i = 0; i < 3 * n_segments; i++) rows += segment[i];
    if (out.len != 4 * LANES * 8)
        wrong_size("out");
    else if (rows != rows_walked(&counts, &index))
        wrong_size("segments");
    else {
        Py_BEGIN_ALLOW_THREADS
        chosen->rank(counts.buf, chunk_of(largest), segment, n_segments, n_trailing, index.buf,
                     out.buf);
        Py_END_ALLOW_THREADS
        ok = 1;
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&segments);
    PyBuffer_Release(&index);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_recall(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer out, counts, segments, index, totals;
    double target;
    int largest, ok = 0;
    if (!PyArg_ParseTuple(args, "w*y*iy*z*y*d", &out, &counts, &largest, &segments, &index,
                          &totals, &target))
        return NULL;
    const int32_t *segment = segments.buf;
    Py_ssize_t n_segments = segments.len / 12, rows = 0;
    for (Py_ssize_t i = 0; i < 3 * n_segments; i++) rows += segment[i];
    if (out.len != LANES * 8 || totals.len != 2 * LANES * 8)
        wrong_size("out");
    else if (rows > rows_walked(&counts, &index))
        wrong_size("segments");
    else {
        const double *total = totals.buf;
        Py_BEGIN_ALLOW_THREADS
        chosen->recall(counts.buf, chunk_of(largest), segment, n_segments, index.buf, total,
                       total + LANES, target, out.buf);
        Py_END_ALLOW_THREADS
        ok = 1;
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&segments);
    PyBuffer_Release(&index);
    PyBuffer_Release(&totals);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_sums(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer out, counts, labels, columns, cuts, index;
    int largest, ok = 0;
    if (!PyArg_ParseTuple(args, "w*y*iy*y*y*z*", &out, &counts, &largest, &labels, &columns, &cuts,
                          &index))
        return NULL;
    Py_ssize_t n = labels.len, n_cuts = cuts.len / 8, n_columns = n ? columns.len / 8 / n : 0;
    const int64_t *cut = cuts.buf;
    if (n != rows_walked(&counts, &index) || columns.len != n * n_columns * 8)
        wrong_size("columns");
    else if (n_cuts < 1 || cut[n_cuts - 1] != n || out.len != n_cuts * (2 + n_columns) * LANES * 8)
        wrong_size("out");
    else {
        Py_BEGIN_ALLOW_THREADS
        chosen->sums(counts.buf, chunk_of(largest), labels.buf, columns.buf, n_columns, cut, n_cuts, index.buf,
                     out.buf);
        Py_END_ALLOW_THREADS
        ok = 1;
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&columns);
    PyBuffer_Release(&cuts);
    PyBuffer_Release(&index);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_masses(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer out, counts, labels, scores, group_ends, cuts, index;
    int ok = 0;
    if (!PyArg_ParseTuple(args, "w*y*y*y*y*y*z*", &out, &counts, &labels, &scores, &group_ends,
                          &cuts, &index))
        return NULL;
    Py_ssize_t n = labels.len, n_cuts = cuts.len / (LANES * 8);
    if (n != rows_walked(&counts, &index) || scores.len != n * 8 || group_ends.len != n)
        wrong_size("scores");
    else if (n_cuts < 1 || cuts.len != n_cuts * LANES * 8 || out.len != n_cuts * 2 * LANES * 8)
        wrong_size("out");
    else {
        Py_BEGIN_ALLOW_THREADS
        chosen->masses(counts.buf, labels.buf, scores.buf, group_ends.buf, n, cuts.buf, n_cuts,
                       index.buf, out.buf);
        Py_END_ALLOW_THREADS
        ok = 1;
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    PyBuffer_Release(&group_ends);
    PyBuffer_Release(&cuts);
    PyBuffer_Release(&index);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_rank_order(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer out, labels, scores;
    int ok = 0;
    if (!PyArg_ParseTuple(args, "w*y*y*", &out, &labels, &scores)) return NULL;
    Py_ssize_t n = labels.len;
    keyed *space = NULL;
    if (scores.len != n * 8 || out.len != n * 8)
        wrong_size("scores");
    else if (!(space = PyMem_Malloc((size_t)n * 2 * sizeof *space)))
        PyErr_NoMemory();
    else {
        const uint8_t *label = labels.buf;
        const double *score = scores.buf;
        int64_t *order = out.buf, filled = 0;
        Py_BEGIN_ALLOW_THREADS
        for (int positive = 1; positive >= 0; positive--) /* positives first within ties */
            for (int64_t i = 0; i < n; i++)
                if ((label[i] != 0) == positive) space[filled++] = (keyed){descending_key(score[i]), i};
        const keyed *sorted = sort_keyed(space, space + n, n);
        for (int64_t i = 0; i < n; i++) order[i] = sorted[i].row;
        Py_END_ALLOW_THREADS
        ok = 1;
    }
    PyMem_Free(space);
    PyBuffer_Release(&out);
    PyBuffer_Release(&labels);
    PyBuffer_Release(&scores);
    if (!ok) return NULL;
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

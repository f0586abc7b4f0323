/* Near-duplicate kernel: texts to MinHash band keys, and band keys to verified pairs.
 *
 * A text is the set of its n-grams of code points, each hashed to 32 bits. Texts that agree in all
 * minima of a band share a bucket; every pair of a bucket is compared by bitmaps (a safe filter)
 * and then exactly, by merging the sorted gram sets. A pair is looked at in the first band it
 * shares, so no set of seen pairs is kept. A bucket of more than `limit` texts is compared with
 * the clusters found so far instead of pairwise, and the caller is told.
 *
 * All pairs of n near-identical texts are n^2 / 2; callers who need less say so (`task`, `kinds`)
 * and get at most a few pairs per text, in time that grows with n.
 *
 * Limited API, buffers only, no GIL around the loops, as in native.c. neardup_numpy.py implements
 * the same functions and finds the same pairs; change both or neither.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "draws.h"

#define BITMAP_WORDS 8 /* 512 bits: one cache line per text */
#define BASE UINT64_C(0xF1357AEA2E62A9C5) /* of the polynomial over code points */
#define SMALL_SORT 48
#define REACH_BLOCK 256 /* references looked at before asking whether one was found */

#if defined(__GNUC__) && defined(__x86_64__)
#define X86_DISPATCH 1
#else
#define X86_DISPATCH 0
#endif

/* For machines without the instruction; compilers' own replacement is a call per word. */
ALWAYS_INLINE int count_bits(uint64_t v) {
    v -= (v >> 1) & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + ((v >> 2) & UINT64_C(0x3333333333333333));
    v = (v + (v >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (int)((v * UINT64_C(0x0101010101010101)) >> 56);
}

#define ISA(name) name##_base
#define POPCOUNT(v) count_bits(v)
#define STRIP 16
#include "sketches.h"
#undef STRIP
#undef POPCOUNT
#undef ISA

#if X86_DISPATCH
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,popcnt")
#endif
#define ISA(name) name##_avx2
#define POPCOUNT(v) __builtin_popcountll(v)
#define STRIP 32
#include "sketches.h"
#undef STRIP
#undef ISA
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,popcnt,prefer-vector-width=512")
#endif
#define ISA(name) name##_avx512
#define STRIP 64
#include "sketches.h"
#undef STRIP
#undef POPCOUNT
#undef ISA
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

typedef struct {
    const char *name;
    void (*minima)(const uint32_t *, int64_t, const uint32_t *, int64_t, uint32_t *);
    int64_t (*plausible)(const uint64_t *, const uint32_t *, uint32_t, const uint32_t *, int64_t,
                         double, uint32_t *);
    int (*met_before)(const uint32_t *, const uint32_t *, int64_t);
} loops;

#define LOOPS(label, isa) {label, minima_##isa, plausible_##isa, met_before_##isa}

static const loops available[] = {
    LOOPS("base", base),
#if X86_DISPATCH
    LOOPS("avx2", avx2),
    LOOPS("avx512", avx512),
#endif
};
static const loops *chosen = &available[0];

#include "dispatch.h"

/* Memory for n entries, never of size 0; NULL when it is out. */
static void *space(int64_t n, size_t size) {
    return (uint64_t)n < PTRDIFF_MAX / size ? malloc(((size_t)n + 1) * size) : NULL;
}

/* ---- Texts to grams ----------------------------------------------------------------------- */

typedef struct {
    const uint8_t *data;   /* all texts, one after the other */
    const int64_t *starts; /* in bytes; one more than there are texts */
    const uint8_t *wide;   /* 1: four bytes per code point, 0: ASCII */
    int64_t n_texts;
    int64_t n; /* code points per gram */
} corpus;

ALWAYS_INLINE uint64_t code_point(const uint8_t *text, int64_t i, int wide) {
    if (!wide) return text[i];
    const uint8_t *at = text + 4 * i; /* little-endian, and not aligned */
    return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
}

static int64_t length_of(const corpus *c, int64_t i) {
    int64_t bytes = c->starts[i + 1] - c->starts[i];
    return c->wide[i] ? bytes / 4 : bytes;
}

/* Grams of a text, with repetitions: as many as it has windows, or one for a shorter text. */
static int64_t n_windows(const corpus *c, int64_t i) {
    int64_t length = length_of(c, i);
    return length > c->n ? length - c->n + 1 : length > 0;
}

/* A rolling polynomial over code points, each window then mixed to 32 bits. */
static int64_t hash_grams(const corpus *c, int64_t i, uint64_t *scratch, uint32_t *out) {
    const uint8_t *text = c->data + c->starts[i];
    int wide = c->wide[i];
    int64_t length = length_of(c, i), windows = n_windows(c, i);
    int64_t n = length < c->n ? length : c->n;
    uint64_t hash = 0, leaving = 1;
    for (int64_t j = 0; j < n; j++) {
        hash = hash * BASE + code_point(text, j, wide) + 1;
        leaving *= BASE;
    }
    for (int64_t j = 0; j < windows; j++) {
        scratch[j] = hash;
        if (j + 1 < windows)
            hash = hash * BASE + code_point(text, j + n, wide) + 1 -
                   leaving * (code_point(text, j, wide) + 1);
    }
    uint64_t offset = (uint64_t)n * GAMMA; /* a short text is no window of a longer one */
    for (int64_t j = 0; j < windows; j++) out[j] = (uint32_t)(mix64(scratch[j] + offset) >> 32);
    return windows;
}

static int64_t most_windows(const corpus *c) {
    int64_t most = 1;
    for (int64_t i = 0; i < c->n_texts; i++) {
        int64_t windows = n_windows(c, i);
        most = windows > most ? windows : most;
    }
    return most;
}

typedef struct {
    uint32_t *keys;    /* n_texts x bands; 0: not in a bucket */
    uint64_t *bitmaps; /* n_texts x BITMAP_WORDS */
    uint32_t *counts;  /* grams with repetitions */
} sketches;

static int make_sketches(const corpus *c, const uint32_t *multipliers, int64_t n_hashes,
                         const uint64_t *weights, int64_t rows, int64_t bands, sketches out) {
    int64_t most = most_windows(c);
    uint64_t *scratch = space(most, 8);
    uint32_t *grams = space(most, 4), *least = space(n_hashes, 4);
    int ok = scratch && grams && least;
    for (int64_t i = 0; ok && i < c->n_texts; i++) {
        int64_t windows = hash_grams(c, i, scratch, grams);
        uint32_t *key = out.keys + i * bands;
        uint64_t *bitmap = out.bitmaps + i * BITMAP_WORDS;
        out.counts[i] = windows > UINT32_MAX ? UINT32_MAX : (uint32_t)windows;
        memset(bitmap, 0, BITMAP_WORDS * 8);
        memset(key, 0, (size_t)bands * 4);
        if (!windows) continue;
        for (int64_t j = 0; j < windows; j++)
            bitmap[(grams[j] >> 6) % BITMAP_WORDS] |= UINT64_C(1) << (grams[j] & 63);
        chosen->minima(grams, windows, multipliers, n_hashes, least);
        for (int64_t b = 0; b < bands; b++) {
            uint64_t sum = 0;
            for (int64_t r = 0; r < rows; r++) sum += weights[r] * least[b * rows + r];
            uint32_t hashed = (uint32_t)(mix64(sum) >> 32);
            key[b] = hashed ? hashed : 1;
        }
    }
    free(scratch);
    free(grams);
    free(least);
    return ok;
}

/* ---- Gram sets, made when first compared -------------------------------------------------- */

typedef struct {
    uint32_t *grams; /* sorted, distinct; NULL: not made yet */
    int64_t size;
} gram_set;

typedef struct {
    const corpus *texts;
    gram_set *sets;
    uint64_t *scratch;
    uint32_t *grams, *swap;
} gram_sets;

static void sort_grams(uint32_t *grams, int64_t n, uint32_t *swap) {
    if (n <= SMALL_SORT) {
        for (int64_t i = 1; i < n; i++) {
            uint32_t value = grams[i];
            int64_t j = i;
            for (; j > 0 && grams[j - 1] > value; j--) grams[j] = grams[j - 1];
            grams[j] = value;
        }
        return;
    }
    for (int shift = 0; shift < 32; shift += 8) { /* an even number of passes ends in `grams` */
        int64_t place[257] = {0};
        for (int64_t i = 0; i < n; i++) place[((grams[i] >> shift) & 255) + 1]++;
        for (int d = 0; d < 256; d++) place[d + 1] += place[d];
        for (int64_t i = 0; i < n; i++) swap[place[(grams[i] >> shift) & 255]++] = grams[i];
        uint32_t *other = grams;
        grams = swap;
        swap = other;
    }
}

/* NULL when memory is out. */
static const gram_set *set_of(gram_sets *all, uint32_t x) {
    gram_set *set = &all->sets[x];
    if (set->grams) return set;
    int64_t n = hash_grams(all->texts, x, all->scratch, all->grams), distinct = 0;
    sort_grams(all->grams, n, all->swap);
    for (int64_t i = 0; i < n; i++)
        if (!i || all->grams[i] != all->grams[i - 1]) all->grams[distinct++] = all->grams[i];
    set->grams = space(distinct, 4);
    if (!set->grams) return NULL;
    memcpy(set->grams, all->grams, (size_t)distinct * 4);
    set->size = distinct;
    return set;
}

static int64_t n_common(const gram_set *a, const gram_set *b) {
    int64_t i = 0, j = 0, common = 0;
    while (i < a->size && j < b->size) { /* no branch to mispredict */
        uint32_t x = a->grams[i], y = b->grams[j];
        common += x == y;
        i += x <= y;
        j += y <= x;
    }
    return common;
}

/* ---- Buckets to pairs --------------------------------------------------------------------- */

typedef struct {
    uint32_t left, right;
    double similarity;
} pair;

enum {
    ALL_PAIRS = 0,
    CONNECT = 1, /* pairs that connect each cluster, at most one less than there are texts */
    FIRST_KEPT = 2 /* texts in order: (kept, dropped), the first kept text that each resembles */
};

typedef struct {
    const corpus *texts;
    sketches sketch;
    gram_sets sets;
    int64_t bands, boundary, limit, task;
    const uint8_t *kinds; /* bits per reference; then one similar reference per bit is enough */
    uint8_t every_kind;
    uint8_t *reached; /* bits of the references found for each query */
    double threshold, share;
    uint32_t *parent;        /* union-find over the pairs found */
    uint32_t *first_similar; /* the first text known to resemble a text, or itself */
    pair *pairs;
    int64_t n_pairs, capacity;
    int complete, out_of_memory;
} join;

static uint32_t root_of(uint32_t *parent, uint32_t x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
}

static int keep_pair(join *j, uint32_t left, uint32_t right, double similarity) {
    uint32_t a = root_of(j->parent, left), b = root_of(j->parent, right);
    if (j->task == CONNECT && a == b) return 1;
    if (j->n_pairs == j->capacity) {
        int64_t capacity = j->capacity ? 2 * j->capacity : 4096;
        pair *grown = (uint64_t)capacity <= PTRDIFF_MAX / sizeof(pair)
                          ? realloc(j->pairs, (size_t)capacity * sizeof(pair))
                          : NULL;
        if (!grown) return 0;
        j->pairs = grown;
        j->capacity = capacity;
    }
    j->pairs[j->n_pairs++] = (pair){left, right, similarity};
    j->parent[a > b ? a : b] = a > b ? b : a;
    if (left < j->first_similar[right]) j->first_similar[right] = left;
    return 1;
}

/* Keep the pair if its texts are similar enough; 1 if so. */
static int64_t verify(join *j, uint32_t left, uint32_t right) {
    const gram_set *a = set_of(&j->sets, left), *b = set_of(&j->sets, right);
    if (!a || !b) {
        j->out_of_memory = 1;
        return 0;
    }
    int64_t common = n_common(a, b);
    double similarity = (double)common / (double)(a->size + b->size - common);
    if (!(similarity >= j->threshold)) return 0; /* two empty sets: 0 / 0 */
    if (!keep_pair(j, left, right, similarity)) j->out_of_memory = 1;
    return 1;
}

/* Compare one text with others of its bucket; stop after `enough` similar ones (0: never). */
static int64_t compare(join *j, int64_t band, uint32_t x, const uint32_t *others, int64_t n,
                       int64_t enough, uint32_t *scratch) {
    const uint32_t *keys = j->sketch.keys, *own = keys + (size_t)x * (size_t)j->bands;
    int64_t similar = 0;
    n = chosen->plausible(j->sketch.bitmaps, j->sketch.counts, x, others, n, j->share, scratch);
    for (int64_t i = 0; i < n && !j->out_of_memory; i++) {
        uint32_t y = scratch[i];
        if (chosen->met_before(own, keys + (size_t)y * (size_t)j->bands, band)) continue;
        similar += x < y ? verify(j, x, y) : verify(j, y, x);
        if (enough && similar >= enough) {
            j->complete = 0;
            j->sketch.keys[(size_t)x * (size_t)j->bands + (size_t)band] = 0;
            break;
        }
    }
    return similar;
}

/* One query with references: the first similar one of each kind that it has not reached yet. */
static void reach(join *j, int64_t band, uint32_t x, const uint32_t *others, int64_t n,
                  uint32_t *scratch, uint32_t *chosen_others) {
    const uint32_t *keys = j->sketch.keys, *own = keys + (size_t)x * (size_t)j->bands;
    for (int64_t begin = 0; begin < n && j->reached[x] != j->every_kind; begin += REACH_BLOCK) {
        int64_t end = begin + REACH_BLOCK < n ? begin + REACH_BLOCK : n, wanted = 0;
        for (int64_t i = begin; i < end; i++)
            if (j->kinds[others[i]] & ~j->reached[x]) chosen_others[wanted++] = others[i];
        wanted = chosen->plausible(j->sketch.bitmaps, j->sketch.counts, x, chosen_others, wanted,
                                   j->share, scratch);
        for (int64_t i = 0; i < wanted && !j->out_of_memory; i++) {
            uint32_t y = scratch[i];
            if (!(j->kinds[y] & ~j->reached[x]) ||
                chosen->met_before(own, keys + (size_t)y * (size_t)j->bands, band))
                continue;
            if (verify(j, x, y)) j->reached[x] |= j->kinds[y];
        }
    }
}

/* Queries (the ids below the boundary, which come first) with references. Every query of a large
 * bucket gets `limit` similar references, if there are so many. */
static void join_across(join *j, int64_t band, const uint32_t *ids, int64_t n, uint32_t *scratch,
                        uint32_t *others) {
    int64_t queries = 0;
    while (queries < n && ids[queries] < j->boundary) queries++;
    int64_t references = n - queries;
    if (!references) return;
    int64_t enough = queries > j->limit * j->limit / references ? j->limit : 0;
    for (int64_t i = 0; i < queries; i++)
        if (j->kinds)
            reach(j, band, ids[i], ids + queries, references, scratch, others);
        else
            compare(j, band, ids[i], ids + queries, references, enough, scratch);
}

/* A large bucket: each text is compared with the representatives of the clusters in it, and
 * represents a cluster of its own if none is similar. Left out are representatives of the text's
 * own cluster if it is known to resemble them or an earlier text: that keeps clusters connected
 * and links nearly every text to the first one it resembles. */
static void join_clusters(join *j, int64_t band, const uint32_t *ids, int64_t n,
                          uint32_t *scratch, uint32_t *representatives, uint32_t *others) {
    int64_t known = 0;
    for (int64_t i = 0; i < n && !j->out_of_memory; i++) {
        uint32_t x = ids[i], root = root_of(j->parent, x);
        int64_t n_others = 0;
        for (int64_t r = 0; r < known; r++)
            if (j->first_similar[x] > representatives[r] ||
                root_of(j->parent, representatives[r]) != root)
                others[n_others++] = representatives[r];
        int64_t similar = compare(j, band, x, others, n_others, 0, scratch);
        if (n_others == known && !similar) representatives[known++] = x;
    }
    if (known < n) j->complete = 0;
    for (int64_t i = 0; i < n; i++) j->sketch.keys[(size_t)ids[i] * (size_t)j->bands + (size_t)band] = 0;
}

/* CONNECT, a bucket of any size. Up to the limit all pairs matter that are not connected yet; in a
 * larger one each text is compared with representatives, and is one itself if it resembles none.
 * Which pairs are kept depends on the order, which texts are connected does not. */
static void join_connected(join *j, int64_t band, const uint32_t *ids, int64_t n,
                           uint32_t *scratch, uint32_t *representatives) {
    int large = n > j->limit;
    const uint32_t *keys = j->sketch.keys;
    uint32_t first = root_of(j->parent, ids[0]);
    int64_t known = 0, i = 1;
    while (!large && i < n && root_of(j->parent, ids[i]) == first) i++;
    if (i == n) return; /* all connected */
    for (i = 0; i < n && !j->out_of_memory; i++) {
        uint32_t x = ids[i];
        const uint32_t *own = keys + (size_t)x * (size_t)j->bands;
        int64_t similar = 0;
        int64_t m = chosen->plausible(j->sketch.bitmaps, j->sketch.counts, x,
                                      large ? representatives : ids, large ? known : i, j->share,
                                      scratch);
        for (int64_t k = 0; k < m && !j->out_of_memory; k++) {
            uint32_t y = scratch[k];
            if ((similar || !large) && root_of(j->parent, x) == root_of(j->parent, y)) continue;
            if (!large && chosen->met_before(own, keys + (size_t)y * (size_t)j->bands, band))
                continue;
            similar += x < y ? verify(j, x, y) : verify(j, y, x);
        }
        if (large && !similar) representatives[known++] = x;
    }
    for (i = 0; large && i < n; i++)
        j->sketch.keys[(size_t)ids[i] * (size_t)j->bands + (size_t)band] = 0;
}

/* Stable sort of the texts of one band by key: ids come out ascending within a key. */
static int64_t sort_band(const join *j, int64_t band, uint64_t *entries, uint64_t *swap) {
    int64_t n = 0;
    for (int64_t i = 0; i < j->texts->n_texts; i++) {
        uint32_t key = j->sketch.keys[i * j->bands + band];
        entries[n] = (uint64_t)key << 32 | (uint64_t)i;
        n += key != 0;
    }
    for (int shift = 32; shift < 64; shift += 8) { /* an even number of passes: back in `entries` */
        int64_t place[257] = {0};
        for (int64_t i = 0; i < n; i++) place[((entries[i] >> shift) & 255) + 1]++;
        for (int d = 0; d < 256; d++) place[d + 1] += place[d];
        for (int64_t i = 0; i < n; i++) swap[place[(entries[i] >> shift) & 255]++] = entries[i];
        uint64_t *other = entries;
        entries = swap;
        swap = other;
    }
    return n;
}

/* One band: the buckets up to the limit first, then the large ones, both in order of their key. */
static void join_band(join *j, int64_t band, uint64_t *entries, uint64_t *swap, uint32_t *ids,
                      uint32_t *scratch, uint32_t *representatives, uint32_t *others) {
    int64_t n = sort_band(j, band, entries, swap);
    for (int64_t i = 0; i < n; i++) ids[i] = (uint32_t)entries[i];
    for (int large = 0; large < 2; large++) {
        for (int64_t start = 0, end; start < n && !j->out_of_memory; start = end) {
            for (end = start + 1; end < n && entries[end] >> 32 == entries[start] >> 32;) end++;
            int64_t size = end - start;
            if (size == 1 || (j->boundary < 0 && size > j->limit) != large) continue;
            if (j->task == CONNECT)
                join_connected(j, band, ids + start, size, scratch, representatives);
            else if (large)
                join_clusters(j, band, ids + start, size, scratch, representatives, others);
            else if (j->boundary >= 0)
                join_across(j, band, ids + start, size, scratch, others);
            else
                for (int64_t i = 0; i < size; i++)
                    compare(j, band, ids[start + i], ids + start + i + 1, size - i - 1, 0,
                            scratch);
        }
        if (j->boundary >= 0) break;
    }
}

/* ---- FIRST_KEPT: texts one by one, compared with the kept ones that share a bucket ---------- */

typedef struct {
    int64_t *starts;  /* of each bucket in `members` */
    uint32_t *filled; /* kept texts in each bucket so far */
    uint32_t *members;
    int64_t n_buckets, capacity, n_members;
} bucket_index;

/* Turn the keys into numbers of buckets, from 1; a text that is alone in its bucket has 0. */
static int number_buckets(join *j, bucket_index *index, uint64_t *entries, uint64_t *swap) {
    for (int64_t band = 0; band < j->bands; band++) {
        int64_t n = sort_band(j, band, entries, swap);
        for (int64_t start = 0, end; start < n; start = end) {
            for (end = start + 1; end < n && entries[end] >> 32 == entries[start] >> 32;) end++;
            uint32_t number = 0;
            if (end - start > 1) {
                if (index->n_buckets + 1 >= index->capacity) {
                    int64_t capacity = 2 * index->capacity + 1024;
                    int64_t *grown = (uint64_t)capacity <= PTRDIFF_MAX / 8 && capacity <= UINT32_MAX
                                         ? realloc(index->starts, (size_t)capacity * 8)
                                         : NULL;
                    if (!grown) return 0;
                    index->starts = grown;
                    index->capacity = capacity;
                }
                number = (uint32_t)++index->n_buckets;
                index->starts[number] = index->n_members;
                index->n_members += end - start;
            }
            for (int64_t i = start; i < end; i++)
                j->sketch.keys[(size_t)(uint32_t)entries[i] * (size_t)j->bands + (size_t)band] = number;
        }
    }
    index->filled = calloc((size_t)index->n_buckets + 1, 4);
    index->members = space(index->n_members, 4);
    return index->filled && index->members;
}

/* The kept texts that share a bucket with text x, ascending. `seen` tells them apart. */
static int64_t kept_beside(const join *j, const bucket_index *index, uint32_t x, uint32_t *seen,
                           uint32_t *out, uint32_t *scratch) {
    const uint32_t *own = j->sketch.keys + (size_t)x * (size_t)j->bands;
    int64_t n = 0;
    for (int64_t b = 0; b < j->bands; b++) {
        const uint32_t *members = own[b] ? index->members + index->starts[own[b]] : NULL;
        for (uint32_t i = 0; members && i < index->filled[own[b]]; i++) {
            if (seen[members[i]] == x) continue;
            seen[members[i]] = x;
            out[n++] = members[i];
        }
    }
    n = chosen->plausible(j->sketch.bitmaps, j->sketch.counts, x, out, n, j->share, scratch);
    memcpy(out, scratch, (size_t)n * 4);
    sort_grams(out, n, scratch);
    return n;
}

static void join_first_kept(join *j, uint64_t *entries, uint64_t *swap, uint32_t *seen,
                            uint32_t *scratch, uint32_t *others) {
    bucket_index index = {0};
    if (!number_buckets(j, &index, entries, swap)) j->out_of_memory = 1;
    for (int64_t i = 0; i < j->texts->n_texts; i++) seen[i] = UINT32_MAX;
    for (int64_t i = 0; i < j->texts->n_texts && !j->out_of_memory; i++) {
        uint32_t x = (uint32_t)i;
        const uint32_t *own = j->sketch.keys + (size_t)x * (size_t)j->bands;
        int64_t n = kept_beside(j, &index, x, seen, others, scratch);
        int dropped = 0;
        for (int64_t k = 0; k < n && !dropped; k++) dropped = verify(j, others[k], x) != 0;
        if (dropped) { /* never compared again */
            free(j->sets.sets[x].grams);
            j->sets.sets[x].grams = NULL;
            continue;
        }
        for (int64_t b = 0; b < j->bands; b++)
            if (own[b]) index.members[index.starts[own[b]] + index.filled[own[b]]++] = x;
    }
    free(index.starts);
    free(index.filled);
    free(index.members);
}

static void join_bands(join *j) {
    int64_t n = j->texts->n_texts, most = most_windows(j->texts);
    uint64_t *entries = space(n, 8), *swap = space(n, 8);
    uint32_t *ids = space(n, 4), *scratch = space(n, 4);
    uint32_t *representatives = space(n, 4), *others = space(n, 4);
    j->parent = space(n, 4);
    j->first_similar = space(n, 4);
    j->reached = calloc((size_t)n + 1, 1);
    j->sets = (gram_sets){j->texts, calloc((size_t)n + 1, sizeof(gram_set)), space(most, 8),
                          space(most, 4), space(most, 4)};
    j->out_of_memory = !(entries && swap && ids && scratch && representatives && others &&
                         j->parent && j->first_similar && j->reached && j->sets.sets && j->sets.scratch &&
                         j->sets.grams && j->sets.swap);
    for (int64_t i = 0; i < n && !j->out_of_memory; i++)
        j->parent[i] = j->first_similar[i] = (uint32_t)i;
    if (j->task == FIRST_KEPT && !j->out_of_memory)
        join_first_kept(j, entries, swap, representatives, scratch, others);
    for (int64_t band = 0; j->task != FIRST_KEPT && band < j->bands && !j->out_of_memory; band++)
        join_band(j, band, entries, swap, ids, scratch, representatives, others);
    for (int64_t i = 0; j->sets.sets && i < n; i++) free(j->sets.sets[i].grams);
    free(j->sets.sets);
    free(j->sets.scratch);
    free(j->sets.grams);
    free(j->sets.swap);
    free(j->parent);
    free(j->first_similar);
    free(j->reached);
    free(entries);
    free(swap);
    free(ids);
    free(scratch);
    free(representatives);
    free(others);
}

/* ---- Python functions: parse, check, run without the GIL, release --------------------------- */

typedef struct {
    array keys, bitmaps, counts;
} sketch_arrays;

/* Texts that lie one after the other and fill the data; four bytes per code point where wide. */
static int corpus_from(char *wrong, const array *data, const array *starts, const array *wide,
                       Py_ssize_t n, corpus *out) {
    *out = (corpus){data->view.buf, starts->view.buf, wide->view.buf, wide->n, n};
    if (n < 1) return refuse(wrong, "kernel: `n` is %lld; it must be 1 or more", (long long)n);
    if (wide->n > UINT32_MAX) return wrong_size(wrong, wide);
    if (!holds(wrong, starts, wide->n + 1) || !ascend(wrong, starts, 0, data->n) ||
        !are_flags(wrong, wide))
        return 0;
    if (out->starts[0]) return wrong_entry(wrong, starts, 0, out->starts[0], "it must be 0");
    for (int64_t i = 0; i < wide->n; i++)
        if (out->wide[i] && (out->starts[i + 1] - out->starts[i]) % 4)
            return wrong_entry(wrong, starts, i + 1, out->starts[i + 1],
                               "the text before it has four bytes per code point");
    return 1;
}

/* One row of keys, one bitmap and one count per text. Returns the number of bands, or -1. */
static int64_t bands_of(char *wrong, const corpus *c, const sketch_arrays *s) {
    int64_t bands = c->n_texts ? s->keys.n / c->n_texts : 0;
    int fits = holds_product(wrong, &s->keys, bands, c->n_texts) &&
               holds_product(wrong, &s->bitmaps, c->n_texts, BITMAP_WORDS) &&
               holds(wrong, &s->counts, c->n_texts);
    return fits ? bands : -1;
}

static PyObject *py_sketches(PyObject *self, PyObject *args) {
    (void)self;
    array data = {"data", U8}, starts = {"starts", I64}, wide = {"wide", U8};
    array multipliers = {"multipliers", U32}, weights = {"weights", U64};
    sketch_arrays s = {{"keys", U32, .written = 1}, {"bitmaps", U64, .written = 1},
                       {"counts", U32, .written = 1}};
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "O&O&O&nO&O&O&O&O&", array_from, &data, array_from, &starts,
                          array_from, &wide, &n, array_from, &multipliers, array_from, &weights,
                          array_from, &s.keys, array_from, &s.bitmaps, array_from, &s.counts))
        return NULL;
    array *all[] = {&data, &starts, &wide, &multipliers, &weights, &s.keys, &s.bitmaps, &s.counts,
                    NULL};
    fault wrong = "";
    int enough_memory = 1;
    Py_BEGIN_ALLOW_THREADS
    corpus c;
    int64_t rows = weights.n, bands = -1;
    if (lie_apart(wrong, all) && corpus_from(wrong, &data, &starts, &wide, n, &c))
        bands = bands_of(wrong, &c, &s);
    if (!*wrong && !rows) wrong_size(wrong, &weights);
    if (!*wrong && (multipliers.n % 64 || bands > multipliers.n / rows))
        wrong_size(wrong, &multipliers);
    if (!*wrong) {
        sketches out = {s.keys.view.buf, s.bitmaps.view.buf, s.counts.view.buf};
        enough_memory = make_sketches(&c, multipliers.view.buf, multipliers.n, weights.view.buf,
                                      rows, bands, out);
    }
    Py_END_ALLOW_THREADS
    if (!release(all, wrong)) return NULL;
    if (!enough_memory) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* What the join is told besides arrays. */
static int is_join(char *wrong, const join *j, const array *kinds) {
    int64_t n = j->texts->n_texts;
    if (kinds->n && kinds->n != n) return wrong_size(wrong, kinds);
    if (!(j->threshold >= 0.0 && j->threshold <= 1.0))
        return refuse(wrong, "kernel: `threshold` is %g; it must be from 0 to 1", j->threshold);
    if (j->boundary < -1 || j->boundary > n)
        return refuse(wrong, "kernel: `boundary` is %lld; it must be from -1 to %lld",
                      (long long)j->boundary, (long long)n);
    if (j->limit < 2 || j->limit > 1 << 20)
        return refuse(wrong, "kernel: `limit` is %lld; it must be from 2 to %d",
                      (long long)j->limit, 1 << 20);
    if (j->task < ALL_PAIRS || j->task > FIRST_KEPT)
        return refuse(wrong, "kernel: `task` is %lld; it must be from 0 to 2", (long long)j->task);
    return 1;
}

static PyObject *py_pairs(PyObject *self, PyObject *args) {
    (void)self;
    array data = {"data", U8}, starts = {"starts", I64}, wide = {"wide", U8}, kinds = {"kinds", U8};
    sketch_arrays s = {{"keys", U32, .written = 1}, {"bitmaps", U64}, {"counts", U32}};
    Py_ssize_t n, boundary, limit, task;
    double threshold;
    if (!PyArg_ParseTuple(args, "O&O&O&nO&O&O&dnnnO&", array_from, &data, array_from, &starts,
                          array_from, &wide, &n, array_from, &s.keys, array_from, &s.bitmaps,
                          array_from, &s.counts, &threshold, &boundary, &limit, &task, array_from,
                          &kinds))
        return NULL;
    array *all[] = {&data, &starts, &wide, &s.keys, &s.bitmaps, &s.counts, &kinds, NULL};
    fault wrong = "";
    corpus c;
    join j = {.texts = &c,
              .sketch = {s.keys.view.buf, s.bitmaps.view.buf, s.counts.view.buf},
              .boundary = boundary,
              .limit = limit,
              .task = task,
              .kinds = kinds.n ? kinds.view.buf : NULL,
              .threshold = threshold,
              .share = (1.0 - threshold) / (1.0 + threshold),
              .complete = 1};
    Py_BEGIN_ALLOW_THREADS
    if (lie_apart(wrong, all) && corpus_from(wrong, &data, &starts, &wide, n, &c) &&
        (j.bands = bands_of(wrong, &c, &s)) >= 0 && is_join(wrong, &j, &kinds)) {
        for (int64_t i = boundary < 0 ? 0 : boundary; j.kinds && i < c.n_texts; i++)
            j.every_kind |= j.kinds[i];
        join_bands(&j);
    }
    Py_END_ALLOW_THREADS
    PyObject *result = NULL;
    if (release(all, wrong)) {
        if (j.out_of_memory)
            PyErr_NoMemory();
        else
            result = Py_BuildValue("y#i", j.pairs ? (const char *)j.pairs : "",
                                   (Py_ssize_t)(j.n_pairs * (int64_t)sizeof(pair)), j.complete);
    }
    free(j.pairs);
    return result;
}

static PyMethodDef methods[] = {
    {"sketches", py_sketches, METH_VARARGS, "Band keys, bitmaps and gram counts of texts."},
    {"pairs", py_pairs, METH_VARARGS, "Verified pairs of the texts that share a bucket."},
    {"instruction_sets", py_instruction_sets, METH_NOARGS, "Names this machine can run."},
    {"use", py_use, METH_O, "Choose an instruction set by name (tests)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_neardup", "Near-duplicate kernel; see eval_toolkit._kernel.neardup.",
    -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__neardup(void) {
    chosen = &available[n_supported() - 1];
    return PyModule_Create(&module);
}

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
    uint64_t *scratch = malloc((size_t)most * 8);
    uint32_t *grams = malloc((size_t)most * 4), *least = malloc((size_t)n_hashes * 4);
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
    set->grams = malloc((size_t)(distinct ? distinct : 1) * 4);
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
        pair *grown = realloc(j->pairs, (size_t)capacity * sizeof(pair));
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
    if (similarity < j->threshold) return 0;
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
                    index->capacity = 2 * index->capacity + 1024;
                    int64_t *grown = realloc(index->starts, (size_t)index->capacity * 8);
                    if (!grown || index->capacity > UINT32_MAX) return 0;
                    index->starts = grown;
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
    index->members = malloc((size_t)index->n_members * 4 + 4);
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
    size_t n = (size_t)j->texts->n_texts, most = (size_t)most_windows(j->texts);
    uint64_t *entries = malloc(n * 8 + 8), *swap = malloc(n * 8 + 8);
    uint32_t *ids = malloc(n * 4 + 4), *scratch = malloc(n * 4 + 4);
    uint32_t *representatives = malloc(n * 4 + 4), *others = malloc(n * 4 + 4);
    j->parent = malloc(n * 4 + 4);
    j->first_similar = malloc(n * 4 + 4);
    j->reached = calloc(n + 1, 1);
    j->sets = (gram_sets){j->texts, calloc(n + 1, sizeof(gram_set)), malloc(most * 8),
                          malloc(most * 4), malloc(most * 4)};
    j->out_of_memory = !(entries && swap && ids && scratch && representatives && others &&
                         j->parent && j->first_similar && j->reached && j->sets.sets && j->sets.scratch &&
                         j->sets.grams && j->sets.swap);
    for (size_t i = 0; i < n && !j->out_of_memory; i++)
        j->parent[i] = j->first_similar[i] = (uint32_t)i;
    if (j->task == FIRST_KEPT && !j->out_of_memory)
        join_first_kept(j, entries, swap, representatives, scratch, others);
    for (int64_t band = 0; j->task != FIRST_KEPT && band < j->bands && !j->out_of_memory; band++)
        join_band(j, band, entries, swap, ids, scratch, representatives, others);
    for (size_t i = 0; j->sets.sets && i < n; i++) free(j->sets.sets[i].grams);
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

/* ---- Python functions: parse, check sizes, run without the GIL, release ------------------- */

typedef struct {
    Py_buffer data, starts, wide;
} corpus_buffers;

static int corpus_from(const corpus_buffers *b, Py_ssize_t n, corpus *out) {
    const int64_t *starts = b->starts.buf;
    int64_t n_texts = b->wide.len;
    int fits = n >= 1 && n_texts <= UINT32_MAX && b->starts.len == (n_texts + 1) * 8 &&
               starts[0] == 0 && starts[n_texts] == b->data.len;
    for (int64_t i = 0; fits && i < n_texts; i++) fits = starts[i] <= starts[i + 1];
    *out = (corpus){b->data.buf, starts, b->wide.buf, n_texts, n};
    if (!fits) PyErr_SetString(PyExc_ValueError, "kernel: buffer `starts` has the wrong size");
    return fits;
}

static void release_corpus(corpus_buffers *b) {
    PyBuffer_Release(&b->data);
    PyBuffer_Release(&b->starts);
    PyBuffer_Release(&b->wide);
}

static PyObject *py_sketches(PyObject *self, PyObject *args) {
    (void)self;
    corpus_buffers texts;
    Py_buffer multipliers, weights, keys, bitmaps, counts;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "y*y*y*ny*y*w*w*w*", &texts.data, &texts.starts, &texts.wide, &n,
                          &multipliers, &weights, &keys, &bitmaps, &counts))
        return NULL;
    corpus c;
    int ok = 0;
    if (corpus_from(&texts, n, &c)) {
        int64_t n_hashes = multipliers.len / 4, rows = weights.len / 8;
        int64_t bands = c.n_texts ? keys.len / 4 / c.n_texts : 0;
        if (n_hashes % 64 || !rows || bands * rows > n_hashes || keys.len != c.n_texts * bands * 4 ||
            bitmaps.len != c.n_texts * BITMAP_WORDS * 8 || counts.len != c.n_texts * 4)
            PyErr_SetString(PyExc_ValueError, "kernel: buffer `keys` has the wrong size");
        else {
            sketches out = {keys.buf, bitmaps.buf, counts.buf};
            Py_BEGIN_ALLOW_THREADS
            ok = make_sketches(&c, multipliers.buf, n_hashes, weights.buf, rows, bands, out);
            Py_END_ALLOW_THREADS
            if (!ok) PyErr_NoMemory();
        }
    }
    release_corpus(&texts);
    PyBuffer_Release(&multipliers);
    PyBuffer_Release(&weights);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&bitmaps);
    PyBuffer_Release(&counts);
    if (!ok) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_pairs(PyObject *self, PyObject *args) {
    (void)self;
    corpus_buffers texts;
    Py_buffer keys, bitmaps, counts, kinds;
    Py_ssize_t n, boundary, limit, task;
    double threshold;
    if (!PyArg_ParseTuple(args, "y*y*y*nw*y*y*dnnny*", &texts.data, &texts.starts, &texts.wide, &n,
                          &keys, &bitmaps, &counts, &threshold, &boundary, &limit, &task, &kinds))
        return NULL;
    corpus c;
    PyObject *result = NULL;
    if (corpus_from(&texts, n, &c)) {
        int64_t bands = c.n_texts ? keys.len / 4 / c.n_texts : 0;
        if (keys.len != c.n_texts * bands * 4 || bitmaps.len != c.n_texts * BITMAP_WORDS * 8 ||
            counts.len != c.n_texts * 4 || (kinds.len && kinds.len != c.n_texts) || limit < 2 ||
            limit > 1 << 20)
            PyErr_SetString(PyExc_ValueError, "kernel: buffer `keys` has the wrong size");
        else {
            join j = {.texts = &c,
                      .sketch = {keys.buf, bitmaps.buf, counts.buf},
                      .bands = bands,
                      .boundary = boundary,
                      .limit = limit,
                      .task = task,
                      .kinds = kinds.len ? kinds.buf : NULL,
                      .threshold = threshold,
                      .share = (1.0 - threshold) / (1.0 + threshold),
                      .complete = 1};
            for (int64_t i = boundary < 0 ? 0 : boundary; j.kinds && i < c.n_texts; i++)
                j.every_kind |= j.kinds[i];
            Py_BEGIN_ALLOW_THREADS
            join_bands(&j);
            Py_END_ALLOW_THREADS
            if (j.out_of_memory)
                PyErr_NoMemory();
            else
                result = Py_BuildValue("y#i", j.pairs ? (const char *)j.pairs : "",
                                       (Py_ssize_t)(j.n_pairs * (int64_t)sizeof(pair)), j.complete);
            free(j.pairs);
        }
    }
    release_corpus(&texts);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&bitmaps);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&kinds);
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

/* The hot loops of the near-duplicate kernel: MinHash and the comparison of bitmaps.
 *
 * neardup.c includes this file once per instruction set with a different ISA(name). All arithmetic
 * is on integers, so every instruction set gives identical bits.
 */

/* Smallest value of each permutation x -> multiplier * x mod 2^32 over the grams of one text.
 * `n_hashes` is a multiple of STRIP, whose minima stay in registers over all grams. */
static void ISA(minima)(const uint32_t *grams, int64_t n, const uint32_t *multipliers,
                        int64_t n_hashes, uint32_t *out) {
    for (int64_t strip = 0; strip < n_hashes; strip += STRIP) {
        uint32_t least[STRIP], factor[STRIP];
        for (int q = 0; q < STRIP; q++) least[q] = UINT32_MAX;
        for (int q = 0; q < STRIP; q++) factor[q] = multipliers[strip + q];
        for (int64_t i = 0; i < n; i++) {
            uint32_t x = grams[i];
            for (int q = 0; q < STRIP; q++) {
                uint32_t h = factor[q] * x;
                least[q] = h < least[q] ? h : least[q];
            }
        }
        for (int q = 0; q < STRIP; q++) out[strip + q] = least[q];
    }
}

/* The other texts that may still be as similar to text x as asked for. Bits in which the bitmaps
 * differ come from grams that only one text has: J >= t needs at most (1-t)/(1+t) * (|A|+|B|) of
 * those. `counts` are upper bounds of the set sizes, so nothing similar is lost. */
static int64_t ISA(plausible)(const uint64_t *bitmaps, const uint32_t *counts, uint32_t x,
                              const uint32_t *others, int64_t n, double share, uint32_t *out) {
    int64_t kept = 0;
    const uint64_t *a = bitmaps + (size_t)x * BITMAP_WORDS;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *b = bitmaps + (size_t)others[i] * BITMAP_WORDS;
        int differing = 0;
        for (int w = 0; w < BITMAP_WORDS; w++) differing += POPCOUNT(a[w] ^ b[w]);
        double allowed = share * ((double)counts[x] + (double)counts[others[i]]);
        out[kept] = others[i];
        kept += (double)differing <= allowed + 1e-6;
    }
    return kept;
}

/* Did two texts meet in one of the first bands already? A key of 0 meets nothing. */
static int ISA(met_before)(const uint32_t *a, const uint32_t *b, int64_t bands) {
    uint32_t met = 0;
    for (int64_t i = 0; i < bands; i++) met |= (uint32_t)((a[i] == b[i]) & (a[i] != 0));
    return met != 0;
}

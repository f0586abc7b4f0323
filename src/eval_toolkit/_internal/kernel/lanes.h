/* The hot loops, over 64 resamples ("lanes") at a time.
 *
 * native.c includes this file once per instruction set with a different ISA(name) and what else
 * differs between them (INVERT, WIDEN, STRIP or WIDE_REGISTERS); the rest is plain loops over lanes
 * that the compiler turns into vectors. All sums of counts are integers and each lane adds its
 * doubles in the same order everywhere, so SSE2, AVX2 and AVX-512 give identical bits.
 *
 * counts[unit][lane] is a uint8: how often the unit occurs in the resample.
 */

/* Poisson counts of units [start, stop) for 64 lanes by inversion of 16 random bits. Codes above
 * the last threshold compared are resolved block by block. Returns a bound on the counts. */
static int ISA(fill)(int64_t start, int64_t stop, const int32_t *order, const uint64_t *keys,
                     const uint16_t *thresholds, const double *residual, uint8_t *counts,
                     uint32_t *totals) {
    uint16_t t[N_THRESHOLDS];
    uint64_t key[GROUPS];
    uint32_t total[LANES] = {0};
    int largest = N_THRESHOLDS - 1; /* larger counts come from the escape alone */
    memcpy(t, thresholds, sizeof t);
    memcpy(key, keys, sizeof key);
    for (int64_t block = start; block < stop; block += 16) { /* 16 rows * 15 < 256 */
        int64_t end = block + 16 < stop ? block + 16 : stop;
        uint8_t *rows = counts + block * LANES;
        uint8_t seen[LANES] = {0}, block_total[LANES] = {0}, any = 0;
        for (int64_t i = block; i < end; i++) {
            uint64_t counter = ((order ? (uint64_t)order[i] : (uint64_t)i) + 1) * GAMMA;
            uint64_t hash[GROUPS];
            uint16_t bits[LANES];
            uint8_t *row = counts + i * LANES;
            for (int g = 0; g < GROUPS; g++) hash[g] = mix64(key[g] + counter);
            memcpy(bits, hash, sizeof bits);
            INVERT(row, bits, t);
            for (int l = 0; l < LANES; l++) seen[l] |= row[l];
        }
        for (int l = 0; l < LANES; l++) any |= seen[l];
        if (RARELY(any & N_THRESHOLDS)) {
            int top = resolve_escapes(rows, (end - block) * LANES, block, order, key, t, residual);
            largest = top > largest ? top : largest;
        }
        for (int64_t i = 0; i < (end - block) * LANES; i += LANES)
            for (int l = 0; l < LANES; l++) block_total[l] += rows[i + l];
        for (int l = 0; l < LANES; l++) total[l] += block_total[l];
    }
    memcpy(totals, total, sizeof total);
    return largest;
}

/* Add the rows [0, n) of counts (or those named by *index) into sum, through uint8 partial sums:
 * `chunk` rows of at most 255 / chunk each cannot overflow one. Advances the cursors. */
ALWAYS_INLINE void ISA(add_rows)(const uint8_t **rows, const int32_t **index, int gather,
                                 const uint8_t *counts, int64_t n, int64_t chunk, uint32_t *sum) {
    const uint8_t *row = *rows;
    const int32_t *at = *index;
    while (n > 0) {
        int64_t m = n < chunk ? n : chunk;
        uint8_t part[LANES];
        if (gather) {
            PREFETCH(counts + (int64_t)at[PREFETCH_AHEAD] * LANES);
            const uint8_t *head = counts + (int64_t)at[0] * LANES;
            for (int l = 0; l < LANES; l++) part[l] = head[l];
        } else {
            for (int l = 0; l < LANES; l++) part[l] = row[l];
            PREFETCH(row + PAGE);
            row += LANES;
        }
        for (int64_t i = 1; i < m; i++) {
            const uint8_t *next = row;
            if (gather) {
                PREFETCH(counts + (int64_t)at[i + PREFETCH_AHEAD] * LANES);
                next = counts + (int64_t)at[i] * LANES;
            } else {
                PREFETCH(row + PAGE);
                row += LANES;
            }
            for (int l = 0; l < LANES; l++) part[l] += next[l];
        }
        at += m;
        for (int l = 0; l < LANES; l++) sum[l] += part[l];
        n -= m;
    }
    *rows = row;
    *index = at;
}

/* Average precision and ROC-AUC of 64 resamples in one pass over the score-sorted rows.
 * A segment is (negatives above, positives, negatives tied with them); out is ap, auc, P, N. */
ALWAYS_INLINE void ISA(rank_body)(const uint8_t *counts, int64_t chunk, const int32_t *segments,
                                  int64_t n_segments, int64_t n_trailing, const int32_t *index,
                                  int gather, double *out) {
    double tp[LANES] = {0}, fp[LANES] = {0}, ap[LANES] = {0}, auc[LANES] = {0};
    const uint8_t *row = counts;
    const int32_t *at = index;
    for (int64_t s = 0; s < n_segments; s++, segments += 3) {
        uint32_t above[LANES] = {0}, positive[LANES] = {0};
        ISA(add_rows)(&row, &at, gather, counts, segments[0], chunk, above);
        ISA(add_rows)(&row, &at, gather, counts, segments[1], chunk, positive);
        if (segments[2]) {
            uint32_t tied[LANES] = {0};
            ISA(add_rows)(&row, &at, gather, counts, segments[2], chunk, tied);
            for (int l = 0; l < LANES; l++) {
                double e = above[l], f = tied[l], g = positive[l];
                auc[l] += e * tp[l] + f * (tp[l] + 0.5 * g);
                tp[l] += g;
                fp[l] += e + f;
                double seen = tp[l] + fp[l];
                ap[l] += g * tp[l] / (seen > 1.0 ? seen : 1.0);
            }
        } else {
            for (int l = 0; l < LANES; l++) {
                double e = above[l], g = positive[l];
                auc[l] += e * tp[l];
                tp[l] += g;
                fp[l] += e;
                double seen = tp[l] + fp[l];
                ap[l] += g * tp[l] / (seen > 1.0 ? seen : 1.0);
            }
        }
    }
    uint32_t below_all[LANES] = {0};
    ISA(add_rows)(&row, &at, gather, counts, n_trailing, chunk, below_all);
    for (int l = 0; l < LANES; l++) {
        auc[l] += (double)below_all[l] * tp[l];
        fp[l] += (double)below_all[l];
        out[l] = ap[l] / tp[l]; /* 0 / 0 is NaN: undefined, counted by the caller */
        out[LANES + l] = auc[l] / (tp[l] * fp[l]);
        out[2 * LANES + l] = tp[l];
        out[3 * LANES + l] = fp[l];
    }
}

static void ISA(rank)(const uint8_t *counts, int64_t chunk, const int32_t *segments,
                      int64_t n_segments, int64_t n_trailing, const int32_t *index, double *out) {
    if (index)
        ISA(rank_body)(counts, chunk, segments, n_segments, n_trailing, index, 1, out);
    else
        ISA(rank_body)(counts, chunk, segments, n_segments, n_trailing, index, 0, out);
}

/* Largest recall over thresholds whose false-positive rate is at most `target`; stops early. */
static void ISA(recall)(const uint8_t *counts, int64_t chunk, const int32_t *segments,
                        int64_t n_segments, const int32_t *index, const double *n_positive,
                        const double *n_negative, double target, double *out) {
    double tp[LANES] = {0}, fp[LANES] = {0}, best[LANES] = {0};
    const uint8_t *row = counts;
    const int32_t *at = index;
    int gather = index != NULL, alive = 1;
    for (int64_t s = 0; s < n_segments && alive; s++, segments += 3) {
        uint32_t negative[LANES] = {0}, positive[LANES] = {0};
        ISA(add_rows)(&row, &at, gather, counts, segments[0], chunk, negative);
        ISA(add_rows)(&row, &at, gather, counts, segments[1], chunk, positive);
        ISA(add_rows)(&row, &at, gather, counts, segments[2], chunk, negative);
        int any = 0;
        for (int l = 0; l < LANES; l++) {
            tp[l] += (double)positive[l];
            fp[l] += (double)negative[l];
            int allowed = fp[l] / n_negative[l] <= target;
            best[l] = allowed ? tp[l] : best[l];
            any |= allowed;
        }
        alive = any;
    }
    for (int l = 0; l < LANES; l++) out[l] = best[l] / n_positive[l];
}

/* Add m rows of counts, times the values of one or two columns, to their sums: last row first. */
#if WIDE_REGISTERS
ALWAYS_INLINE void ISA(add_products)(const uint8_t *const *rows, int64_t m, const double *x,
                                     const double *y, double *sum_x, double *sum_y) {
    double part_x[LANES], part_y[LANES];
    for (int l = 0; l < LANES; l++) part_x[l] = sum_x[l];
    for (int l = 0; y && l < LANES; l++) part_y[l] = sum_y[l];
    for (int64_t j = m - 1; j >= 0; j--) {
        double wide[LANES];
        WIDEN(wide, rows[j]);
        for (int l = 0; l < LANES; l++) part_x[l] += wide[l] * x[j];
        for (int l = 0; y && l < LANES; l++) part_y[l] += wide[l] * y[j];
    }
    for (int l = 0; l < LANES; l++) sum_x[l] = part_x[l];
    for (int l = 0; y && l < LANES; l++) sum_y[l] = part_y[l];
}
#else
ALWAYS_INLINE void ISA(add_products)(const double (*tile)[LANES], int64_t m, const double *x,
                                     double *sum) {
    for (int h = 0; h < LANES; h += STRIP) { /* as many lanes as stay in registers */
        double part[STRIP];
        for (int l = 0; l < STRIP; l++) part[l] = sum[h + l];
        for (int64_t j = m - 1; j >= 0; j--)
            for (int l = 0; l < STRIP; l++) part[l] += tile[j][h + l] * x[j];
        for (int l = 0; l < STRIP; l++) sum[h + l] = part[l];
    }
}
#endif

/* Weighted sums per bin of consecutive rows: positives, negatives and each real column (columns
 * lie one after the other). Walks from the last row to the first: the rank pass before it has left
 * the last rows in the cache, and the next draw starts at the first.
 * out[bin][2 + n_columns][lane]; cuts[bin] is the row after the bin's last. */
#define TILE 32
ALWAYS_INLINE void ISA(sums_body)(const uint8_t *counts, int64_t chunk, const uint8_t *labels,
                                  const double *columns, int64_t n_columns, const int64_t *cuts,
                                  int64_t n_cuts, const int32_t *index, int gather, double *out) {
    int64_t n = cuts[n_cuts - 1], i = n, limit = chunk < TILE ? chunk : TILE;
    out += n_cuts * (2 + n_columns) * LANES;
    for (int64_t bin = n_cuts - 1; bin >= 0; bin--) {
        int64_t begin = bin ? cuts[bin - 1] : 0;
        out -= (2 + n_columns) * LANES;
        memset(out, 0, sizeof(double) * (size_t)((2 + n_columns) * LANES));
        while (i > begin) {
            int64_t m = i - begin < limit ? i - begin : limit;
            i -= m;
#if WIDE_REGISTERS
            const uint8_t *rows[TILE];
#else
            double tile[TILE][LANES];
#endif
            uint8_t all[LANES] = {0}, positive[LANES] = {0}; /* `chunk` rows cannot overflow them */
            for (int64_t j = 0; j < m; j++) {
                const uint8_t *row = counts + (gather ? (int64_t)index[i + j] : i + j) * LANES;
                if (gather && i + j >= TILE) /* the row at this place of the next tile */
                    PREFETCH(counts + (int64_t)index[i + j - TILE] * LANES);
                if (!gather) PREFETCH(row - PAGE);
                for (int l = 0; l < LANES; l++) all[l] += row[l];
                if (labels[i + j])
                    for (int l = 0; l < LANES; l++) positive[l] += row[l];
#if WIDE_REGISTERS
                rows[j] = row;
#else
                if (n_columns) WIDEN(tile[j], row);
#endif
            }
            for (int l = 0; l < LANES; l++) {
                out[l] += (double)positive[l];
                out[LANES + l] += (double)(all[l] - positive[l]);
            }
            for (int64_t c = 0; c < n_columns; c++) {
                const double *x = columns + c * n + i;
                double *sum = out + (2 + c) * LANES;
#if WIDE_REGISTERS
                if (++c < n_columns)
                    ISA(add_products)(rows, m, x, x + n, sum, sum + LANES);
                else
                    ISA(add_products)(rows, m, x, NULL, sum, NULL);
#else
                ISA(add_products)(tile, m, x, sum);
#endif
            }
        }
    }
}

static void ISA(sums)(const uint8_t *counts, int64_t chunk, const uint8_t *labels,
                      const double *columns, int64_t n_columns, const int64_t *cuts,
                      int64_t n_cuts, const int32_t *index, double *out) {
    if (index)
        ISA(sums_body)(counts, chunk, labels, columns, n_columns, cuts, n_cuts, index, 1, out);
    else
        ISA(sums_body)(counts, chunk, labels, columns, n_columns, cuts, n_cuts, index, 0, out);
}
#undef TILE

/* Positives and score sums among the top cuts[cut][lane] rows of each resample. Within a group of
 * tied scores the positives are spread evenly, as the average over all orders of the rows is. */
static void ISA(masses)(const uint8_t *counts, const uint8_t *labels, const double *scores,
                        const uint8_t *group_ends, int64_t n, const double *cuts, int64_t n_cuts,
                        const int32_t *index, double *out) {
    double mass[LANES] = {0}, positive[LANES] = {0}, total[LANES] = {0};
    double mass_before[LANES] = {0}, positive_before[LANES] = {0}, limit[LANES];
    int64_t next[LANES] = {0};
    int inside = 0; /* a group of more than one row */
    memcpy(limit, cuts, sizeof limit);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *row = counts + (index ? (int64_t)index[i] : i) * LANES;
        double score = scores[i];
        if (index) PREFETCH(counts + (int64_t)index[i + PREFETCH_AHEAD] * LANES);
        if (!inside && !group_ends[i]) {
            memcpy(mass_before, mass, sizeof mass);
            memcpy(positive_before, positive, sizeof positive);
            inside = 1;
        }
        if (labels[i])
            for (int l = 0; l < LANES; l++) positive[l] += (double)row[l];
        int reached = 0;
        for (int l = 0; l < LANES; l++) {
            mass[l] += (double)row[l];
            total[l] += (double)row[l] * score;
            reached |= mass[l] >= limit[l];
        }
        if (!group_ends[i]) continue;
        for (int l = 0; reached && l < LANES; l++)
            while (mass[l] >= limit[l]) {
                double size = inside ? mass[l] - mass_before[l] : (double)row[l];
                double gained = inside ? positive[l] - positive_before[l] : labels[i] * size;
                double surplus = mass[l] - limit[l];
                double *at = out + next[l] * 2 * LANES + l;
                at[0] = positive[l] - gained * (surplus / size);
                at[LANES] = total[l] - surplus * score;
                limit[l] = ++next[l] < n_cuts ? cuts[next[l] * LANES + l] : HUGE_VAL;
            }
        inside = 0;
    }
}

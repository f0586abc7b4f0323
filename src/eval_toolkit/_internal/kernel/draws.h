/* Counter-based random numbers shared by every instruction set.
 *
 * A count is a pure function of (seed, resample, unit): no generator state, so batches, threads
 * and machines agree bit for bit. _numpy.py holds the same arithmetic; change both or neither.
 */
#ifndef EVAL_TOOLKIT_DRAWS_H
#define EVAL_TOOLKIT_DRAWS_H

#include <stdint.h>

#define LANES 64 /* resamples per block: one cache line of counts per unit */
#define GROUPS (LANES / 4) /* one 64-bit hash serves four neighbouring resamples */
#define N_THRESHOLDS 8
#define N_RESIDUAL 16

#define GAMMA UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio: the SplitMix64 increment */
#define RESAMPLE_STEP UINT64_C(0xD1342543DE82EF95)
#define ESCAPE_STEP UINT64_C(0xA0761D6478BD642F)
#define ESCAPE_STREAM UINT64_C(0xE7037ED1A0B428DB)
#define TOP_UP_STREAM UINT64_C(0x8EBC6AF09C88C6E3)
#define STRATUM_STEP UINT64_C(0x589965CC75374CC3)
#define WITHIN_STREAM UINT64_C(0x1D8E4E27C47D124F)

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#define RARELY(condition) __builtin_expect(!!(condition), 0)
#else
#define ALWAYS_INLINE static inline
#define PREFETCH(address) ((void)0)
#define RARELY(condition) (condition)
#endif

/* Finaliser of SplitMix64 (Steele, Lea & Flood 2014): a bijection that passes BigCrush. */
ALWAYS_INLINE uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Key of one stream: hash of the seed and the number of the resample (or group of resamples). */
ALWAYS_INLINE uint64_t stream_key(uint64_t seed, uint64_t number) {
    return mix64(mix64(seed + GAMMA) ^ mix64((number + 1) * RESAMPLE_STEP));
}

/* Uniform integer in [0, n) from 32 random bits (n < 2^31; the bias is below n / 2^32). */
ALWAYS_INLINE int64_t below(uint64_t bits32, int64_t n) {
    return (int64_t)((bits32 * (uint64_t)n) >> 32);
}

#endif

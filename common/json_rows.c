/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: names of nodes are nine tenths of what a scheduler sends, and a filter without caps
 * wants to know of them only that they are a list of strings.
 *
 * Approach: 64 bytes become three numbers of 64 bits: where quotes are, where commas, and where
 * what is no plain text. The sum (without carry) of all quotes up to a byte says whether that byte
 * is inside a string (Langdale and Lemire 2019, "Parsing gigabytes of JSON per second"). Each
 * byte outside of strings must then be a comma between a closing and an opening quote, which are
 * comparisons of such numbers shifted by one. No byte is looked at by itself.
 *
 * Invariants: what is passed over is valid JSON that kw_json_strings would take, too; a block that
 * holds anything else is left to it, with the string that reaches into it. Both ways take the same.
 */
#include "common/json_rows.h"

#include <stdint.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define BLOCK 64

#ifdef __SSE2__

/** Bytes of a block, a bit each. */
struct block {
    uint64_t quotes, commas;
    uint64_t odd; /**< backslashes, control bytes, and those beyond ASCII */
};

typedef struct block look_fn(const char *p);
typedef uint64_t sums_fn(uint64_t bits);

/* each bit: the sum of itself and all lower ones, without carry */
static inline uint64_t sums_plain(uint64_t bits)
{
    for (unsigned shift = 1; shift < BLOCK; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

static inline uint64_t bits16(__m128i bytes)
{
    return (uint64_t)(uint32_t)_mm_movemask_epi8(bytes);
}

static inline struct block look16(const char *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);

    return (struct block){
        .quotes = bits16(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'))),
        .commas = bits16(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(','))),
        /* signed compare: those with the high bit set are below ' ', too */
        .odd = bits16(_mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')),
                                   _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')))),
    };
}

static inline struct block look_plain(const char *p)
{
    const struct block a = look16(p), b = look16(p + 16), c = look16(p + 32), d = look16(p + 48);

    return (struct block){
        .quotes = a.quotes | b.quotes << 16 | c.quotes << 32 | d.quotes << 48,
        .commas = a.commas | b.commas << 16 | c.commas << 32 | d.commas << 48,
        .odd = a.odd | b.odd << 16 | c.odd << 32 | d.odd << 48,
    };
}

#define WIDE __attribute__((target("avx2,pclmul,popcnt")))

WIDE static inline uint64_t sums_wide(uint64_t bits)
{
    /* times a number of ones alone, without carry */
    __m128i product =
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)bits), _mm_set1_epi8((char)0xFF), 0);

    return (uint64_t)_mm_cvtsi128_si64(product);
}

WIDE static inline uint64_t bits32(__m256i bytes)
{
    return (uint64_t)(uint32_t)_mm256_movemask_epi8(bytes);
}

WIDE static inline struct block look32(const char *p)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)p);

    return (struct block){
        .quotes = bits32(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'))),
        .commas = bits32(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(','))),
        .odd = bits32(_mm256_or_si256(_mm256_cmpgt_epi8(_mm256_set1_epi8(' '), bytes),
                                      _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\')))),
    };
}

WIDE static inline struct block look_wide(const char *p)
{
    const struct block a = look32(p), b = look32(p + 32);

    return (struct block){
        .quotes = a.quotes | b.quotes << 32,
        .commas = a.commas | b.commas << 32,
        .odd = a.odd | b.odd << 32,
    };
}

/* Behind the last string that ends before `p`. @param inside whether p is inside of one. */
static const char *last_end(const char *p, bool inside)
{
    while (*--p != '"') {
    }
    return inside ? p - 1 : p + 1; /* before the comma and the opening quote, or behind its own */
}

/* inline always: each way is compiled with its own instructions */
static inline __attribute__((always_inline)) const char *pass(const char *p, const char *end,
                                                              bool first, size_t *ret_n,
                                                              look_fn *look, sums_fn *sums)
{
    const char *begin = p;
    uint64_t inside = 0;      /* all ones where a block begins inside a string */
    uint64_t closed = !first; /* whether the byte before it closed one */
    size_t quotes = 0;

    for (; end - p >= BLOCK; p += BLOCK) {
        const struct block block = look(p);
        uint64_t in = sums(block.quotes) ^ inside;
        uint64_t closing = block.quotes & ~in;
        uint64_t between = ~(block.quotes | in);
        /* a byte behind each closing quote and no other is outside, so that an opening one follows
         */
        uint64_t wrong =
            (in & block.odd) | (between & ~block.commas) | (between ^ (closing << 1 | closed));
        if (wrong != 0)
            break;
        quotes += (size_t)__builtin_popcountll(block.quotes);
        inside = (uint64_t)0 - (in >> (BLOCK - 1));
        closed = closing >> (BLOCK - 1);
    }
    *ret_n = quotes / 2;
    return quotes < 2 ? begin : last_end(p, inside != 0);
}

const char *kw_json_rows_plain(const char *p, const char *end, bool first, size_t *ret_n)
{
    return pass(p, end, first, ret_n, look_plain, sums_plain);
}

WIDE const char *kw_json_rows_wide(const char *p, const char *end, bool first, size_t *ret_n)
{
    return pass(p, end, first, ret_n, look_wide, sums_wide);
}

bool kw_json_rows_is_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("popcnt");
}

#else

const char *kw_json_rows_plain(const char *p, const char *end, bool first, size_t *ret_n)
{
    (void)end;
    (void)first;
    *ret_n = 0;
    return p;
}

const char *kw_json_rows_wide(const char *p, const char *end, bool first, size_t *ret_n)
{
    return kw_json_rows_plain(p, end, first, ret_n);
}

bool kw_json_rows_is_wide(void)
{
    return false;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: every file of the seed folder as it is, then a fixed number
 * of mutations of each (a small deterministic generator: a failure repeats). This is what ctest
 * runs; `cmake --preset fuzz` links the same targets with libFuzzer for longer searches.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Mutations per seed: 2000 keep the slowest target below a few seconds with the sanitizers on. */
#define MUTATIONS 2000
#define SEED_MAX  (1u << 20)

static uint64_t next_random(uint64_t *state)
{
    /* xorshift64* (Vigna 2016): small and repeatable; quality does not matter here */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static size_t mutate(uint64_t *state, uint8_t *bytes, size_t size)
{
    static const char interesting[] =
        "{}[]\",:\\/0-eE.+nulltruefalse\0\x80\xff\xc3\xed\xa0\x80 \t\r\n";
    unsigned edits = 1 + (unsigned)(next_random(state) % 4);

    for (unsigned i = 0; i < edits && size > 0; i++) {
        size_t at = (size_t)(next_random(state) % size);
        switch (next_random(state) % 5) {
        case 0: bytes[at] = (uint8_t)next_random(state); break;
        case 1: bytes[at] ^= (uint8_t)(1u << (next_random(state) % 8)); break;
        case 2:
            bytes[at] = (uint8_t)interesting[next_random(state) % (sizeof(interesting) - 1)];
            break;
        case 3: size = at; break;
        default: {
            size_t from = (size_t)(next_random(state) % size);
            size_t room = size - (at > from ? at : from);
            memmove(bytes + at, bytes + from, (size_t)(next_random(state) % (room + 1)));
        }
        }
    }
    return size;
}

static int run_seed(const char *path, uint64_t *state)
{
    kw_cleanup_file FILE *file = fopen(path, "rb");
    kw_cleanup_free uint8_t *seed = malloc(SEED_MAX);
    kw_cleanup_free uint8_t *copy = malloc(SEED_MAX);

    if (file == NULL || seed == NULL || copy == NULL) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return -1;
    }
    size_t size = fread(seed, 1, SEED_MAX, file);
    (void)LLVMFuzzerTestOneInput(seed, size);
    for (unsigned i = 0; i < MUTATIONS; i++) {
        memcpy(copy, seed, size);
        size_t mutated = mutate(state, copy, size);
        /* an exact allocation, so that AddressSanitizer sees a read past the end */
        kw_cleanup_free uint8_t *exact = malloc(mutated > 0 ? mutated : 1);
        if (exact == NULL)
            return -1;
        memcpy(exact, copy, mutated);
        (void)LLVMFuzzerTestOneInput(exact, mutated);
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned seeds = 0;
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder == NULL) {
            fprintf(stderr, "%s: no such seed folder\n", argv[i]);
            return 1;
        }
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            if (snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name) >= (int)sizeof(path))
                continue;
            if (run_seed(path, &state) < 0) {
                closedir(folder);
                return 1;
            }
            seeds++;
        }
        closedir(folder);
    }
    if (seeds == 0) {
        fprintf(stderr, "no seeds: nothing was tested\n");
        return 1;
    }
    printf("%u seeds, %u mutations each\n", seeds, MUTATIONS);
    return 0;
}

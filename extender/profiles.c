/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing, at most half full, over slots that hold a hash of the name and not the name: 128
 * bits under a random key, of which two names that meet are not to be expected in the life of any
 * cluster. So an entry is 64 bytes whatever its name, and a table is copied by one memcpy.
 */
#include "extender/profiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "extender/snapshot.h"

#define SLOTS_MIN 64

struct slot {
    uint64_t hash[2]; /**< the second 0: empty */
    struct ext_profile profile;
};

struct ext_profiles {
    uint64_t seed;
    size_t n;      /**< entries */
    size_t usable; /**< of them, to be found */
    size_t mask;   /**< slots - 1, a power of two less one */
    struct slot *slots;
};

struct ext_profiles *ext_profiles_new(uint64_t seed)
{
    struct ext_profiles *profiles = calloc(1, sizeof(*profiles));

    if (profiles == NULL)
        return NULL;
    profiles->seed = seed;
    profiles->mask = SLOTS_MIN - 1;
    profiles->slots = calloc(SLOTS_MIN, sizeof(*profiles->slots));
    if (profiles->slots == NULL)
        ext_profiles_free(&profiles);
    return profiles;
}

struct ext_profiles *ext_profiles_copy(const struct ext_profiles *profiles)
{
    struct ext_profiles *copy = calloc(1, sizeof(*copy));

    if (copy == NULL)
        return NULL;
    *copy = *profiles;
    copy->slots = calloc(profiles->mask + 1, sizeof(*copy->slots));
    if (copy->slots == NULL) {
        ext_profiles_free(&copy);
        return NULL;
    }
    memcpy(copy->slots, profiles->slots, (profiles->mask + 1) * sizeof(*copy->slots));
    return copy;
}

void ext_profiles_free(struct ext_profiles **profiles)
{
    if (*profiles == NULL)
        return;
    free((*profiles)->slots);
    free(*profiles);
    *profiles = NULL;
}

size_t ext_profiles_count(const struct ext_profiles *profiles)
{
    return profiles == NULL ? 0 : profiles->usable;
}

static bool is_empty(const struct slot *slot)
{
    return slot->hash[1] == 0;
}

/** The slot of a hash, or the empty one where it belongs. */
static struct slot *find_slot(const struct ext_profiles *profiles, const uint64_t hash[2])
{
    for (size_t at = (size_t)hash[0] & profiles->mask;; at = (at + 1) & profiles->mask) {
        struct slot *slot = &profiles->slots[at];
        if (is_empty(slot) || (slot->hash[0] == hash[0] && slot->hash[1] == hash[1]))
            return slot;
    }
}

static void hash_of(const struct ext_profiles *profiles, const char *member, size_t len,
                    uint64_t ret[2])
{
    ret[0] = ext_hash(member, len, profiles->seed);
    /* the second half depends on the first as on the name; never 0, which is an empty slot */
    ret[1] = ext_hash(member, len, ret[0]) | 1;
}

static int grow(struct ext_profiles *profiles)
{
    struct ext_profiles grown = *profiles;

    grown.mask = profiles->mask * 2 + 1;
    grown.slots = calloc(grown.mask + 1, sizeof(*grown.slots));
    if (grown.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i <= profiles->mask; i++) {
        if (!is_empty(&profiles->slots[i]))
            *find_slot(&grown, profiles->slots[i].hash) = profiles->slots[i];
    }
    free(profiles->slots);
    *profiles = grown;
    return 0;
}

int ext_profiles_put(struct ext_profiles *profiles, const char *member, size_t len,
                     const struct ext_profile *profile)
{
    uint64_t hash[2];

    hash_of(profiles, member, len, hash);
    struct slot *slot = find_slot(profiles, hash);
    if (is_empty(slot)) {
        if (profiles->n == EXT_PROFILES_MAX)
            return -ENOSPC;
        if ((profiles->n + 1) * 2 > profiles->mask + 1) {
            int rc = grow(profiles);
            if (rc < 0)
                return rc;
            slot = find_slot(profiles, hash);
        }
        profiles->n++;
    } else if (slot->profile.pods_permille > 0) {
        profiles->usable--;
    }
    profiles->usable += profile->pods_permille > 0;
    *slot = (struct slot){.hash = {hash[0], hash[1]}, .profile = *profile};
    return 0;
}

const struct ext_profile *ext_profiles_at(const struct ext_profiles *profiles, const char *member,
                                          size_t len)
{
    uint64_t hash[2];

    if (profiles == NULL)
        return NULL;
    hash_of(profiles, member, len, hash);
    const struct slot *slot = find_slot(profiles, hash);
    return is_empty(slot) ? NULL : &slot->profile;
}

const struct ext_profile *ext_profiles_find(const struct ext_profiles *profiles, const char *ns,
                                            const struct kw_top_owner *owner)
{
    char key[KW_KEY_MAX];

    if (ext_profiles_count(profiles) == 0 || owner->kind[0] == '\0' ||
        kw_key_profile(key, ns, owner->kind, owner->name) < 0)
        return NULL;
    const char *member = KW_KEY_PROFILE_MEMBER(key);
    const struct ext_profile *found = ext_profiles_at(profiles, member, strlen(member));
    return found == NULL || found->pods_permille == 0 ? NULL : found;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile.h"

#include <errno.h>

#include "api/codec.h"
#include "api/names.h"

const char *kw_profile_check(const struct kw_profile *profile)
{
    char key[KW_KEY_MAX];

    if (kw_key_profile(key, profile->ns, profile->owner.kind, profile->owner.name) < 0)
        return "the workload's name";
    if (profile->t_unix_ms < 0)
        return "t_unix_ms";
    if (profile->pods_permille == 0 || profile->pods_permille > KW_PROFILE_PODS_MAX * 1000)
        return "pods_permille";
    if (profile->used_mcpu > KW_PROFILE_MCPU_MAX)
        return "used_mcpu";
    if (profile->sigma_mcpu > KW_PROFILE_MCPU_MAX)
        return "sigma_mcpu";
    if (profile->core_mw > KW_PROFILE_MW_MAX)
        return "core_mw";
    if (profile->lived_ms > KW_PROFILE_LIVED_MAX_MS)
        return "lived_ms";
    return profile->ended_permille > KW_PROFILE_PODS_MAX * 1000 ? "ended_permille" : NULL;
}

double kw_profile_life_s(uint64_t lived_ms, uint64_t ended_permille)
{
    double lived_s = (double)lived_ms / 1000;
    double ended = (double)ended_permille / 1000;

    return (lived_s + KW_LIFE_ASSUMED_S) / (ended + 1);
}

int kw_profile_encode(const struct kw_profile *profile, char **ret, size_t *ret_len)
{
    int rc = kw_profile_check(profile) == NULL ? 0 : -EINVAL;
    json_t *object = kw_put_document(&rc);

    kw_put_text(&rc, object, "namespace", profile->ns, sizeof(profile->ns) - 1);
    kw_put_text(&rc, object, "kind", profile->owner.kind, sizeof(profile->owner.kind) - 1);
    kw_put_text(&rc, object, "name", profile->owner.name, sizeof(profile->owner.name) - 1);
    kw_put_time_ms(&rc, object, "t_unix_ms", profile->t_unix_ms);
    kw_put_u64(&rc, object, "pods_permille", profile->pods_permille);
    kw_put_u64(&rc, object, "used_mcpu", profile->used_mcpu);
    kw_put_u64(&rc, object, "sigma_mcpu", profile->sigma_mcpu);
    kw_put_u64(&rc, object, "core_mw", profile->core_mw);
    kw_put_u64(&rc, object, "request_uj", profile->request_uj);
    kw_put_text(&rc, object, "request_unit", profile->request_unit,
                sizeof(profile->request_unit) - 1);
    kw_put_bool(&rc, object, "estimated", profile->estimated);
    kw_put_u64(&rc, object, "lived_ms", profile->lived_ms);
    kw_put_u64(&rc, object, "ended_permille", profile->ended_permille);
    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

static void from_json(struct kw_reader *reader, const json_t *object, struct kw_profile *ret)
{
    *ret = (struct kw_profile){0};
    kw_get_schema(reader, object);
    kw_get_text(reader, object, "namespace", KW_REQUIRED, ret->ns, sizeof(ret->ns));
    kw_get_text(reader, object, "kind", KW_REQUIRED, ret->owner.kind, sizeof(ret->owner.kind));
    kw_get_text(reader, object, "name", KW_REQUIRED, ret->owner.name, sizeof(ret->owner.name));
    kw_get_time_ms(reader, object, "t_unix_ms", KW_REQUIRED, &ret->t_unix_ms);
    kw_get_u64(reader, object, "pods_permille", KW_REQUIRED, &ret->pods_permille);
    kw_get_u64(reader, object, "used_mcpu", KW_REQUIRED, &ret->used_mcpu);
    kw_get_u64(reader, object, "sigma_mcpu", KW_OPTIONAL, &ret->sigma_mcpu);
    kw_get_u64(reader, object, "core_mw", KW_OPTIONAL, &ret->core_mw);
    kw_get_u64(reader, object, "request_uj", KW_OPTIONAL, &ret->request_uj);
    kw_get_text(reader, object, "request_unit", KW_OPTIONAL, ret->request_unit,
                sizeof(ret->request_unit));
    kw_get_bool(reader, object, "estimated", KW_OPTIONAL, &ret->estimated);
    kw_get_u64(reader, object, "lived_ms", KW_OPTIONAL, &ret->lived_ms);
    kw_get_u64(reader, object, "ended_permille", KW_OPTIONAL, &ret->ended_permille);
    const char *why = reader->rc == 0 ? kw_profile_check(ret) : NULL;
    if (why != NULL)
        kw_reader_fail(reader, -EBADMSG, why);
}

int kw_profile_decode(const char *json, size_t len, struct kw_profile *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_profile profile;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        from_json(&reader, root, &profile);
    json_decref(root);
    if (reader.rc == 0)
        *ret = profile;
    return kw_reader_end(&reader, ret_why);
}

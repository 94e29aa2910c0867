/* SPDX-License-Identifier: Apache-2.0 */
#include "api/curve.h"

#include <errno.h>

#include "api/codec.h"

#define PERMILLE 1000u

const char *kw_curve_check(const struct kw_curve *curve)
{
    if (curve->capacity_mcpu == 0)
        return "capacity_mcpu must be above 0";
    if (curve->n < 2 || curve->n > KW_CURVE_KNOTS)
        return "knots must be 2 to 11";
    if (curve->knots[0].load_permille != 0)
        return "the first load_permille must be 0";
    if (curve->knots[curve->n - 1].load_permille != PERMILLE)
        return "the last load_permille must be 1000";
    const struct kw_curve_platform *platform = &curve->platform;
    for (uint32_t i = 0; i < curve->n; i++) {
        if (curve->knots[i].confidence_permille > PERMILLE)
            return "confidence_permille must be 0 to 1000";
        if (platform->present && platform->confidence_permille[i] > PERMILLE)
            return "platform_confidence_permille must be 0 to 1000";
        if (i == 0)
            continue;
        if (curve->knots[i].load_permille <= curve->knots[i - 1].load_permille)
            return "load_permille must ascend strictly";
        if (curve->knots[i].mw < curve->knots[i - 1].mw)
            return "mw must not fall";
        if (platform->present && platform->mw[i] < platform->mw[i - 1])
            return "platform_mw must not fall";
    }
    if (curve->has_wake && curve->wake_uj > KW_CURVE_WAKE_UJ_MAX)
        return "wake_uj must be at most 10^12";
    return NULL;
}

uint64_t kw_curve_mw_at(const struct kw_curve *curve, uint64_t mcpu)
{
    uint32_t n = curve->n < KW_CURVE_KNOTS ? curve->n : KW_CURVE_KNOTS;

    if (n == 0)
        return 0;
    if (mcpu >= curve->capacity_mcpu)
        return curve->knots[n - 1].mw;
    for (uint32_t i = 1; i < n; i++) {
        const struct kw_curve_knot *left = &curve->knots[i - 1], *right = &curve->knots[i];
        /* loads in units of capacity / 1000 / 1000, so that nothing is rounded before the end */
        unsigned __int128 load = (unsigned __int128)mcpu * PERMILLE;
        unsigned __int128 from = (unsigned __int128)left->load_permille * curve->capacity_mcpu;
        unsigned __int128 to = (unsigned __int128)right->load_permille * curve->capacity_mcpu;

        if (load > to || to <= from || load < from || right->mw < left->mw)
            continue;
        unsigned __int128 width = to - from;
        unsigned __int128 rise = (load - from) * (right->mw - left->mw);
        return left->mw + (uint64_t)((rise + width / 2) / width);
    }
    return curve->knots[n - 1].mw;
}

json_t *kw_curve_to_json(const struct kw_curve *curve, int *rc)
{
    json_t *object = kw_put_document(rc);
    json_t *knots = json_array();

    if (kw_curve_check(curve) != NULL)
        *rc = *rc != 0 ? *rc : -EINVAL;
    kw_put_u64(rc, object, "capacity_mcpu", curve->capacity_mcpu);
    kw_put_bool(rc, object, "estimated", curve->estimated);
    kw_put_bool(rc, object, "by_core", curve->by_core);
    if (curve->machine[0] != '\0')
        kw_put_text(rc, object, "machine", curve->machine, sizeof(curve->machine) - 1);
    for (uint32_t i = 0; *rc == 0 && i < curve->n; i++) {
        json_t *knot = json_object();

        kw_put_u64(rc, knot, "load_permille", curve->knots[i].load_permille);
        kw_put_u64(rc, knot, "mw", curve->knots[i].mw);
        kw_put_u64(rc, knot, "confidence_permille", curve->knots[i].confidence_permille);
        if (curve->platform.present) {
            kw_put_u64(rc, knot, "platform_mw", curve->platform.mw[i]);
            kw_put_u64(rc, knot, "platform_confidence_permille",
                       curve->platform.confidence_permille[i]);
        }
        kw_put_element(rc, knots, knot);
    }
    kw_put(rc, object, "knots", knots);
    if (curve->has_sleep)
        kw_put_u64(rc, object, "sleep_mw", curve->sleep_mw);
    if (curve->has_wake)
        kw_put_u64(rc, object, "wake_uj", curve->wake_uj);
    return object;
}

void kw_curve_from_json(struct kw_reader *reader, const json_t *object, struct kw_curve *ret)
{
    const json_t *knots;
    const char *why;

    *ret = (struct kw_curve){0};
    kw_get_schema(reader, object);
    kw_get_u64(reader, object, "capacity_mcpu", KW_REQUIRED, &ret->capacity_mcpu);
    kw_get_bool(reader, object, "estimated", KW_OPTIONAL, &ret->estimated);
    kw_get_bool(reader, object, "by_core", KW_OPTIONAL, &ret->by_core);
    kw_get_text(reader, object, "machine", KW_OPTIONAL, ret->machine, sizeof(ret->machine));
    knots = kw_get(reader, object, "knots", JSON_ARRAY, KW_REQUIRED);
    if (json_array_size(knots) > KW_CURVE_KNOTS) {
        kw_reader_fail(reader, -EBADMSG, "knots must be 2 to 11");
        return;
    }
    struct kw_curve_platform *platform = &ret->platform;
    platform->present = json_object_get(json_array_get(knots, 0), "platform_mw") != NULL;
    for (; ret->n < json_array_size(knots); ret->n++) {
        const json_t *element = json_array_get(knots, ret->n);
        struct kw_curve_knot *knot = &ret->knots[ret->n];

        if (!json_is_object(element))
            kw_reader_fail(reader, -EBADMSG, "knots");
        kw_get_u32(reader, element, "load_permille", KW_REQUIRED, &knot->load_permille);
        kw_get_u32(reader, element, "mw", KW_REQUIRED, &knot->mw);
        kw_get_u32(reader, element, "confidence_permille", KW_OPTIONAL, &knot->confidence_permille);
        if (!platform->present)
            continue;
        kw_get_u32(reader, element, "platform_mw", KW_REQUIRED, &platform->mw[ret->n]);
        kw_get_u32(reader, element, "platform_confidence_permille", KW_OPTIONAL,
                   &platform->confidence_permille[ret->n]);
    }
    ret->has_sleep = json_object_get(object, "sleep_mw") != NULL;
    kw_get_u32(reader, object, "sleep_mw", KW_OPTIONAL, &ret->sleep_mw);
    ret->has_wake = json_object_get(object, "wake_uj") != NULL;
    kw_get_u64(reader, object, "wake_uj", KW_OPTIONAL, &ret->wake_uj);
    why = kw_curve_check(ret);
    if (why != NULL)
        kw_reader_fail(reader, -EBADMSG, why);
}

int kw_curve_encode(const struct kw_curve *curve, char **ret, size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_curve_to_json(curve, &rc);

    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_curve_decode(const char *json, size_t len, struct kw_curve *ret, const char **ret_why)
{
    struct kw_reader reader = {0};
    struct kw_curve curve;
    json_t *root = kw_reader_parse(&reader, json, len);

    if (root != NULL)
        kw_curve_from_json(&reader, root, &curve);
    json_decref(root);
    if (reader.rc == 0)
        *ret = curve;
    return kw_reader_end(&reader, ret_why);
}

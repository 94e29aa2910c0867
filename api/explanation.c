/* SPDX-License-Identifier: Apache-2.0 */
#include "api/explanation.h"

#include <stdlib.h>

#include "api/codec.h"

static json_t *idle_to_json(const struct kw_sample *sample, const struct kw_pod_record *pod,
                            int *rc)
{
    json_t *object = json_object();

    kw_put_u64(rc, object, "none", 0);
    kw_put_u64(rc, object, "equal", pod->idle_equal_mw);
    kw_put_u64(rc, object, "requests", pod->idle_requests_mw);
    kw_put_u64(rc, object, "node", sample->idle_mw);
    return object;
}

/** The document up to the record. */
static int encode_head(const struct kw_sample *sample, const struct kw_pod_record *pod, char **ret,
                       size_t *ret_len)
{
    int rc = 0;
    json_t *object = kw_put_document(&rc);

    kw_put_text(&rc, object, "node", sample->node, sizeof(sample->node) - 1);
    kw_put_text(&rc, object, "meter", sample->meter, sizeof(sample->meter) - 1);
    kw_put_text(&rc, object, "method", sample->method, sizeof(sample->method) - 1);
    kw_put_text(&rc, object, "accounting", sample->accounting, sizeof(sample->accounting) - 1);
    kw_put(&rc, object, "quality", kw_quality_to_json(sample->quality, &rc));
    kw_put(&rc, object, "quality_epoch", kw_quality_to_json(sample->quality_epoch, &rc));
    kw_put_text(&rc, object, "idle_policy", sample->idle_policy, sizeof(sample->idle_policy) - 1);
    kw_put(&rc, object, "idle_mw", idle_to_json(sample, pod, &rc));
    return kw_put_end(rc, object, JSON_COMPACT, ret, ret_len);
}

int kw_explanation_encode(const struct kw_node_view *view, const struct kw_pod_record *pod,
                          char **ret, size_t *ret_len)
{
    struct kw_out out = {0};
    char *head = NULL, *record = NULL;
    size_t head_len = 0, record_len = 0;

    out.rc = encode_head(&view->sample, pod, &head, &head_len);
    if (out.rc == 0)
        out.rc = kw_pod_record_encode(pod, &record, &record_len);
    if (out.rc == 0) {
        kw_out_json(&out, NULL, head, head_len - 1); /* its brace is closed below */
        kw_out_json(&out, "workload", record, record_len);
    }
    free(head);
    free(record);
    kw_out_end(&out, '}');
    return kw_out_take(&out, ret, ret_len);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a KubeSchedulerConfiguration that goes by the tiers of nodes. NodeAffinity adds the
 * weights of all terms that hold for a node, and each term costs a comparison per node and pod: so
 * there is one for each binary digit of what a tier is worth, and not one for each tier. Without
 * preferences NodeAffinity is passed over; with them it is one more plugin that scores each node,
 * the dearest of those that are always asked, for it makes a map of the node's fields each time. So
 * two others are left out, which together cost as much: what they want is outweighed by tiers.
 * NodeResourcesFit stays: among nodes of one tier it takes the emptier, so that equal nodes whose
 * watts rise from the start, and pods that come in a burst, are spread as without tiers.
 */
#include <inttypes.h>

#include "api/node.h"
#include "cli/scheduler_config.h"

/** What a step of one tier is worth, and binary digits of the most steps there are. */
#define STEP          11
#define DIGITS        4
/** The digit that a node without a tier has: NotIn holds for it, too, and no term of its own is
 * tried. */
#define UNKNOWN_DIGIT 2

static const char head[] =
    "# Configuration for kube-scheduler 1.25 or later, given to it with --config, where "
    "kwatt-extender\n"
    "# labels nodes (--power-tiers). Nothing is called per pod. If you have a configuration "
    "already,\n"
    "# take over what stands below the profile.\n"
    "apiVersion: kubescheduler.config.k8s.io/v1\n"
    "kind: KubeSchedulerConfiguration\n";

static const char weight[] =
    "  plugins:\n"
    "    score:\n"
    "      disabled:\n"
    "      # To look at tiers takes the scheduler as long as these two do, which tiers outweigh: "
    "one\n"
    "      # works against filling nodes, the other prefers nodes that hold a pod's images. Take "
    "the\n"
    "      # first out where pods leave memory without CPU, or CPU without memory, and the second\n"
    "      # where images are so large that fetching them is what pods wait for.\n"
    "      - name: NodeResourcesBalancedAllocation\n"
    "      - name: ImageLocality\n"
    "      enabled:\n"
    "      # How loud tiers are: weight x 100 points between the best node and the worst.\n"
    "      # NodeResourcesFit (least allocated) works against filling nodes, with 100 points; 3\n"
    "      # outweighs it also together with the first one above.\n"
    "      - name: NodeAffinity\n";

static const char affinity[] =
    "  pluginConfig:\n"
    "  - name: NodeAffinity\n"
    "    args:\n"
    "      # Added to what a pod asks for itself: required terms of a pod hold as ever, and its\n"
    "      # preferred ones count beside these. Together they are worth 99 at tier 0 "
    "and\n"
    "      # 11 less for each tier: one term for each binary digit of that, since the scheduler\n"
    "      # tries each term on each node.\n"
    "      addedAffinity:\n"
    "        preferredDuringSchedulingIgnoredDuringExecution:\n";

/** The tiers whose worth has a binary digit. */
static void write_term(int digit, struct kw_buf *out)
{
    bool unknown = digit == UNKNOWN_DIGIT;
    bool any = false;

    if (unknown)
        (void)kw_buf_adds(out, "        # This one holds for a node that kwatt knows nothing of, "
                               "too: it counts as tier 5.\n");
    (void)kw_buf_addf(out,
                      "        - weight: %d\n"
                      "          preference:\n"
                      "            matchExpressions:\n"
                      "            - {key: " KW_LABEL_POWER_TIER ", operator: %s, values: [",
                      STEP << digit, unknown ? "NotIn" : "In");
    for (int tier = 0; tier < KW_POWER_TIERS; tier++) {
        if ((kw_tier_weight(tier) / STEP >> digit & 1) == unknown)
            continue;
        (void)kw_buf_addf(out, "%s\"%d\"", any ? ", " : "", tier);
        any = true;
    }
    (void)kw_buf_adds(out, "]}\n");
}

void cli_scheduler_write_tiers(const struct cli_scheduler_facts *facts, struct kw_buf *out)
{
    (void)kw_buf_adds(out, head);
    if (facts->kubeconfig != NULL && facts->kubeconfig[0] != '\0')
        (void)kw_buf_addf(out, "clientConnection:\n  kubeconfig: %s\n", facts->kubeconfig);
    (void)kw_buf_addf(out, "\nprofiles:\n- schedulerName: %s\n%s        weight: %" PRIu64 "\n%s",
                      facts->scheduler_name, weight, facts->weight, affinity);
    for (int digit = DIGITS - 1; digit >= 0; digit--)
        write_term(digit, out);
}

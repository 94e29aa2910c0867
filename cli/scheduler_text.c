/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of a KubeSchedulerConfiguration. Every choice in it costs something, so each line says
 * what, in shares that `scripts/bench scheduler` measures; deploy/kube-scheduler/kwatt.yaml is this
 * text for an extender beside the scheduler, which a test compares. Texts that come from outside (a
 * URL, names) were checked to need no quotes.
 */
#include <inttypes.h>
#include <stdbool.h>

#include "cli/scheduler_config.h"
#include "common/cleanup.h"

static const char head[] =
    "# Configuration for kube-scheduler 1.25 or later, given to it with --config. If you have one\n"
    "# already, take over the part under \"extenders\".\n"
    "apiVersion: kubescheduler.config.k8s.io/v1\n"
    "kind: KubeSchedulerConfiguration\n";

static const char filter_off[] =
    "  # filterVerb is left out: no power cap is configured, so nothing would be rejected, and "
    "each\n"
    "  # pod would wait for one more call with all node names in it: at 500 nodes, about a sixth "
    "of\n"
    "  # the pods a second. With caps, print this again with --filter.\n";

static const char filter_on[] =
    "  # Asked before any score: rejects what caps do not allow. Costs one more call per pod, "
    "with\n"
    "  # all node names in it: at 500 nodes, about a sixth of the pods a second.\n"
    "  filterVerb: filter\n"
    "  # Confirms the scheduler's choice of victims, so that preemption does not go past the\n"
    "  # filter.\n"
    "  preemptVerb: preempt\n";

static const char prioritize[] =
    "  # The scores. At 500 nodes a scheduler at full speed places about two fifths fewer pods a\n"
    "  # second than without an extender: it encodes the question and decodes the answer, and "
    "from\n"
    "  # 1.35 on it reuses no results for pods that are alike. Of the CPU of a pod, kwatt's part "
    "is\n"
    "  # a few hundredths.\n"
    "  prioritizeVerb: prioritize\n";

static const char scale[] =
    "  # How loud kwatt is among the scheduler's own plugins. Its score (0..10) counts weight x "
    "10\n"
    "  # points, so weight 1 adds up to 100. The default plugins add up to 1200, and two of them\n"
    "  # work against filling nodes: NodeResourcesFit (least allocated) and\n"
    "  # NodeResourcesBalancedAllocation, 100 points each. 3 outweighs both together; 5 also\n"
    "  # outweighs soft spreading; 1 decides only between nodes that are otherwise alike.\n";

static const char names[] =
    "  # Names instead of whole Node objects: about 50 bytes a node instead of 15 kB. Without it\n"
    "  # the scheduler itself needs tens of milliseconds per pod (at 500 nodes, a sixth of the "
    "pods\n"
    "  # a second is left), and from 1.34 on its resource plugins see idle nodes behind an\n"
    "  # extender's filter.\n"
    "  nodeCacheCapable: true\n";

static const char timeout[] =
    "  # Covers the whole call, which each pod waits for. The default is 5 s; kwatt answers "
    "within\n"
    "  # a few milliseconds, also for 15000 nodes and also without Redis.\n";

static const char ignorable[] =
    "  # Saving energy is no reason to stop scheduling: where the extender does not answer, its\n"
    "  # turn is skipped.\n"
    "  ignorable: true\n"
    "  # managedResources is left out: kwatt has a say on every pod (but those annotated\n"
    "  # kwatt.io/placement: off).\n";

static const char sample[] =
    "\n# The scheduler takes a sample of the nodes before it asks extenders (half of 500 nodes, a\n"
    "# tenth of 5000); a pod is unschedulable if caps reject all of that sample.\n"
    "percentageOfNodesToScore: 100\n";

static const char packing[] =
    "  # To let consolidation win without a larger weight, turn the opposing plugin round:\n"
    "  #pluginConfig:\n"
    "  #- name: NodeResourcesFit\n"
    "  #  args:\n"
    "  #    scoringStrategy:\n"
    "  #      type: MostAllocated\n"
    "  #      resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]\n";

static const char https[] =
    "  # The client certificate is read again for new connections, caFile once at the start:\n"
    "  # restart the scheduler after the authority changed. Without caFile it verifies nothing.\n"
    "  enableHTTPS: true\n";

static void write_tls(const struct kw_http_client_tls *tls, struct kw_buf *out)
{
    const struct {
        const char *name, *text;
    } fields[] = {
        {"serverName", tls->server_name},
        {"caFile", tls->ca_file},
        {"certFile", tls->cert_file},
        {"keyFile", tls->key_file},
    };
    bool any = false;

    (void)kw_buf_adds(out, https);
    for (size_t i = 0; i < KW_ARRAY_SIZE(fields); i++) {
        if (fields[i].text == NULL || fields[i].text[0] == '\0')
            continue;
        (void)kw_buf_addf(out, "%s    %s: %s\n", any ? "" : "  tlsConfig:\n", fields[i].name,
                          fields[i].text);
        any = true;
    }
}

void cli_scheduler_write(const struct cli_scheduler_facts *facts, struct kw_buf *out)
{
    (void)kw_buf_adds(out, head);
    if (facts->kubeconfig != NULL && facts->kubeconfig[0] != '\0')
        (void)kw_buf_addf(out, "clientConnection:\n  kubeconfig: %s\n", facts->kubeconfig);
    (void)kw_buf_addf(out,
                      "\n# \"extenders\" stands at the top level and serves every profile. Below a "
                      "profile it is an\n# unknown field.\nextenders:\n- # %s\n  urlPrefix: %s\n",
                      facts->from, facts->url);
    if (facts->tls != NULL)
        write_tls(facts->tls, out);
    (void)kw_buf_adds(out, facts->filter ? filter_on : filter_off);
    (void)kw_buf_adds(out, prioritize);
    (void)kw_buf_addf(out, "%s  weight: %" PRIu64 "\n", scale, facts->weight);
    (void)kw_buf_addf(out, "%s%s  httpTimeout: %s\n%s", names, timeout, facts->http_timeout,
                      ignorable);
    if (facts->filter)
        (void)kw_buf_adds(out, sample);
    (void)kw_buf_addf(out, "\nprofiles:\n- schedulerName: %s\n%s", facts->scheduler_name, packing);
}

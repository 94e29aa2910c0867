/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Names that two processes must agree on, in one place: Redis keys, HTTP ports, Kubernetes
 * annotations and labels. The reference for third parties is api/README.md.
 */

/** Version of every JSON document in Redis and of the key layout. A reader that meets another one
 * says so once and skips the record. */
#define KW_SCHEMA 1

#define KW_KEY_PREFIX "kwatt:v1:"
/** Sorted set: node name, score = last publish in unix ms. */
#define KW_KEY_NODES  KW_KEY_PREFIX "nodes"

/** "kwatt:v1:feed:K": streams of what nodes publish, a node always in the same one. */
#define KW_FEED_SHARDS 8
/** Entries kept of each, as Redis takes it for MAXLEN ~: 5 s of 15000 nodes that publish every 5 s;
 * some 20 MB in all. A reader that was away for longer reads everything again. */
#define KW_FEED_LENGTH "2048"

/** Fields of the node hash. An entry of a feed has the first two, the sample in its short form. */
#define KW_FIELD_SAMPLE "sample" /**< api/sample.h */
#define KW_FIELD_CURVE  "curve"  /**< api/curve.h */
#define KW_FIELD_INFO   "info"   /**< api/node_info.h */

/** Sorted set: "NS/KIND/NAME" of each workload with a profile, score = when it was last written, in
 * unix ms. */
#define KW_KEY_PROFILES  KW_KEY_PREFIX "profiles"
/** Field of a profile's hash: api/profile.h. */
#define KW_FIELD_PROFILE "profile"

/** Long enough for any key: prefix, kind, braces, and a node name of at most KW_NODE_NAME_MAX; or a
 * namespace, a kind and the name of a workload. */
#define KW_KEY_MAX       416
#define KW_NODE_NAME_MAX 253 /**< RFC 1123 subdomain, as Kubernetes */

/** "kwatt:v1:node:{NODE}": hash. Braces are literal: a node's keys share a cluster slot. @return
 * length, or -EINVAL for a name that is empty, too long or holds braces, blanks or control bytes.
 */
int kw_key_node(char out[KW_KEY_MAX], const char *node);

/** "kwatt:v1:pods:{NODE}": hash, field = workload id, value = api/pod_record.h. @return as
 * kw_key_node. */
int kw_key_pods(char out[KW_KEY_MAX], const char *node);

/** "kwatt:v1:advice:{NODE}": hash, field = workload id, value = api/advice.h; written by the
 * recommender where there is no API server. @return as kw_key_node. */
int kw_key_advice(char out[KW_KEY_MAX], const char *node);

/** "kwatt:v1:profile:NS/KIND/NAME": hash, of a workload (api/top_owner.h); written by the
 * recommender. What follows the prefix is its member of KW_KEY_PROFILES. @return length, or -EINVAL
 * for texts that no Kubernetes object has as these. */
int kw_key_profile(char out[KW_KEY_MAX], const char *ns, const char *kind, const char *name);

/** The member of KW_KEY_PROFILES in a key of kw_key_profile. */
#define KW_KEY_PROFILE_MEMBER(key) ((key) + sizeof(KW_KEY_PREFIX "profile:") - 1)

/** Which feed a node's entries are in: 0..KW_FEED_SHARDS - 1 (FNV-1a of its name, modulo). */
unsigned kw_feed_shard(const char *node);

/** "kwatt:v1:feed:K". @param shard below KW_FEED_SHARDS. */
void kw_key_feed(char out[KW_KEY_MAX], unsigned shard);

/** "kwatt:v1:attribution:{NODE}": string: what the node's agent has learnt, for itself after a
 * restart; bytes of its own, which nobody else reads. @return as kw_key_node. */
int kw_key_attribution(char out[KW_KEY_MAX], const char *node);

/** Default ports. */
#define KW_PORT_EXTENDER    9890
#define KW_PORT_AGENT       9891
#define KW_PORT_RECOMMENDER 9892

/** Pod annotations. */
#define KW_ANNOTATION_PLACEMENT         "kwatt.io/placement"
#define KW_ANNOTATION_EXPECTED_CPU      "kwatt.io/expected-cpu"
#define KW_ANNOTATION_EXPECTED_WATTS    "kwatt.io/expected-watts"
#define KW_ANNOTATION_EXPECTED_LIFETIME "kwatt.io/expected-lifetime"
#define KW_ANNOTATION_CRITICAL          "kwatt.io/critical"

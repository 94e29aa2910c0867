/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"

/** What `kwatt check` found: lines "ok|degraded|missing TAB item TAB detail TAB remedy". */
enum cli_state_of { CLI_OK, CLI_DEGRADED, CLI_MISSING, CLI_STATE_OF__MAX };

/** "ok", "degraded", "missing"; index is enum cli_state_of. */
extern const char *const cli_state_of_names[CLI_STATE_OF__MAX];

struct cli_finding {
    enum cli_state_of state;
    char *item, *detail, *remedy; /**< never NULL; remedy "" where none is needed */
};

struct cli_findings {
    size_t n;
    struct cli_finding *items;
};

/** Frees all; leaves *findings zeroed. */
void cli_findings_clear(struct cli_findings *findings);

/** Adds one; texts are copied. @return 0 or -ENOMEM. */
int cli_findings_add(struct cli_findings *findings, enum cli_state_of state, const char *item,
                     const char *detail, const char *remedy);

/** Adds the lines of an agent's --check. Lines of another form are passed over. @param ret_n how
 * many were added. @return 0 or -ENOMEM. */
int cli_findings_parse(struct cli_findings *findings, const char *text, size_t len, size_t *ret_n);

/** Appends a table for people: one line each, the remedy below where there is one. */
void cli_findings_table(const struct cli_findings *findings, bool color, struct kw_buf *out);

/** Appends {"checks": [{state, item, detail, remedy}]}. */
void cli_findings_json(const struct cli_findings *findings, struct kw_buf *out);

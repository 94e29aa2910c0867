/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/buf.h"

/*
 * What kube-scheduler asks an extender, byte for byte as Go's HTTP client sends it, about nodes of
 * fleet.h.
 */

/**
 * Appends a request with a pod of about 3 kB.
 * @param path without its slash. @param n nodes: every (of / n)th of the fleet's first `of`.
 * @param whole Node objects of 14 kB in place of names. @return 0 or -ENOMEM.
 */
int question_add(struct kw_buf *out, const char *path, unsigned n, unsigned of, bool whole);

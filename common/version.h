/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** "0.1.0 (commit 0123456789ab)": what --version prints after the program's name. */
const char *kw_version_text(void);

/** "0.1.0" */
const char *kw_version(void);

/** "0123456789ab", or "unknown" for a build outside git. */
const char *kw_version_commit(void);

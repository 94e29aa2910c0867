/* SPDX-License-Identifier: Apache-2.0 */
#include "common/version.h"

#include "common/version_generated.h"

const char *kw_version_text(void)
{
    return KW_VERSION " (commit " KW_COMMIT ")";
}

const char *kw_version(void)
{
    return KW_VERSION;
}

const char *kw_version_commit(void)
{
    return KW_COMMIT;
}

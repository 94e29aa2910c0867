/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http_client.h"

/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_record.h"

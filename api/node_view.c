/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node_view.h"

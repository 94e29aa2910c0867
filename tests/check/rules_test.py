# SPDX-License-Identifier: Apache-2.0
"""Every style rule has a case that it must find and one that it must leave alone."""
import unittest

import rules

HEAD = "/* SPDX-License-Identifier: Apache-2.0 */\n"
H = HEAD + "#pragma once\n"


def findings(rule: str, files: dict[str, str]):
    return list(rules.RULES[rule](rules.Tree(files)))


CASES = {
    # rule: (files that break it, files that keep it)
    "spdx": ({"api/a.c": "int x;\n"}, {"api/a.c": HEAD}),
    "pragma-once": ({"api/a.h": HEAD}, {"api/a.h": H}),
    "include-root": ({"api/a.c": '#include "a.h"\n', "api/a.h": H}, {"api/a.c": '#include "api/a.h"\n', "api/a.h": H}),
    "include-direction": ({"extender/a.c": '#include "node-agent/b.h"\n'}, {"extender/a.c": '#include "api/b.h"\n'}),
    "third-party": ({"common/a.c": "#include <curl/curl.h>\n", "common/b.c": "#include <curl/curl.h>\n"},
                    {"common/a.c": "#include <curl/curl.h>\n", "common/kube_b.c": "#include <jansson.h>\n"}),
    "banned-call": ({"api/a.c": "int f(void)\n{\n    return atoi(x);\n}\n"},
                    {"api/a.c": "/* atoi(x) */ const char *s = \"atoi(x)\"; int y = kw_parse(x); int z = q->signal(1);\n"}),
    "no-log": ({"common/a.c": 'kw_log_warn(log, "x");\n'}, {"extender/a.c": 'kw_log_warn(log, "x");\n'}),
    "pure": ({"extender/score.c": "#include <time.h>\n"}, {"extender/score.c": '#include "extender/hull.h"\n'}),
    "doc-comment": ({"api/a.h": H + "\nint kw_a(int x);\n"},
                    {"api/a.h": H + "\n/** Says a. */\nint kw_a(int x);\nint kw_b(\n    int y);\n"}),
    "unit-name": ({"api/a.h": H + "struct kw_a {\n    uint64_t timeout;\n};\n"},
                  {"api/a.h": H + "struct kw_a {\n    uint64_t timeout_ms;\n    char *interval;\n};\n"}),
    "prefix": ({"extender/a.h": H + "/** A. */\nint score(int x);\n"}, {"extender/a.h": H + "/** A. */\nint ext_score(int x);\n"}),
    "length": ({"cli/main.c": "\n" * 81}, {"cli/main.c": "\n" * 80}),
    "leftover": ({"api/a.c": "/* TO" "DO: later */\n"}, {"api/a.c": "int todo_count;\n"}),
    "machine-path": ({"README.md": "see /wo" "rk/main\n"}, {"README.md": "see docs/wo" "rk/main\n"}),
}


class Rules(unittest.TestCase):
    def test_each_rule_finds_what_breaks_it(self):
        for rule, (bad, _) in CASES.items():
            with self.subTest(rule):
                found = findings(rule, bad)
                self.assertTrue(found)
                self.assertTrue(all(f.line > 0 and f.text and f.remedy for f in found))

    def test_each_rule_leaves_alone_what_keeps_it(self):
        for rule, (_, good) in CASES.items():
            with self.subTest(rule):
                self.assertEqual(findings(rule, good), [])

    def test_no_rule_is_without_a_case(self):
        self.assertEqual(set(rules.RULES) - set(CASES), {"formatting"})

    def test_a_long_function_is_named_with_its_line(self):
        body = "int f(void)\n{\n" + "    x();\n" * 90 + "}\n"
        found = findings("length", {"api/a.c": body})
        self.assertEqual([(f.line, "f()" in f.text) for f in found], [(1, True)])

    def test_a_static_function_carries_no_prefix(self):
        self.assertTrue(findings("prefix", {"api/a.c": "static int kw_f(void)\n{\n}\n"}))


unittest.main()

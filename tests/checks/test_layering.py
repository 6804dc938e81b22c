"""layering.py finds an include that points upward and a getenv outside policy/."""

import unittest

from support import CheckTest


class Layering(CheckTest):
    def check(self, name, text):
        self.write("policy/policy.h", "#pragma once\n")
        self.write(name, text)
        return self.run_check("layering", self.scratch)

    def test_downward_is_fine(self):
        self.write("tracer/record.h", "")
        self.assert_fine(self.check("shim/entry.cpp", '#include "policy/policy.h"\n#include "tracer/record.h"\n#include <vector>\n'))

    def test_upward(self):
        self.assert_finds(self.check("tracer/a.cpp", '#include "shim/entry.h"\n'), "tracer/a.cpp:1: tracer/ includes shim/entry.h")

    def test_policy_includes_nothing_of_ours(self):
        self.assert_finds(self.check("policy/a.cpp", '\n\n#include "tracer/record.h"\n'), "policy/a.cpp:3:")

    def test_engines_do_not_include_each_other(self):
        for one, other in (("allocator", "transfer"), ("transfer", "tracer"), ("tracer", "allocator")):
            with self.subTest(one):
                self.assert_finds(self.check(f"{one}/a.cpp", f'#include "{other}/b.h"\n'), f"{one}/ includes {other}/b.h")

    def test_tools_do_not_include_engines(self):
        self.assert_finds(self.check("tools/cli/a.cpp", '#include "allocator/pool.h"\n'), "tools/ includes allocator/pool.h")

    def test_nothing_includes_tests(self):
        self.assert_finds(self.check("shim/a.cpp", '#include "tests/sim/simcuda.h"\n'), "shim/ includes tests/sim/simcuda.h")

    def test_angle_brackets_hide_nothing(self):
        self.assert_finds(self.check("policy/a.h", "#  include <shim/gate.h>\n"), "policy/ includes shim/gate.h")

    def test_nvidias_own_folder_of_that_name(self):
        self.assert_fine(self.check("tools/dev/bench/a.cpp", "#include <cuda/stream_ref>\n"))
        self.write("cuda/driver.h", "")
        self.assert_finds(self.check("tools/dev/bench/a.cpp", "#include <cuda/driver.h>\n"), "tools/ includes cuda/driver.h")
        self.assert_finds(self.check("cuda/a.cpp", '#include "transfer/engine.h"\n'), "cuda/ includes transfer/engine.h")

    def test_folders_that_include_each_other(self):
        self.write("tools/trace/db/table.h", "")
        self.write("tools/trace/report/a.cpp", '#include "tools/trace/db/table.h"\n')
        self.assert_fine(self.check("tools/trace/db/a.cpp", '#include "tools/text/b.h"\n'))
        done = self.check("tools/trace/db/a.cpp", '#include "tools/trace/report/b.h"\n')
        one, other = "tools/trace/db", "tools/trace/report"
        self.assert_finds(done, f"{one}/a.cpp includes {other}/b.h; {other}/ leads back to {one}/")
        self.assert_finds(done, f"{other}/a.cpp includes {one}/table.h; {one}/ leads back to {other}/")

    def test_rooms_that_lead_to_each_other_by_folders_that_do_not(self):
        self.write("tracer/one/a/a.h", '#include "tracer/two/b/b.h"\n')
        self.assert_fine(self.check("tracer/two/b/b.h", '#include "tracer/two/c/c.h"\n'))
        done = self.check("tracer/two/c/c.h", '#include "tracer/one/d/d.h"\n')
        self.assert_finds(done, "tracer/two/c/c.h includes tracer/one/d/d.h; tracer/one/ leads back to tracer/two/")

    def test_the_rooms_of_tools(self):
        self.assert_fine(self.check("tools/cli/a.cpp", '#include "tools/trace/db/b.h"\n#include "tools/text/b.h"\n'))
        self.assert_fine(self.check("tools/dev/bench/a.cpp", '#include "tools/trace/report/b.h"\n'))
        for room, other in (("trace/top", "cli"), ("text", "trace/db"), ("cli", "dev/bench"), ("trace/db", "dev/bench"),
                            ("dev/bench", "cli"), ("new", "text")):
            with self.subTest(room):
                done = self.check(f"tools/{room}/wrong.cpp", f'#include "tools/{other}/b.h"\n')
                self.assert_finds(done, f"tools/{room}/wrong.cpp:1: tools/{room.split('/')[0]}/ includes tools/{other}/b.h")

    def test_a_circle_of_three(self):
        self.write("tracer/python/a.cpp", '#include "tracer/spool/b.h"\n')
        self.write("tracer/spool/a.h", '#include "tracer/tracer.h"\n')
        self.assert_finds(self.check("tracer/tracer.h", '#include "tracer/python/c.h"\n'), "tracer/spool/a.h includes tracer/tracer.h;")

    def test_a_relative_path_hides_nothing(self):
        self.write("shim/gate.h", "")
        self.assert_finds(self.check("policy/a.h", '#include "../shim/gate.h"\n'), "policy/ includes shim/gate.h")

    def test_a_macro_cannot_be_seen_through(self):
        self.assert_finds(self.check("policy/a.h", "#include WHAT\n"), "includes the macro WHAT")

    def test_the_hook_table_may_be_read_by_tools_and_not_below_the_shim(self):
        self.assert_fine(self.check("tools/cli/a.cpp", '#include "shim/hooks.def"\n'))
        self.assert_finds(self.check("tracer/a.cpp", '#include "shim/hooks.def"\n'), "tracer/ includes shim/hooks.def")

    def test_the_decisions_may_be_read_by_tools_and_not_by_the_tracer(self):
        self.assert_fine(self.check("tools/dev/reference/a.cpp", '#include "transfer/decision.h"\n'))
        done = self.check("tools/dev/reference/a.cpp", '#include "transfer/transfer.h"\n')
        self.assert_finds(done, "tools/ includes transfer/transfer.h")
        self.assert_finds(self.check("tracer/a.cpp", '#include "transfer/decision.h"\n'), "tracer/ includes transfer/decision.h")

    def test_comments_do_not_count(self):
        self.assert_fine(self.check("policy/a.h", '// #include "shim/a.h"\n/*\n#include "shim/a.h"\n*/\n'))

    def test_getenv_outside_policy(self):
        for call in ("getenv", "std::getenv", "secure_getenv"):
            with self.subTest(call):
                self.assert_finds(self.check("shim/a.cpp", f'auto x = {call}("HOME");\n'), "only policy/ reads the environment")
        self.assert_finds(self.check("tools/cli/a.cpp", 'const int n = 16\'384; auto x = getenv("HOME");  // it\'s\n'), "tools/cli/a.cpp:1")

    def test_getenv_where_it_may_be(self):
        self.assert_fine(self.check("policy/environment.cpp", 'auto x = getenv("HOME");\n'))
        self.assert_fine(self.check("shim/a.cpp", '// getenv\nconst char* text = "getenv is not called";\n'))

    def test_looking_at_nothing_proves_nothing(self):
        self.assert_finds(self.run_check("layering", self.scratch), "nothing to look at")


if __name__ == "__main__":
    unittest.main()

"""What is in the wheel: the files, what they need of a machine, and what they show of themselves."""

import re
import subprocess
import sys
import tarfile
import unittest
import zipfile
from email.parser import HeaderParser

from support import ROOT, WheelTest, run, the

WHEEL = the("slipstream-*.whl")
DEMO = the("slipstream_demo-*.whl")
ARCHIVE = the("slipstream-*.tar.gz")
# As it was before it was stripped: names of what runs at load are looked at.
BUILT = ROOT / "build" / "wheel" / "libslipstream.so"
CHECKS = ROOT / "tools" / "dev" / "checks"
OLDEST_GLIBC = (2, 28)
# What every machine with that glibc has.
OF_THE_C_LIBRARY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}


def version_of_project():
    return re.search(r"project\(slipstream VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


class Files(WheelTest):
    def setUp(self):
        super().setUp()
        with zipfile.ZipFile(WHEEL) as packed:
            packed.extractall(self.scratch)
            self.names = set(packed.namelist())
            self.modes = {member.filename: member.external_attr >> 16 for member in packed.infolist()}
        self.stem = f"slipstream-{version_of_project()}"
        self.command = self.scratch / f"{self.stem}.data" / "scripts" / "slipstream"
        self.library = self.scratch / f"{self.stem}.data" / "data" / "libexec" / "libslipstream.so"

    def metadata(self, name):
        return HeaderParser().parsestr((self.scratch / f"{self.stem}.dist-info" / name).read_text())

    def test_nothing_but_what_is_needed(self):
        info = f"{self.stem}.dist-info"
        pages = {name for name in self.names if re.fullmatch(
            rf"{self.stem}\.data/data/share/(man/man[157]/slipstream[a-z-]*\.[157]|slipstream/(help/[a-z0-9-]+\.txt|topics))", name)}
        self.assertEqual(self.names - pages, {
            "slipstream/__init__.py", "slipstream/__main__.py", f"{self.stem}.data/scripts/slipstream",
            f"{self.stem}.data/data/libexec/libslipstream.so", f"{self.stem}.data/data/share/slipstream/demo/train_resnet_demo.py",
            f"{self.stem}.data/data/share/slipstream/grafana_dashboard.json",
            f"{info}/METADATA", f"{info}/RECORD", f"{info}/WHEEL", f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE.md"})
        self.assertGreater(len(pages), 80)
        self.assertEqual(self.modes[f"{self.stem}.data/scripts/slipstream"] & 0o777, 0o755)
        self.assertLess(WHEEL.stat().st_size, 8 << 20)

    def test_the_manual_is_small(self):
        with zipfile.ZipFile(WHEEL) as packed:
            self.assertLess(sum(member.compress_size for member in packed.infolist() if "/share/" in member.filename), 1 << 20)

    def test_what_pip_shows(self):
        metadata = self.metadata("METADATA")
        self.assertEqual(metadata["Author"], "The slipstream authors")
        self.assertEqual(metadata["License-Expression"], "Apache-2.0")
        self.assertTrue(metadata["Summary"])
        self.assertIn("Environment :: Console", metadata.get_all("Classifier"))

    def test_the_demo_is_a_wheel_of_its_own(self):
        folder = f"slipstream_demo-{version_of_project()}"
        with zipfile.ZipFile(DEMO) as packed:
            names = {name for name in packed.namelist() if ".dist-info/" not in name}
            packed.extractall(self.scratch)
        place = f"{folder}.data/data/libexec/slipstream-demo"
        self.assertEqual(names, {f"{place}/{name}" for name in ("libcuda.so.1", "libcudart.so.13", "libcupti.so.13", "train_loop")}
                         | {f"{folder}.data/data/share/doc/slipstream-demo/LICENSE"})
        self.assertLess(DEMO.stat().st_size, 2 << 20)
        metadata = HeaderParser().parsestr((self.scratch / f"{folder}.dist-info" / "METADATA").read_text())
        self.assertEqual((metadata["Name"], metadata["Version"], metadata.get("Requires-Dist")), ("slipstream-demo", version_of_project(), None))
        for name in names:
            if "/libexec/" in name:
                versions = {tuple(map(int, found.split("."))) for found in re.findall(r"@GLIBC_([0-9.]+)", self.elf("--dyn-syms", self.scratch / name))}
                self.assertLessEqual(max(versions), OLDEST_GLIBC, name)
                self.assertNotIn(str(ROOT).encode(), (self.scratch / name).read_bytes())

    def test_its_name_says_where_it_runs(self):
        self.assertEqual(WHEEL.name, f"{self.stem}-py3-none-manylinux_2_28_x86_64.whl")
        self.assertEqual(self.metadata("WHEEL").get_all("Tag"), ["py3-none-manylinux_2_28_x86_64"])
        self.assertEqual(self.metadata("WHEEL")["Root-Is-Purelib"], "false")

    def test_it_depends_on_nothing(self):
        metadata = self.metadata("METADATA")
        self.assertEqual(metadata["Name"], "slipstream")
        self.assertEqual(metadata["Version"], version_of_project())
        # What the extra brings is of the same version.
        self.assertEqual([re.sub(r'\s|"|\'', "", one) for one in metadata.get_all("Requires-Dist")],
                         [f"slipstream-demo=={version_of_project()};extra==demo"])

    def elf(self, *arguments):
        return subprocess.run(["readelf", "--wide", *arguments], capture_output=True, text=True, check=True).stdout

    def test_what_the_binaries_need_is_on_every_machine(self):
        for binary in (self.command, self.library):
            with self.subTest(binary.name):
                needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", self.elf("--dynamic", binary)))
                self.assertTrue(needed)
                self.assertLessEqual(needed, OF_THE_C_LIBRARY)
                self.assertNotRegex(self.elf("--dynamic", binary), r"\(R(UN)?PATH\)")
                versions = {tuple(map(int, found.split("."))) for found in
                            re.findall(r"@GLIBC_([0-9.]+)", self.elf("--dyn-syms", binary))}
                self.assertTrue(versions)
                self.assertLessEqual(max(versions), OLDEST_GLIBC)
                self.assertNotIn("GLIBCXX", self.elf("--version-info", binary))

    def test_the_library_is_held_to_the_checks_of_the_one_that_is_tested(self):
        # Before glibc 2.34 threads and the loader had libraries of their own, which are there with every newer one.
        for command in (["exports.py", self.library, ROOT / "shim" / "hooks.def"],
                        ["needed.py", self.library, "--allow", "libpthread.so", "libdl.so"],
                        ["symbols.py", BUILT, "--compiler", "none"]):
            with self.subTest(command[0]):
                self.succeeds(sys.executable, CHECKS / command[0], *command[1:])

    def test_no_path_of_the_machine_that_built_it(self):
        for binary in (self.command, self.library):
            self.assertNotIn(str(ROOT).encode(), binary.read_bytes())

    def test_auditwheel_agrees(self):
        tools = ROOT / "build" / "wheel-tools"
        if not (tools / "auditwheel").is_dir():
            self.skipTest("auditwheel is not here; tools/setup --wheel brings it")
        said = run(sys.executable, "-m", "auditwheel", "show", WHEEL, environment={"PYTHONPATH": str(tools), "PATH": "/usr/bin:/bin"})
        self.assertEqual(said.returncode, 0, said.stderr)
        found = re.search(r'platform tag: "manylinux_2_(\d+)_x86_64"', " ".join(said.stdout.split()))
        self.assertTrue(found and int(found[1]) <= OLDEST_GLIBC[1], said.stdout)

    def test_the_archive_has_the_same_files(self):
        top = f"{self.stem}-linux-x86_64"
        with tarfile.open(ARCHIVE) as packed:
            content = {member.name: packed.extractfile(member).read() for member in packed.getmembers() if member.isfile()}
        data = f"{self.stem}.data/data/"
        shared = {f"{top}/{name.removeprefix(data)}" for name in self.names if name.startswith(f"{data}share/")}
        self.assertEqual(set(content) - shared, {f"{top}/bin/slipstream", f"{top}/libexec/libslipstream.so",
                                                 f"{top}/share/doc/slipstream/LICENSE", f"{top}/share/doc/slipstream/NOTICE.md"})
        self.assertEqual(shared - set(content), set())
        self.assertEqual(content[f"{top}/bin/slipstream"], self.command.read_bytes())
        self.assertEqual(content[f"{top}/libexec/libslipstream.so"], self.library.read_bytes())


if __name__ == "__main__":
    unittest.main()

"""What is in the deb and the rpm: the wheel's own files below /usr, and nothing needed but the C library."""

import io
import re
import shutil
import subprocess
import tarfile
import unittest
import zipfile

from support import DIST, WheelTest, the

WHEEL = the("slipstream-*.whl")
VERSION = WHEEL.name.split("-")[1]
# Folders of every distribution's, in which there may be files of ours.
PLACES = re.compile(r"usr/(bin/slipstream|libexec/libslipstream\.so|share/(man/man[157]/slipstream[^/]*|slipstream/.+|doc/slipstream/[^/]+|"
                    r"bash-completion/completions/slipstream|zsh/(vendor-completions|site-functions)/_slipstream|"
                    r"fish/vendor_completions\.d/slipstream\.fish))")


def of_the_wheel():
    """Path below usr and bytes of what the wheel has for machines."""
    with zipfile.ZipFile(WHEEL) as packed:
        for name in packed.namelist():
            found = re.fullmatch(r"slipstream-[^/]+\.(?:data/(?:scripts/(slipstream)|data/(.+))|dist-info/licenses/(.+))", name)
            if found:
                path = found[2] or (f"bin/{found[1]}" if found[1] else f"share/doc/slipstream/{found[3]}")
                yield f"usr/{path}", packed.read(name)


class Packages(WheelTest):
    def check(self, files):
        """`files`: mode, owner and bytes by path."""
        for path, (mode, owner, _) in files.items():
            self.assertRegex(path, PLACES)
            self.assertEqual(mode & 0o7777, 0o755 if path.startswith(("usr/bin/", "usr/libexec/")) else 0o644, path)
            self.assertEqual(owner, "root", path)
        for path, data in of_the_wheel():
            self.assertEqual(files[path][2], data, path)
        for shell in ("bash-completion/completions/slipstream", "fish/vendor_completions.d/slipstream.fish"):
            self.assertIn(b"slipstream", files[f"usr/share/{shell}"][2])

    def test_deb(self):
        if shutil.which("dpkg-deb") is None:
            self.skipTest("dpkg-deb is not here")
        deb = the("slipstream_*.deb")
        self.assertEqual(deb.name, f"slipstream_{VERSION}_amd64.deb")
        fields = dict(re.findall(r"(?m)^([\w-]+): (.+)$", self.succeeds("dpkg-deb", "--field", deb).stdout))
        self.assertEqual((fields["Package"], fields["Version"], fields["Architecture"]), ("slipstream", VERSION, "amd64"))
        self.assertEqual(fields["Depends"], "libc6 (>= 2.28)")
        packed = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as content:
            self.check({member.name.removeprefix("./"): (member.mode, member.uname, content.extractfile(member).read())
                        for member in content.getmembers() if member.isfile()})
        control = subprocess.run(["dpkg-deb", "--ctrl-tarfile", deb], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(control)) as content:
            self.assertEqual({name.removeprefix("./") for name in content.getnames()} - {"", "."}, {"control", "md5sums"})  # no scripts

    def test_rpm(self):
        if shutil.which("rpm") is None or shutil.which("rpm2archive") is None:
            self.skipTest("rpm is not here (Debian: apt install rpm)")
        found = sorted(DIST.glob("slipstream-*.rpm"))
        if not found:
            self.skipTest("tools/wheel made no rpm: rpmbuild was not here")
        self.assertEqual([path.name for path in found], [f"slipstream-{VERSION}.x86_64.rpm"])

        def ask(*words):
            return self.succeeds("rpm", "--dbpath", self.scratch / "db", "-qp", *words, found[0]).stdout

        self.assertEqual(ask("--queryformat", "%{NAME} %{VERSION} %{ARCH} %{LICENSE}"), f"slipstream {VERSION} x86_64 Apache-2.0")
        needs = ask("--requires").split("\n")
        for need in filter(None, needs):
            self.assertRegex(need, r"^(lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux-x86-64\.so\.2|rtld\(GNU_HASH\)|rpmlib\()")
        self.assertIn("libc.so.6(GLIBC_2.28)(64bit)", needs)
        self.assertEqual([line for line in ask("--provides").splitlines() if not line.startswith("slipstream")], [])
        self.assertEqual(ask("--scripts"), "")
        self.assertIn("slipstream run -- python train.py", ask("--queryformat", "%{DESCRIPTION}"))
        listed = ask("--queryformat", "[%{FILENAMES}\\t%{FILEMODES:octal}\\t%{FILEUSERNAME}\\n]")
        rows = [line.split("\t") for line in listed.splitlines()]
        folders = {path for path, mode, _ in rows if mode.startswith("4")}
        self.assertLessEqual({"/usr/share/slipstream", "/usr/share/slipstream/help", "/usr/share/doc/slipstream"}, folders)
        for folder in folders:
            self.assertRegex(folder, r"/(slipstream|bash-completion|zsh|fish)(/|$)")  # no other that every distribution has
        packed = subprocess.run(["rpm2archive", "-"], input=found[0].read_bytes(), capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as content:
            data = {member.name.removeprefix("./"): content.extractfile(member).read() for member in content.getmembers() if member.isfile()}
        self.check({path[1:]: (int(mode, 8), owner, data[path[1:]]) for path, mode, owner in rows if not mode.startswith("4")})


if __name__ == "__main__":
    unittest.main()

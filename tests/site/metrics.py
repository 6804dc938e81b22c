#!/usr/bin/env python3
"""What `slipstream metrics` says of runs on the simulated device, and who reads it.

    metrics.py BUILD [TestCase...]

Judge reads it with Prometheus's own parsers (package prometheus_client): tools/setup brings them into build/judges, which ctest puts onto
PYTHONPATH. Exit status 77 where they are not there.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

from site_testing import LIMIT_S, SLIPSTREAM, SiteTest

import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "tools" / "site" / "grafana_dashboard.json"
SAMPLE = re.compile(r'^(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>[0-9.]+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"(?:,|$)')
RUNS = 10


def samples_of(text):
    """{name: {labels: value}}"""
    samples = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            sample = SAMPLE.match(line)
            labels = frozenset(LABEL.findall(sample["labels"] or ""))
            assert labels not in samples.setdefault(sample["name"], {}), line
            samples[sample["name"]][labels] = float(sample["value"])
    return samples


class Nodes(SiteTest):
    maxDiff = None

    def scrape(self, *options):
        return self.slipstream("metrics", *options).stdout

    def of_run(self, samples, worker):
        """What the metrics say of it: {(name, label of its own): value}"""
        said = {}
        for name, values in samples.items():
            for labels, value in values.items():
                labels = dict(labels)
                if labels.pop("run", None) == str(worker.pid):
                    labels.pop("user"), labels.pop("program")
                    said[name.removeprefix("slipstream_"), *sorted(labels.values())] = value
        return said


def sums(record):
    """The same of the run's summary."""
    totals, last = record["summary"]["totals"], {}
    [process] = record["summary"]["processes"]
    for sample in process["memory"]:
        last[sample["device"]] = sample
    copies = {copy["kind"]: copy for copy in totals["copies"]}
    decided = lambda *names: [one for name, one in totals["decisions"].items() if name.startswith(names)]
    total = lambda rows, key: sum(row[key] for row in rows)
    said = {
        ("calls_total",): total(totals["functions"], "calls"), ("call_errors_total",): total(totals["functions"], "errors"),
        ("call_seconds_total",): total(totals["functions"], "time_ns") / 1e9,
        ("run_start_time_seconds",): round(record["start_unix_ns"] / 1e9, 3),
        ("processes",): 1,
        ("skipped_synchronizations_total",): total(decided("transfer.sync.skipped"), "count"),
        ("pool_allocations_total",): total(decided("allocator.reused"), "count"),
        ("failed_open_calls_total",): total(record["failed_open"], "calls"),
        ("estimated_gain_seconds",): record["gained"]["estimated_ns"] / 1e9, ("gain_unknown",): record["gained"]["unknown"],
    }
    for kind in ("host_to_host", "host_to_device", "device_to_host", "device_to_device", "default"):
        said["copies_total", kind] = copies.get(kind, {"calls": 0})["calls"]
        said["copied_bytes_total", kind] = copies.get(kind, {"bytes": 0})["bytes"]
    for direction, name in (("host_to_device", "transfer.h2d.promoted"), ("device_to_host", "transfer.d2h.promoted")):
        said["promoted_copies_total", direction] = total(decided(name), "count")
        said["promoted_bytes_total", direction] = total(decided(name), "bytes")
    for engine in ("allocator", "transfer", "trace"):
        said["standing_aside_processes", engine] = sum(one["processes"] for one in record["stood_aside"] if one["engine"] == engine)
    for device, sample in last.items():
        said["pool_bytes", str(device)] = sample["live_bytes"] + sample["idle_bytes"]
    return said


def counters(said):
    return {what: value for what, value in said.items() if what[0].endswith("_total")}


def take_pool(said):
    """What the pool holds, live or idle, which is sampled now and then: taken out of it."""
    pool = [what for what in said if what[0] == "pool_bytes"]
    return sum(said.pop(what) for what in pool)


class Metrics(Nodes):
    def test_counters_are_those_of_the_summaries(self):
        """Ten runs, scraped when they have done their calls and wait; then they end and leave their summaries."""
        workers = []
        for number in range(RUNS):
            # Nothing is given back meanwhile.
            more = {"SLIPSTREAM_ALLOCATOR_DECAY": "3600"} | ({"CUDA_LAUNCH_BLOCKING": "1"} if number % 3 == 1 else {})
            workers.append(self.start_worker("--quiet", **more))
        for number, worker in enumerate(workers):
            self.work(worker, number + 1)
        scraped = samples_of(self.scrape())
        # Nothing is counted that is not done. Of runs beside these, which a node may have, nothing is said.
        again = samples_of(self.scrape())
        for worker in workers:
            self.assertEqual(counters(self.of_run(again, worker)), counters(self.of_run(scraped, worker)))
        for worker in workers:
            self.assertEqual(self.end_worker(worker), 0)
        records = {}
        for path in self.runs.glob("*.json"):
            record = json.loads(path.read_text())
            records[record["pid"]] = record
        self.assertEqual(set(records), {worker.pid for worker in workers})
        aside = 0
        for number, worker in enumerate(workers):
            record = records[worker.pid]
            expected = sums(record)
            said = self.of_run(scraped, worker)
            self.assertTrue(1 << 21 <= take_pool(said) <= take_pool(expected))
            self.assertEqual(said, expected)
            self.assertEqual(expected["copies_total", "host_to_device"], number + 1)
            aside += expected["standing_aside_processes", "transfer"]
        self.assertEqual(aside, 3)
        self.assertGreater(sum(sums(record)["promoted_bytes_total", "host_to_device"] for record in records.values()), 0)
        program = pathlib.Path(sys.executable).name
        [count] = [value for labels, value in scraped["slipstream_runs"].items()
                   if dict(labels) == {"user": records[workers[0].pid]["user"], "program": program}]
        self.assertGreaterEqual(count, RUNS)
        # They are gone with their runs.
        self.assertEqual(self.of_run(samples_of(self.scrape()), workers[0]), {})

    def test_a_file_is_written_again_and_again_and_removed(self):
        file = self.place / "slipstream.prom"
        for number in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen([SLIPSTREAM, "metrics", "--output", file, "--interval", "1s"], env=self.env, umask=0o077,
                                  stderr=subprocess.PIPE) as writer:
                self.addCleanup(writer.kill)
                seen, end = set(), time.monotonic() + LIMIT_S
                while len(seen) < 2:
                    self.assertLess(time.monotonic(), end, "it was not written twice")
                    if file.exists():
                        seen.add(file.stat().st_mtime_ns)
                self.assertEqual(file.stat().st_mode & 0o7777, 0o644)
                self.assertIn("slipstream_build_info", samples_of(file.read_text()))
                writer.send_signal(number)
                self.assertEqual(writer.wait(LIMIT_S), 0)
                self.assertEqual(writer.stderr.read(), b"")
            self.assertEqual([path.name for path in self.place.glob("*.prom*")], [])

    def test_a_file_that_is_written_once_stays(self):
        self.assertEqual(self.scrape("--output", "once.prom"), "")
        self.assertIn("slipstream_build_info", samples_of((self.place / "once.prom").read_text()))
        self.assertEqual([path.name for path in self.place.glob("*.prom*")], ["once.prom"])
        for more in ((), ("--interval", "1s")):
            done = self.slipstream("metrics", "--output", "none/s.prom", *more, status=1)
            self.assertEqual(done.stderr, "slipstream metrics: none/s.prom cannot be written: No such file or directory. "
                                          "Name a file in a folder that you may write\n")
        self.slipstream("metrics", "--interval", "1s", status=2)

    def test_the_dashboard_asks_for_what_there_is(self):
        worker = self.start_worker()
        self.work(worker, 1)
        samples = samples_of(self.scrape())
        self.end_worker(worker)
        dashboard = json.loads(DASHBOARD.read_text())
        asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        asked += [one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
        names = set(re.findall(r"slipstream_[a-z_]+", " ".join(asked)))
        self.assertGreater(len(names), 10)
        self.assertEqual(names - set(samples), set())
        for expression in asked:
            for name, matchers in re.findall(r"(slipstream_[a-z_]+)\{([^}]*)\}", expression):
                labels = set().union(*(dict(labels) for labels in samples[name]))
                self.assertLessEqual(set(re.findall(r"([a-z_]+)[=!]", matchers)), labels | {"instance"}, expression)

    def test_the_document_has_every_metric(self):
        document = (ROOT / "docs" / "site.md").read_text()
        written = set(re.findall(r"^# TYPE (\S+)", self.scrape(), re.MULTILINE))
        self.assertEqual(set(re.findall(r"^\| `(slipstream_[a-z_]+)", document, re.MULTILINE)), written)
        alerts = " ".join(re.findall(r"expr: (.*)", document))
        self.assertGreater(len(re.findall(r"slipstream_[a-z_]+", alerts)), 3)
        self.assertLessEqual(set(re.findall(r"slipstream_[a-z_]+", alerts)), written)


class Judge(Nodes):
    def test_both_formats_are_read_and_say_the_same(self):
        from prometheus_client.openmetrics import parser as open_metrics
        from prometheus_client import parser as prometheus

        strange = self.place / 'a"b\\c\n{d="e"} 1 \u00e9'
        strange.symlink_to(sys.executable)
        worker = self.start_worker()
        self.work(worker, 2)
        with subprocess.Popen([SLIPSTREAM, "run", "--", strange, "worker.py"], cwd=self.place, env=self.env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as other:
            self.work(other, 1)
            plain = list(prometheus.text_string_to_metric_families(self.scrape()))
            strict = list(open_metrics.text_string_to_metric_families(self.scrape("--openmetrics")))
        self.end_worker(worker)
        mine = {str(worker.pid), str(other.pid)}

        def read(families):
            return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples
                    if sample.labels.get("run") in mine}

        self.assertEqual(read(plain), read(strict))
        self.assertEqual(len({dict(labels)["run"] for _, labels in read(plain)}), 2)
        programs = {dict(labels)["program"] for _, labels in read(plain)}
        self.assertEqual(programs, {pathlib.Path(sys.executable).name, 'a"b\\c\\n{d="e"} 1 \u00e9'})
        types = {family.name: family.type for family in strict}
        self.assertEqual(types["slipstream_calls"], "counter")
        self.assertEqual(types["slipstream_build"], "info")
        self.assertEqual(types["slipstream_pool_bytes"], "gauge")
        for family in plain:
            self.assertTrue(family.documentation.endswith("."), family.name)
            self.assertTrue(family.name.startswith("slipstream_"), family.name)


if __name__ == "__main__":
    if sys.argv[2:] == ["Judge"]:
        try:
            import prometheus_client
        except ImportError:
            print("prometheus_client is not here; tools/setup brings it")
            sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])

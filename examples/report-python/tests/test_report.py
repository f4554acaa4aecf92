import unittest
from pathlib import Path

from leasehold import Cancelled, Permanent
from leasehold.testing import TestHost
from line import parse
from report import report

LINE = b'192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 100 "-" "curl/8.5.0"'
SAMPLE = Path(__file__).parent.parent.parent / "report/access.log"


class Report(unittest.TestCase):
    def test_a_raw_log_is_counted_and_its_broken_lines_too(self) -> None:
        expected = {
            "lines": 3,
            "malformed": 1,
            "bytes": 200,
            "by_status": {"200": 2},
            "by_path": [{"path": "/a", "count": 2, "bytes": 200}],
            "other_paths": {"count": 0, "bytes": 0},
            "response_size": {"p50": 100, "p90": 100, "p99": 100, "max": 100},
        }
        self.assertEqual(TestHost().call(report, LINE + b"\n\nnonsense\n" + LINE + b"\r\n"), expected)

    def test_a_request_with_a_pace_gives_the_same_report_as_the_raw_log(self) -> None:
        host = TestHost()
        self.assertEqual(host.call(report, {"log": LINE.decode(), "pace_ms": 20}), host.call(report, LINE))
        self.assertEqual(host.slept_ms, 20)

    def test_a_request_with_an_unknown_key_is_refused(self) -> None:
        with self.assertRaises(Permanent) as caught:
            TestHost().call(report, {"log": "", "pace": 20})
        self.assertEqual(caught.exception.code, "bad-input")

    def test_it_stops_between_two_chunks(self) -> None:
        host = TestHost()
        host.stop("lost", after=2)
        with self.assertRaises(Cancelled):
            host.call(report, (LINE + b"\n") * 600)
        self.assertEqual(host.reported[-1][0], 400)

    def test_broken_lines_are_told_apart(self) -> None:
        for text in [
            b"",
            LINE[:60],
            LINE.replace(b"200", b"two-hundred"),
            LINE.replace(b"200", b"99999"),
            LINE.replace(b"100", b"+5"),
            LINE.replace(b"100", b"9" * 23),
            LINE.replace(b"[", b""),
        ]:
            self.assertIsNone(parse(text), text)
        probe = parse(LINE.replace(b"GET /a HTTP/1.1", rb"GET \"quoted\" path HTTP/1.1"))
        assert probe is not None
        self.assertEqual(probe.path, "-")
        broken = parse(LINE.replace(b"/a ", b"/caf\xff "))
        assert broken is not None
        self.assertEqual(broken.path, "/caf\ufffd")

    def test_the_sample_is_read_to_its_end(self) -> None:
        summary = TestHost().call(report, SAMPLE.read_bytes())
        self.assertGreater(summary["lines"], 2000)
        self.assertGreater(summary["malformed"], 0)


if __name__ == "__main__":
    unittest.main()

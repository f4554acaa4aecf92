"""What a handler is given: the signal, waiting, the checkpoint, key-values, requests, logging."""

import logging
import unittest
from datetime import datetime, timezone

import leasehold
from leasehold import Cancelled, Context, HttpError, Permanent, Retryable, StorageError
from leasehold import _logging
from leasehold._host import ContractError, set_host
from leasehold.testing import TestHost, http_error, reply


class TheSignal(unittest.TestCase):
    def test_a_stopped_run_says_why_and_waits_no_more(self) -> None:
        host = TestHost()

        def run(ctx: Context, _: object) -> object:
            ctx.signal.raise_if_stopped()
            before = (ctx.signal.stopped, ctx.signal.reason)
            host.stop("lost")
            with self.assertRaises(Cancelled) as slept:
                ctx.sleep(3600)
            with self.assertRaises(Cancelled):
                ctx.signal.raise_if_stopped()
            return [before, ctx.signal.stopped, ctx.signal.reason, slept.exception.reason]

        self.assertEqual(host.call(run), [[False, None], True, "lost", "lost"])
        self.assertEqual(host.slept_ms, 0)

    def test_it_stops_after_as_many_looks_as_the_test_wants(self) -> None:
        host = TestHost()
        host.stop("stopping", after=2)

        def run(ctx: Context, items: list) -> None:
            for done, _ in enumerate(items, 1):
                ctx.signal.raise_if_stopped()
                ctx.progress(done, len(items), "copied")

        with self.assertRaises(Cancelled):
            host.call(run, [1, 2, 3])
        self.assertEqual(host.reported[-1], (2, 3, "copied"))

    def test_waits_are_rounded_up_and_never_negative(self) -> None:
        host = TestHost()
        host.call(lambda ctx, _: ctx.sleep(0.0001))
        self.assertEqual(host.slept_ms, 1)
        with self.assertRaises(ValueError):
            host.call(lambda ctx, _: ctx.sleep(-1))

    def test_the_slot_is_a_point_in_time(self) -> None:
        self.assertEqual(TestHost().run.slot, datetime(2025, 1, 1, tzinfo=timezone.utc))
        self.assertEqual(TestHost(attempt=2).run.attempt, 2)


class Storage(unittest.TestCase):
    def test_a_checkpoint_comes_back_as_it_was_saved(self) -> None:
        host = TestHost()
        self.assertIsNone(host.call(lambda ctx, _: ctx.state.load()))
        host.call(lambda ctx, value: ctx.state.save(value), {"at": "ü"})
        self.assertEqual(host.call(lambda ctx, _: ctx.state.load()), {"at": "ü"})

    def test_keys_are_listed_in_order_and_compared(self) -> None:
        def run(ctx: Context, _: object) -> None:
            for key in ["b", "a/2", "a/1"]:
                ctx.kv.set(key, key)
            self.assertEqual(ctx.kv.list("a/"), ["a/1", "a/2"])
            self.assertEqual(ctx.kv.list("a/", after="a/1"), ["a/2"])
            self.assertFalse(ctx.kv.compare_and_set("b", None, "x"))
            self.assertTrue(ctx.kv.compare_and_set("b", b"b", "ü"))
            self.assertEqual((ctx.kv.get("b"), ctx.kv.get_text("b")), ("ü".encode(), "ü"))
            self.assertTrue(ctx.kv.delete("b"))
            self.assertFalse(ctx.kv.delete("b"))

        TestHost().call(run)

    def test_what_is_no_bytes_and_no_text_is_refused_and_nothing_is_kept(self) -> None:
        host = TestHost()
        host.answer = lambda request: self.fail("it was sent")
        for keep in [
            lambda ctx, given: ctx.kv.set("a", given),
            lambda ctx, given: ctx.kv.compare_and_set("a", None, given),
            lambda ctx, given: ctx.kv.compare_and_set("a", given, b""),
            lambda ctx, given: ctx.state.save_bytes(given),
            lambda ctx, given: leasehold.post("https://a.example", data=given),
        ]:
            for given in [7, True, [1, 2]]:
                with self.assertRaisesRegex(TypeError, f"or str, not {type(given).__name__}"):
                    host.call(keep, given)
        self.assertEqual((host.values, host.saved), ({}, None))
        for given in [b"\x00", bytearray(b"\x00"), memoryview(b"\x00"), "\x00"]:
            host.call(lambda ctx, _: ctx.kv.set("a", given))
            self.assertEqual(host.values.pop("a"), b"\x00")

    def test_a_key_that_is_no_text_and_a_progress_that_is_no_count_are_refused(self) -> None:
        host = TestHost()
        for call in [
            lambda ctx, _: ctx.kv.set(b"k", b""),
            lambda ctx, _: ctx.kv.get(5),
            lambda ctx, _: ctx.kv.list(None),
        ]:
            with self.assertRaisesRegex(TypeError, "a key must be a str, not "):
                host.call(call)
        for done, total, error in [(-1, None, ValueError), (1, 1 << 64, ValueError), (1.5, None, TypeError)]:
            with self.assertRaises(error):
                host.call(lambda ctx, _: ctx.progress(done, total))
        host.call(lambda ctx, _: ctx.progress(1, 2, "half"))
        self.assertEqual((host.values, host.reported), ({}, [(1, 2, "half")]))

    def test_the_stores_trouble_is_a_storage_error_with_its_limit(self) -> None:
        class Full(TestHost):
            def kv_set(self, key: str, value: bytes) -> None:
                raise ContractError("over-quota", 7)

        with self.assertRaises(StorageError) as caught:
            Full().call(lambda ctx, _: ctx.kv.set("a", "b"))
        self.assertEqual((caught.exception.case, caught.exception.limit), ("over-quota", 7))

    def test_what_is_too_large_for_the_host_is_not_kept(self) -> None:
        host, long, large = TestHost(), "k" * 513, bytes((1 << 20) + 1)
        for limit, keep in [
            (512, lambda ctx, _: ctx.kv.get(long)),
            (512, lambda ctx, _: ctx.kv.set(long, b"")),
            (512, lambda ctx, _: ctx.kv.delete(long)),
            (512, lambda ctx, _: ctx.kv.list(long)),
            (512, lambda ctx, _: ctx.kv.list("", after=long)),
            (512, lambda ctx, _: ctx.kv.compare_and_set(long, None, b"")),
            (1 << 20, lambda ctx, _: ctx.kv.set("k", large)),
            (1 << 20, lambda ctx, _: ctx.kv.compare_and_set("k", None, large)),
            (1 << 20, lambda ctx, _: ctx.state.save_bytes(large)),
        ]:
            with self.assertRaises(StorageError) as caught:
                host.call(keep)
            self.assertEqual((caught.exception.case, caught.exception.limit), ("too-large", limit))
        self.assertEqual((host.values, host.saved), ({}, None))
        host.call(lambda ctx, _: ctx.kv.set(long[1:], large[1:]))

    def test_settings_have_a_default(self) -> None:
        host = TestHost()
        host.settings["REGION"] = "eu"
        read = host.call(lambda ctx, _: [ctx.config.get("REGION"), ctx.config.get("X"), ctx.config.get("X", "y")])
        self.assertEqual(read, ["eu", None, "y"])


class Requests(unittest.TestCase):
    def test_json_and_forms_are_sent_as_such(self) -> None:
        host, seen = TestHost(), []
        host.answer = lambda request: seen.append(request) or reply(200, json_value=[1], x_reply="a")

        def run(ctx: Context, _: object) -> object:
            response = leasehold.post("https://a.example/x", json={"ü": 1}, params={"q": "a b"})
            leasehold.put("https://a.example/x", data={"a": "ü"}, headers={"X-One": "1"})
            response.raise_for_status()
            return [response.json(), response.headers["X-Reply"], response.ok]

        self.assertEqual(host.call(run), [[1], "a", True])
        self.assertEqual((seen[0].method, seen[0].url, seen[0].json()), ("POST", "https://a.example/x?q=a+b", {"ü": 1}))
        self.assertEqual(seen[0].headers["content-type"], "application/json")
        self.assertEqual((seen[1].body, seen[1].headers["x-one"]), (b"a=%C3%BC", "1"))

    def test_lists_are_a_name_for_each_value_and_none_is_left_out(self) -> None:
        host, seen = TestHost(), []
        host.answer = lambda request: seen.append(request) or reply()

        def run(ctx: Context, _: object) -> None:
            values = {"id": [1, None, 2], "q": "a b", "raw": b"x", "none": None, "no": []}
            leasehold.post("https://a.example/x?y=1", params=values, data=values)
            leasehold.get("https://a.example/x", params={"none": None})

        host.call(run)
        self.assertEqual(seen[0].url, "https://a.example/x?y=1&id=1&id=2&q=a+b&raw=x")
        self.assertEqual(seen[0].body, b"id=1&id=2&q=a+b&raw=x")
        self.assertEqual(seen[1].url, "https://a.example/x")

    def test_arguments_have_the_places_and_forms_they_have_in_requests(self) -> None:
        host, seen = TestHost(), []
        host.answer = lambda request: seen.append(request) or reply()
        url, pairs = "https://a.example", [("q", 1), ("q", "a b"), ("none", None)]

        def run(ctx: Context, _: object) -> None:
            leasehold.get(url, {"q": 1})
            leasehold.get(url, pairs)
            leasehold.get(url, "q=1")
            leasehold.post(url, {"a": 1})
            leasehold.post(url, None, {"a": 1})
            leasehold.put(url, pairs)
            leasehold.patch(url, b"raw")
            leasehold.delete(url, json=[1])
            leasehold.request("get", url, {"q": 1})

        host.call(run)
        self.assertEqual([one.url for one in seen[:3]], [url + "?q=1", url + "?q=1&q=a+b", url + "?q=1"])
        self.assertEqual([one.body for one in seen[3:8]], [b"a=1", b'{"a": 1}', b"q=1&q=a+b", b"raw", b"[1]"])
        self.assertEqual((seen[8].method, seen[8].url), ("GET", url + "?q=1"))

    def test_a_slip_in_an_option_is_told_by_the_call_s_own_name(self) -> None:
        for call in [leasehold.get, leasehold.post]:
            with self.assertRaisesRegex(TypeError, rf"^{call.__name__}\(\) got an unexpected keyword argument 'haeders'"):
                call("https://a.example", haeders={})

    def test_a_pair_of_timeouts_is_added_up(self) -> None:
        told = []

        class Listening(TestHost):
            def send(self, *request: object) -> tuple:  # type: ignore[override]
                told.append(request[-1])
                return 200, [], b""

        for timeout in [None, 0.0001, 3, (3, 10), (3.05, None)]:
            Listening().call(lambda ctx, _: leasehold.get("https://a.example", timeout=timeout).status_code)
        self.assertEqual(told, [None, 1, 3000, 13000, None])

    def test_a_header_is_text_bytes_or_a_number_and_none_is_left_out(self) -> None:
        host, seen = TestHost(), []
        host.answer = lambda request: seen.append(request) or reply()
        headers = {"A": "grüße", "B": "ü".encode(), "C": 7, "D": 0.5, "E": None}
        host.call(lambda ctx, _: leasehold.get("https://a.example", headers=headers).status_code)
        self.assertEqual(seen[0].headers, {"a": "grüße", "b": "ü", "c": "7", "d": "0.5"})
        for given in [["x"], {"x": 1}, object()]:
            with self.assertRaisesRegex(TypeError, "the header X-One must be a str, bytes or a number, not "):
                host.call(lambda ctx, _: leasehold.get("https://a.example", headers={"X-One": given}))
        with self.assertRaises(UnicodeDecodeError):
            host.call(lambda ctx, _: leasehold.get("https://a.example", headers={"X-One": b"\xff"}))
        self.assertEqual(len(seen), 1)

    def test_what_the_host_does_not_send_is_not_answered(self) -> None:
        host, url = TestHost(), "https://a.example"
        host.answer = lambda _: reply()
        host.call(lambda ctx, _: leasehold.post(url, b"", headers={"X-Note": "grüße\t"}).status_code)
        for url, headers, body, why in [
            ("/orders", {}, b"", "invalid: the URL cannot be used: it is not a URL: relative URL without a base"),
            ("ftp://a", {}, b"", "invalid: the URL cannot be used: its scheme is neither https nor http"),
            (url + "/ b", {}, b"", "invalid: the URL cannot be used: it contains a space or a control character"),
            (url, {"x note": "a"}, b"", 'invalid: "x note" is no header\'s name'),
            (url, {"x-note": "a\nb"}, b"", "invalid: the header x-note has a value that cannot be sent"),
            (url, {f"x-{n}": "a" for n in range(101)}, b"", "invalid: it has 101 headers, more than 100"),
            (url, {"x-note": "a" * 65536}, b"", "65536"),
            (url, {}, bytes((1 << 20) + 1), "1048576"),
        ]:
            with self.assertRaises(HttpError) as caught:
                host.call(lambda ctx, _: leasehold.post(url, body, headers=headers).status_code)
            self.assertIn(why, str(caught.exception))

    def test_a_status_is_retryable_where_another_try_may_help(self) -> None:
        for status, kind in [(503, Retryable), (429, Retryable), (404, Permanent)]:
            host = TestHost()
            host.answer = lambda _: reply(status)
            with self.assertRaises(kind) as caught:
                host.call(lambda ctx, _: leasehold.get("https://a.example").raise_for_status())
            self.assertEqual(caught.exception.details["status"], str(status))

    def test_without_an_answer_nothing_is_granted_and_an_answer_may_fail(self) -> None:
        host = TestHost()
        with self.assertRaises(HttpError) as caught:
            host.call(lambda ctx, _: leasehold.get("https://a.example").status_code)
        self.assertEqual(caught.exception.case, "denied")

        def fail(_: object) -> leasehold.Response:
            raise http_error("timeout")

        host.answer = fail
        with self.assertRaises(HttpError) as caught:
            host.call(lambda ctx, _: leasehold.get("https://a.example").status_code)
        self.assertEqual(caught.exception.case, "timeout")


class Logging(unittest.TestCase):
    def test_records_become_lines_with_level_target_and_fields(self) -> None:
        lines = []

        class Listening(TestHost):
            def emit(self, *line: object) -> None:  # type: ignore[override]
                lines.append(line)

        before = set_host(Listening())
        logger = logging.Logger("orders", _logging.TRACE)
        logger.addHandler(_logging.HostHandler())
        try:
            logger.log(_logging.TRACE, "t")
            logger.warning("grüße %d", 7, extra={"n": 7, "s": "späß"})
            logger.critical("c")
            try:
                raise ValueError("why")
            except ValueError:
                logger.exception("failed")
        finally:
            set_host(before)
        self.assertEqual(lines[0], ("trace", "orders", "t", []))
        self.assertEqual(lines[1], ("warn", "orders", "grüße 7", [("n", "7"), ("s", "späß")]))
        self.assertEqual(lines[2][0], "error")
        self.assertIn("ValueError: why", lines[3][2])


if __name__ == "__main__":
    unittest.main()

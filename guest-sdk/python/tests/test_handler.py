"""A handler as the host calls it, and what becomes of what it raises."""

import unittest

from leasehold import Cancelled, HttpError, Permanent, Retryable, StorageError, handler
from leasehold._errors import failure
from leasehold.testing import TestHost


class Payloads(unittest.TestCase):
    def test_json_goes_in_and_comes_out_exact(self) -> None:
        for value in [None, 0, "grüße 😀\u0000\u2028", [1.5, {"ä": []}]]:
            self.assertEqual(TestHost().call(lambda ctx, given: given, value), value)

    def test_output_is_utf_8_without_escapes_or_spaces(self) -> None:
        self.assertEqual(TestHost().call_bytes(lambda ctx, given: {"a": "ü"}), '{"a":"ü"}'.encode())

    def test_an_empty_payload_is_none(self) -> None:
        self.assertIsNone(TestHost().call(lambda ctx, given: given, b""))

    def test_bytes_and_text_are_given_to_who_asks_for_them(self) -> None:
        @handler(input="bytes")
        def raw(ctx, given):
            return given

        @handler(input="text")
        def text(ctx, given):
            return given.upper().encode()

        self.assertEqual(TestHost().call_bytes(raw, b"\xff\x00"), b"\xff\x00")
        self.assertEqual(TestHost().call_bytes(text, "grün".encode()), "GRÜN".encode())
        with self.assertRaises(Permanent) as caught:
            TestHost().call(text, b"\xff")
        self.assertEqual(caught.exception.code, "bad-input")

    def test_what_is_not_json_is_refused_with_its_code(self) -> None:
        with self.assertRaises(Permanent) as caught:
            TestHost().call(lambda ctx, given: given, b"{")
        self.assertEqual(caught.exception.code, "bad-input")
        for output in [object(), float("nan"), {1, 2}]:
            with self.assertRaises(Permanent) as caught:
                TestHost().call(lambda ctx, given: output)
            self.assertEqual(caught.exception.code, "bad-output")

    def test_an_async_handler_is_refused_where_it_is_marked(self) -> None:
        async def later(ctx, given):
            return given

        async def several(ctx, given):
            yield given

        for function in [later, several]:
            for mark in [handler, handler(input="text")]:
                with self.assertRaisesRegex(TypeError, f"{function.__name__} is async: write `def`"):
                    mark(function)

    def test_a_megabyte_comes_back(self) -> None:
        text = "ü" * (1 << 19)
        self.assertEqual(TestHost().call(lambda ctx, given: given, text), text)


class Errors(unittest.TestCase):
    def test_an_exception_nobody_caught_is_permanent_with_its_text_and_its_stack(self) -> None:
        try:
            {}["missing"]
        except KeyError as error:
            told = failure(error)
        assert isinstance(told, Permanent)
        self.assertEqual((told.code, told.message), ("exception", "KeyError: 'missing'"))
        self.assertIn("test_handler.py", told.details["stack"])

    def test_long_exceptions_are_cut_to_whole_characters_of_at_most_a_kibibyte(self) -> None:
        try:
            raise ValueError("ü" * 5000)
        except ValueError as error:
            told = failure(error)
        assert isinstance(told, Permanent)
        for text in [told.message, told.details["stack"]]:
            self.assertTrue(1000 < len(text.encode()) <= 1024)

    def test_trouble_with_the_host_has_a_kind_and_a_code(self) -> None:
        self.assertIsInstance(failure(StorageError("lost")), Cancelled)
        self.assertIsInstance(failure(HttpError("lost")), Cancelled)
        for error, kind, code in [
            (StorageError("unavailable", "x"), Retryable, "storage-unavailable"),
            (StorageError("over-quota", 7), Permanent, "storage-over-quota"),
            (HttpError("denied", "x"), Permanent, "http-denied"),
            (HttpError("timeout"), Retryable, "http-timeout"),
            (HttpError("other", "x"), Retryable, "http"),
        ]:
            told = failure(error)
            assert not isinstance(told, Cancelled)
            self.assertEqual((type(told), told.code), (kind, code))

    def test_the_cause_is_a_detail_of_at_most_a_kibibyte(self) -> None:
        def told(**details: object) -> object:
            try:
                try:
                    raise ValueError("ü" * 5000)
                except ValueError as error:
                    raise Retryable("busy", "again", details) from error
            except Retryable as error:
                return failure(error).details

        cause = told()["cause"]
        self.assertTrue(cause.startswith("ValueError: ü") and 1000 < len(cause.encode()) <= 1024)
        self.assertEqual(told(cause="mine"), {"cause": "mine"})
        self.assertEqual(failure(Permanent("a", "b")).details, {})

    def test_details_become_text(self) -> None:
        self.assertEqual(Permanent("bad-port", "no", {"port": 70000}).details, {"port": "70000"})


if __name__ == "__main__":
    unittest.main()

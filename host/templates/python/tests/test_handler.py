import unittest

from leasehold import Cancelled
from leasehold.testing import TestHost
from handler import greet


class Greeting(unittest.TestCase):
    def test_it_greets_by_name(self) -> None:
        self.assertEqual(TestHost().call(greet, {"name": "Ada"}), {"text": "Hello, Ada!"})

    def test_it_greets_nobody_once_the_run_is_lost(self) -> None:
        host = TestHost()
        host.stop("lost")
        with self.assertRaises(Cancelled):
            host.call(greet, {"name": "Ada"})


if __name__ == "__main__":
    unittest.main()

"""What every ContentSeen must do. Run by tests that provide `exact` and `near` fixtures: fresh, empty sets."""

from opilio.core.protocols import DuplicateDetector

BIG = (1 << 63) - 1


class ContentSeenChecks:
    def test_new_text_has_no_original(self, exact: DuplicateDetector) -> None:
        assert exact.find_original(1, 100, 0) is None

    def test_same_fingerprint_names_first_page_s0_08(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0)
        assert exact.find_original(2, 100, 0) == (1, False)
        assert exact.find_original(3, 100, 0) == (1, False)

    def test_page_fetched_again_is_no_duplicate_of_itself(self, near: DuplicateDetector) -> None:
        assert near.find_original(1, 100, 7) is None
        assert near.find_original(1, 100, 7) is None
        assert near.find_original(1, 101, 6) is None

    def test_too_little_text_is_never_a_duplicate(self, near: DuplicateDetector) -> None:
        assert near.find_original(1, 0, 0) is None
        assert near.find_original(2, 0, 0) is None

    def test_near_text_is_not_looked_for_when_off(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0b1111)
        assert exact.find_original(2, 101, 0b1110) is None

    def test_near_text_is_found_up_to_three_bits_s0_e6(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0)
        near.find_original(2, 101, -1)
        flipped = BIG ^ (1 << 20) ^ 1  # one bit in three of the four bands, the sign among them
        assert near.find_original(3, 102, flipped) == (2, True)
        assert near.find_original(4, 103, BIG ^ (1 << 40) ^ (1 << 20) ^ 1) is None

    def test_nearest_of_several_is_named(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0xFF00FF00FF)
        near.find_original(2, 101, 0xFF00FF00FF ^ 0b1111)
        assert near.find_original(3, 102, 0xFF00FF00FF ^ 0b1110) == (2, True)

    def test_exact_match_goes_before_near_match(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, BIG)
        near.find_original(2, 200, 12345)
        assert near.find_original(3, 200, BIG) == (2, False)

    def test_changed_page_is_found_by_its_new_text_only(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0x1111_2222_3333_4444)
        near.find_original(1, 101, 0x5555_6666_7777_0008)
        assert near.find_original(2, 102, 0x5555_6666_7777_0009) == (1, True)
        assert near.find_original(3, 103, 0x1111_2222_3333_4445) is None

    def test_extreme_values_are_kept(self, exact: DuplicateDetector) -> None:
        exact.find_original(-BIG - 1, -BIG - 1, 1)
        assert exact.find_original(BIG, -BIG - 1, 1) == (-BIG - 1, False)
        assert exact.find_original(BIG, BIG, 1) is None

    def test_text_of_a_page_that_changed_or_went_belongs_to_whoever_has_it_next(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0)
        exact.find_original(1, 101, 0)
        exact.forget(1, 100)
        assert exact.find_original(2, 100, 0) is None
        exact.forget(1, 100)
        assert exact.find_original(3, 100, 0) == (2, False)
        assert exact.find_original(3, 101, 0) == (1, False)

    def test_signature_of_a_page_that_went_is_forgotten_that_of_a_changed_one_is_not(
        self, near: DuplicateDetector
    ) -> None:
        near.find_original(1, 100, BIG)
        near.forget(1, 99)
        assert near.find_original(2, 101, BIG) == (1, True)
        near.forget(1, 100, gone=True)
        assert near.find_original(2, 101, BIG) is None

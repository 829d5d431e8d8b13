"""Prime factors."""


def largest_prime(number: int) -> int:
    """The largest prime factor."""
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            number, largest = number // factor, factor
        factor += 1
    return max(largest, number)

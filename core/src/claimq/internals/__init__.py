"""Operations that only claimq's own programs need. They are not part of the public API."""

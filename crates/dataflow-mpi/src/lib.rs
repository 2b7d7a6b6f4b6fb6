//! The communication thread between ranks; still an empty room, furnished by the protocol to come (design: ARCHITECTURE.md, "Where a transport goes").

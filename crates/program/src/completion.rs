//! What a shell completes, and the pages of the manual.

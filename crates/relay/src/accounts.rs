//! Accounts of a proxy's ports: the users and their passwords, or everybody.

use data_encoding::BASE64;
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;

/// The longest user, and the longest password (RFC 1929).
const LONGEST: usize = 255;

/// Users of the ports of a proxy, each with a password. If there are none, everybody may use the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// `USER:PASSWORD` of each, as HTTP has it before it is encoded (RFC 7617).
    known: Vec<Vec<u8>>,
}

/// A line of a file of passwords that makes no sense. The line is not told: it is secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("line {line} is no USER:PASSWORD, each of 1 to {LONGEST} bytes")]
pub struct BadAccount {
    /// The number of the line, from 1 on.
    pub line: usize,
}

/// A file of passwords that cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadAccounts {
    /// A line of it makes no sense.
    #[error(transparent)]
    Line(#[from] BadAccount),
    /// It is empty.
    #[error("it has no line USER:PASSWORD")]
    Empty,
}

impl Accounts {
    /// Reads a file of lines `USER:PASSWORD`. Empty lines count for nothing.
    pub fn parse(text: &str) -> Result<Self, BadAccounts> {
        let mut known = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            let is_good = |part: &str| (1..=LONGEST).contains(&part.len());
            let parts = line.split_once(':').filter(|(user, password)| is_good(user) && is_good(password));
            parts.ok_or(BadAccount { line: number + 1 })?;
            known.push(line.as_bytes().to_vec());
        }
        if known.is_empty() { Err(BadAccounts::Empty) } else { Ok(Self { known }) }
    }

    /// Returns true if nobody needs a password.
    pub fn is_open(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns true if this user has this password.
    pub fn has(&self, user: &[u8], password: &[u8]) -> bool {
        self.knows(&[user, b":", password].concat())
    }

    /// Returns true if the value of a program's `Proxy-Authorization` is right (RFC 7617).
    pub fn has_basic(&self, value: &[u8]) -> bool {
        let Some((scheme, rest)) = value.split_at_checked(6) else { return false };
        scheme.eq_ignore_ascii_case(b"basic ")
            && BASE64.decode(rest.trim_ascii()).is_ok_and(|credentials| self.knows(&credentials))
    }

    /// Takes as long for each of the same length, whatever is in it.
    fn knows(&self, credentials: &[u8]) -> bool {
        self.known.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(credentials)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_user_and_a_password_which_may_have_colons() {
        let accounts = Accounts::parse("ada:secret\n\nbob:a:b\n").unwrap();
        assert!(!accounts.is_open() && Accounts::default().is_open());
        assert!(accounts.has(b"ada", b"secret") && accounts.has(b"bob", b"a:b"));
        for (user, password) in [("ada", "secre"), ("ada", "a:b"), ("", "secret"), ("adasecret", "")] {
            assert!(!accounts.has(user.as_bytes(), password.as_bytes()), "{user}, {password}");
        }
        // RFC 7617 has this example: Aladdin, open sesame.
        let accounts = Accounts::parse("Aladdin:open sesame").unwrap();
        for value in ["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ== "] {
            assert!(accounts.has_basic(value.as_bytes()), "{value}");
        }
        for value in ["", "Basic", "Basic QWxhZGRpbjpvcGVu", "Basic ?", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="] {
            assert!(!accounts.has_basic(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn what_is_no_account_is_refused_by_its_line() {
        let long = format!("ada:{}", "x".repeat(256));
        for (text, line) in [("ada", 1), ("ada:", 1), (":secret", 1), ("ada:secret\n\nbob", 3), (long.as_str(), 1)] {
            assert_eq!(Accounts::parse(text), Err(BadAccount { line }.into()), "{text}");
        }
        assert_eq!(Accounts::parse("\n"), Err(BadAccounts::Empty));
    }
}

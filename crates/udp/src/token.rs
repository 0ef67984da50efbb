//! The tokens that an end takes which listens: one for all, and one for each client that has a name.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use rustls::crypto::ring;

/// 128 bits cannot be guessed.
pub(super) const LENGTH: usize = 16;
const LONGEST_NAME: usize = 64;

/// A token. It has no `Debug`: it must not come into a log.
#[derive(Clone)]
pub struct Token(pub(super) [u8; LENGTH]);

impl Token {
    /// A new one. None if the system gives no random numbers.
    pub fn generate() -> Option<Self> {
        let mut token = [0; LENGTH];
        ring::default_provider().secure_random.fill(&mut token).ok()?;
        Some(Self(token))
    }

    /// Reads what [`Token::text`] wrote.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|error| error.to_string())?;
        bytes.try_into().map(Self).map_err(|_| "a token has another length".to_owned())
    }

    /// Returns true if `text` is this token. The time that takes does not depend on where they differ: hashes of BLAKE3
    /// are compared in constant time.
    pub fn is(&self, text: &str) -> bool {
        blake3::hash(self.text().as_bytes()) == blake3::hash(text.as_bytes())
    }

    /// As it travels.
    pub fn text(&self) -> String {
        BASE64URL_NOPAD.encode(&self.0)
    }
}

/// A text cannot be the name of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be a name: a name has 1 to {LONGEST_NAME} characters, which are a to z, A to Z, 0 to 9, `-`, `_` and `.`"
)]
pub struct BadName(String);

/// Refuses what is no name of a client.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let may_be = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(may_be) {
        return Ok(());
    }
    Err(BadName(name.chars().take(LONGEST_NAME + 1).collect()))
}

/// A token that is valid, and whose it is.
#[derive(Clone)]
pub struct KnownToken {
    /// The client that alone has it. None: it is the token of `weft pair` without a name.
    pub name: Option<String>,
    /// Token that the client shows.
    pub token: Token,
}

/// All that are valid.
#[derive(Clone)]
pub struct Tokens(Vec<KnownToken>);

impl Tokens {
    pub(super) fn new(plain: &Token, named: &BTreeMap<String, Token>) -> Self {
        let plain = KnownToken { name: None, token: plain.clone() };
        let named = named.iter().map(|(name, token)| KnownToken { name: Some(name.clone()), token: token.clone() });
        Self([plain].into_iter().chain(named).collect())
    }

    /// The one that `text` is. All are compared: the time that takes does not tell which one it is.
    pub fn find(&self, text: &str) -> Option<&KnownToken> {
        let is = |(at, known): (usize, &KnownToken)| usize::from(known.token.is(text)) * (at + 1);
        let place = self.0.iter().enumerate().map(is).max()?;
        self.0.get(place.checked_sub(1)?)
    }

    /// Returns true if `token` is still valid.
    pub fn has(&self, token: &Token) -> bool {
        self.find(&token.text()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_few_kinds_of_characters() {
        for name in ["a", "laptop", "Lap-top_2.home", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "lap top", "ä", "a/b", "a\n", "\u{1b}[2J", &"x".repeat(65)] {
            let told = check_name(name).unwrap_err().to_string();
            assert!(told.contains("1 to 64 characters") && !told.contains(char::is_control), "{told}");
        }
    }

    #[test]
    fn each_token_is_found_with_the_name_it_has() {
        let token = |byte| Token([byte; LENGTH]);
        let named = [("laptop".to_owned(), token(2)), ("phone".to_owned(), token(3))].into();
        let tokens = Tokens::new(&token(1), &named);
        let name = |byte| tokens.find(&token(byte).text()).map(|known| known.name.clone());
        assert_eq!(name(1), Some(None));
        assert_eq!(name(2), Some(Some("laptop".to_owned())));
        assert_eq!(name(3), Some(Some("phone".to_owned())));
        assert_eq!(name(4), None);
        assert!(tokens.find("").is_none());
        assert!(tokens.has(&token(3)) && !tokens.has(&token(4)));
    }
}

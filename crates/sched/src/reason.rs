//! A scheduler's reasons for people.

use weftway_path::PathId;

/// A scheduler's reason in which each path, which is `p` and its number there, has the name that the user knows.
pub fn named(reason: &str, label: impl Fn(PathId) -> Option<String>) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut told = String::with_capacity(reason.len());
    let mut rest = reason;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter| is_word(letter) != is_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let number = word.strip_prefix('p').and_then(|digits| digits.parse::<u8>().ok());
        let path = number.filter(|number| usize::from(*number) < PathId::MAX_PATHS).map(PathId::new);
        match path.and_then(&label) {
            Some(name) => told.push_str(&name),
            None => told.push_str(word),
        }
        rest = after;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_names_that_the_user_knows() {
        let label = |path: PathId| ["wlan0", "wwan0"].get(path.index()).map(|name| (*name).to_owned());
        let told = |reason| named(reason, label);
        assert_eq!(told("p0 has the smallest srtt, 12 ms"), "wlan0 has the smallest srtt, 12 ms");
        assert_eq!(
            told("p1: p0 is full (p10, p300, up0, p, é p1)"),
            "wwan0: wlan0 is full (p10, p300, up0, p, é wwan0)"
        );
        assert_eq!(told(""), "");
    }
}
